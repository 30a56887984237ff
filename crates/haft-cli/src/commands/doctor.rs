//! `haft doctor`: checks the workspace, settings, state and sandbox. Fails if something that haft needs does not work.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use haft_core::Workspace;
use haft_dialects as dialects;
use haft_sandbox::sandbox;
use haft_sandbox::{FolderAccess, egress};
use serde_json::json;

use super::setup::{self, Remark};
use crate::args::Common;
use crate::style::{self, BAD, BOLD, DIM, GOOD, one_line, sanitize};
use crate::table;
use haft_host::HostError;
use haft_host::settings::{self, Folders, Loaded, Presence, Trust};

/// The result of one check.
struct Finding {
    what: &'static str,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Good,
    Note,
    Bad,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Note => "note",
            State::Bad => "bad",
        }
    }
}

pub(super) fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let root = haft_host::any_folder(common.workspace.as_deref())?;
    let folders = Folders::find()?;
    let findings = examine(common, &root, &folders);
    let healthy = findings.iter().all(|finding| finding.state != State::Bad);
    let mut out = anstream::stdout().lock();
    if common.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|finding| json!({"what": finding.what, "state": finding.state.word(), "detail": finding.detail}))
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        writeln!(out, "{BOLD}haft {}{BOLD:#}", env!("CARGO_PKG_VERSION"))?;
        for Finding { what, state, detail } in &findings {
            let (mark, style) = match state {
                State::Good => ("✓", GOOD),
                State::Note => ("·", DIM),
                State::Bad => ("✗", BAD),
            };
            // An error in a file shows the position over several lines.
            let detail = match state {
                State::Bad => sanitize(detail),
                State::Good | State::Note => one_line(detail),
            };
            writeln!(out, "{style}{mark}{style:#} {what:12} {}", table::hanging(&detail, 15))?;
        }
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The results so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, what: &'static str, state: State, detail: impl Into<String>) {
        self.0.push(Finding { what, state, detail: detail.into() });
    }

    /// Records an error, and passes on a success.
    fn check<T>(&mut self, what: &'static str, found: Result<T, impl Into<anyhow::Error>>) -> Option<T> {
        found.map_err(|error| self.add(what, State::Bad, format!("{:#}", error.into()))).ok()
    }
}

/// Tries everything that a call needs in the same way as a call does, so that what works here works there.
fn examine(common: &Common, root: &Path, folders: &Folders) -> Vec<Finding> {
    let mut found = Findings::default();
    let workspace = found.check("workspace", Workspace::open(root));
    if let Some(workspace) = &workspace {
        found.add("workspace", State::Good, workspace.root().to_string());
        found.add("confinement", State::Good, workspace.confinement());
        if common.workspace.is_none()
            && let Err(error) = haft_host::current_workspace()
        {
            found.add("workspace", State::Note, format!("no calls without --workspace: {error}"));
        }
    }
    if let Some(loaded) = found.check("settings", settings::load(folders, root, &settings::known_tools())) {
        check_settings(common, root, &loaded, workspace, &mut found);
        check_web(&loaded.settings.web, &mut found);
    }
    check_state(folders, root, &mut found);
    check_clients(root, &mut found);
    check_sandbox(folders, root, &mut found);
    found.add("user folder", State::Note, folders.config.display().to_string());
    found.0
}

fn check_settings(
    common: &Common,
    root: &Path,
    loaded: &Loaded,
    workspace: Option<Workspace>,
    found: &mut Findings,
) {
    let settings = &loaded.settings;
    if let Some(dialect) = found.check("dialect", haft_host::dialect(common.dialect.as_deref(), settings)) {
        found.add("dialect", State::Good, format!("{}: {}", dialect.name(), dialect.summary()));
    }
    for (file, presence) in &loaded.files {
        match presence {
            Presence::Found => found.add("settings", State::Good, file.display().to_string()),
            Presence::Missing => {
                found.add("settings", State::Note, format!("{} (not there)", file.display()));
            }
        }
    }
    match (loaded.trust, loaded.ignored.as_slice()) {
        (Trust::Full, _) => {
            found.add("trust", State::Good, "this folder's own settings are followed in full");
        }
        (Trust::Changed, _) => found.add(
            "trust",
            State::Note,
            "the project's settings have changed since they were trusted: `haft trust` shows them".to_owned(),
        ),
        (Trust::None, []) => found.add(
            "trust",
            State::Note,
            "not trusted: this folder's own settings could only make haft stricter",
        ),
        (Trust::None, ignored) => {
            found.add("trust", State::Note, format!("not trusted; ignored: {}", ignored.join(", ")));
        }
    }
    if let Some(workspace) = workspace {
        for dir in common.add_dir.iter().chain(&settings.add_dirs) {
            let added = workspace.with_folder(dir, FolderAccess::Write);
            if found.check("folder", added).is_some() {
                found.add("folder", State::Good, dir.display().to_string());
            }
        }
        if let Some(focus) = &common.focus {
            found.check("focus", workspace.with_focus(focus));
        }
    }
    for name in &settings.tools {
        let tool = dialects::tool_by_name(name).map_err(|fault| style::fault_error(&fault));
        if found.check("tool", tool).is_some() {
            found.add("tool", State::Good, name.as_str());
        }
    }
    for server in &loaded.servers {
        let off = if server.config.disabled { ", disabled" } else { "" };
        found.add(
            "server",
            State::Note,
            format!("{}: {} ({}{off})", server.name, server.display_target(), server.origin),
        );
    }
    for (event, hook) in settings.hooks.all() {
        let tools = if hook.matcher.is_empty() { "every tool" } else { &hook.matcher };
        match (
            found.check("hook", haft_host::command_hook(event, hook, root)),
            haft_host::unused_hook_warning(hook),
        ) {
            (None, _) => {}
            (Some(_), Some(idle)) => found.add("hook", State::Note, idle),
            (Some(_), None) => {
                found.add("hook", State::Good, format!("{} {tools}: {}", event.name(), hook.command))
            }
        }
    }
}

/// Whether the web can be reached: a route, the proxy, the search provider.
fn check_web(set: &settings::Web, found: &mut Findings) {
    match egress::has_public_route() {
        true => found.add("network", State::Good, "there is a route to public addresses"),
        false => {
            found.add("network", State::Note, "there is no route to public addresses: nothing can be fetched")
        }
    }
    if !set.allow_private.is_empty() {
        found.add(
            "web",
            State::Note,
            format!("private addresses are allowed: {}", set.allow_private.join(", ")),
        );
    }
    let Some(web) = found.check("web", set.runtime()) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Some(runtime) = found.check("web", runtime) else { return };
    let (proxy, search) = runtime.block_on(async { (web.probe_proxy().await, web.probe_search().await) });
    for (what, probed) in [("proxy", proxy), ("search", search)] {
        match probed {
            None if what == "search" => {
                found.add("search", State::Note, "no provider is configured: `web.search` in your settings");
            }
            None => {}
            Some((name, Ok(()))) => found.add(what, State::Good, format!("{name} answers")),
            Some((name, Err(fault))) => found.add(what, State::Bad, format!("{name}: {}", fault.message())),
        }
    }
}

/// Attempts of a sandboxed command to break out; each prints what succeeded.
const PROBES: &str = r#"
{ echo x > "$HOME/.haft-probe"; } 2>/dev/null && rm "$HOME/.haft-probe" && echo "it can write to the home"
{ echo x > /etc/.haft-probe; } 2>/dev/null && rm /etc/.haft-probe && echo "it can write to /etc"
{ exec 3<>/dev/tcp/1.1.1.1/53; } 2>/dev/null && echo "it can reach the network"
{ echo x > /proc/sys/kernel/core_pattern; } 2>/dev/null && echo "it can change the kernel's settings"
mount -t tmpfs none /mnt 2>/dev/null && echo "it can mount file systems"
unshare -Ur true 2>/dev/null && echo "it can make namespaces"
true
"#;

/// Makes a sandbox, reports its layers, and runs the break-out attempts in it.
fn check_sandbox(folders: &Folders, root: &Path, found: &mut Findings) {
    let recording =
        haft_host::state_folder(folders, root).folder(&format!("doctor-{}", haft_sandbox::random_id()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Some(runtime) = found.check("sandbox", runtime) else { return };
    let outcome = runtime.block_on(async {
        let policy = sandbox::Policy { write: vec![root.to_owned()], ..sandbox::Policy::default() };
        let slot = sandbox::Sandbox::default().slot(&policy, sandbox::Output::Joined).await?;
        let report = slot.report().clone();
        let env = ["HOME", "PATH"].iter().filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
        let task = sandbox::Task {
            program: "/bin/bash".into(),
            args: ["--noprofile", "--norc", "-c", PROBES].map(Into::into).into(),
            dir: root.to_owned(),
            env: env.collect(),
            input: Vec::new(),
            reports_dir: false,
            record: Some(sandbox::recorder::Options::new(vec![root.to_owned()], recording.dir().to_owned())),
            view: None,
        };
        let mut running = slot.run(task).await?;
        let mut printed = Vec::new();
        let not_recorded = loop {
            match running.next().await? {
                sandbox::RunEvent::Output(_, bytes) => printed.extend_from_slice(bytes),
                sandbox::RunEvent::Ended(end) => break end.not_recorded,
            }
        };
        anyhow::Ok((report, String::from_utf8_lossy(&printed).into_owned(), not_recorded))
    });
    let _ = recording.remove_all();
    let Some((report, printed, not_recorded)) = found.check("sandbox", outcome) else { return };
    for layer in &report.active {
        found.add("sandbox", State::Good, format!("{}: {}", layer.name(), layer.made_of()));
    }
    for (layer, why) in &report.missing {
        // Few machines let ordinary users make control groups; limits per process apply anyway.
        let state = if *layer == sandbox::Layer::Quota { State::Note } else { State::Bad };
        found.add("sandbox", state, format!("{}: missing ({}): {why}", layer.name(), layer.made_of()));
    }
    for escape in printed.lines() {
        found.add("sandbox", State::Bad, format!("a command was tried in it, and {escape}"));
    }
    if printed.trim().is_empty() {
        found.add("sandbox", State::Good, "six ways out of it were tried, and none led out");
    }
    let no_view = (!report.has(sandbox::Layer::View)).then_some(sandbox::trial::Obstacle::NoView);
    match no_view.or_else(|| sandbox::trial::obstacle(&[root.to_owned()])) {
        None => found.add(
            "trials",
            State::Good,
            "a command can be tried on a view of the workspace before it counts",
        ),
        Some(why) => found.add(
            "trials",
            State::Note,
            format!("no command can be tried: {why}; it runs directly, and is kept or undone afterwards"),
        ),
    }
    match not_recorded {
        None => {
            found.add("recorder", State::Good, "`haft undo` undoes what commands change in the workspace")
        }
        Some(why) => found.add(
            "recorder",
            State::Bad,
            format!("what commands change is not recorded and cannot be undone; replies say so: {why}"),
        ),
    }
}

/// Checks what `haft setup` wrote, or people by hand, into the settings of clients.
fn check_clients(root: &Path, found: &mut Findings) {
    for remark in found.check("client", setup::check_clients(root)).unwrap_or_default() {
        match remark {
            Remark::Works(text) => found.add("client", State::Good, text),
            Remark::Note(text) => found.add("client", State::Note, text),
            Remark::Broken(text) => found.add("client", State::Bad, text),
        }
    }
}

fn check_state(folders: &Folders, root: &Path, found: &mut Findings) {
    if found.check("state", folders.are_private()).is_none() {
        return;
    }
    let state = haft_host::state_folder(folders, root);
    let results = state.folder("results");
    if let Some(kept) = found.check("state", results.make().and_then(|()| results.entries())) {
        let bytes: u64 = kept.iter().map(|entry| entry.size).sum();
        let dir = state.dir().display();
        found.add("state", State::Good, format!("{dir} ({} kept replies, {bytes} bytes)", kept.len()));
    }
    found.check("figures", haft_host::stats(&state));
    let sessions = state.folder("sessions");
    for entry in found.check("sessions", sessions.entries()).unwrap_or_default() {
        let Some(name) = entry.name.strip_suffix(".json") else { continue };
        let read = sessions.read(&entry.name).map_err(HostError::from);
        let read = read.and_then(|bytes| haft_host::parse_session(&bytes.unwrap_or_default()));
        found.check("session", read.with_context(|| format!("`{name}` is damaged")));
    }
}
