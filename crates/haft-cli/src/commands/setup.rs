//! `haft setup`: shows what would be written into the settings of clients, and writes it if the user confirms.

mod check;
mod list;
mod markdown;

use std::io::{BufRead as _, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum as _;
use haft_core::Mode;
use haft_host::settings::{self, Folders};
use haft_host::setup::{self, BuiltinTools, CLIENTS, Client, Folder, Level, Places, Plan, Request};
use haft_sandbox::{process, user};
use serde_json::json;

pub(super) use check::{Remark, check_clients};

use crate::args::{Common, SetupFlags};
use crate::style::{BOLD, DIM, diff_line, sanitize};

pub(super) fn run(common: &Common, flags: &SetupFlags) -> anyhow::Result<ExitCode> {
    if flags.markdown {
        anstream::stdout().write_all(markdown::reference()?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let project = haft_host::any_folder(common.workspace.as_deref())?;
    let places = Places::of(&project)?;
    if flags.clients.is_empty() && !flags.all {
        anyhow::ensure!(
            !(flags.remove
                || flags.yes
                || flags.dry_run
                || flags.project
                || flags.no_builtin_tools
                || flags.builtin_tools),
            "name a client, or say --all"
        );
        return list::run(common, &places);
    }
    let level = if flags.project { Level::Project } else { Level::User };
    let mut plans = Vec::new();
    for client in chosen(common, flags, level, &places) {
        plans.push(if flags.remove {
            setup::plan_removal(client, level, &places)?
        } else {
            let chosen = Chosen::of(common, setup::earlier_args(client, level, &places)?, client)?;
            let mut plan = setup::plan(client, &request(&chosen, flags, level, &project)?, &places)?;
            plan.notes.extend(chosen.note());
            plan
        });
    }
    let mut out = anstream::stdout().lock();
    if common.json {
        anyhow::ensure!(
            flags.yes || flags.dry_run,
            "with --json, say `--yes` to write or `--dry-run` to see only"
        );
        if !flags.dry_run {
            plans.iter().try_for_each(Plan::carry_out)?;
        }
        writeln!(out, "{}", serde_json::to_string_pretty(&as_json(&plans, flags))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for plan in &plans {
        show(plan, flags, &mut out)?;
    }
    if plans.is_empty() {
        writeln!(out, "no client was found: `haft setup` lists those that setup knows")?;
    }
    if flags.dry_run || !plans.iter().any(Plan::is_change) {
        return Ok(ExitCode::SUCCESS);
    }
    if !flags.yes && !confirmed(&mut out)? {
        return Ok(ExitCode::FAILURE);
    }
    plans.iter().try_for_each(Plan::carry_out)?;
    for plan in plans.iter().filter(|plan| plan.is_change()) {
        let how =
            if flags.remove { "haft is no longer set up there" } else { "haft is set up; start it anew" };
        writeln!(out, "{BOLD}{}{BOLD:#}: {how}", plan.client.title)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The clients that are meant.
fn chosen(common: &Common, flags: &SetupFlags, level: Level, places: &Places) -> Vec<&'static Client> {
    if !flags.all {
        return flags.clients.iter().filter_map(|name| setup::by_name(name)).collect();
    }
    let found = setup::find(places);
    let is_meant = |client: &Client| {
        let has_level = level == Level::User || client.project.is_some();
        // Without a folder these cannot be set up, which must not keep the others from it.
        let has_folder = common.workspace.is_some() || client.folder != Folder::Named;
        let is_there = if flags.remove {
            found.iter().any(|found| found.client.name == client.name && found.level == level)
        } else {
            has_folder && client.installed(places).is_some()
        };
        has_level && is_there
    };
    CLIENTS.iter().filter(|client| is_meant(client)).collect()
}

/// The options of the entry: those that were given now, and those of an earlier setup that are not given anew.
struct Chosen {
    dialect: Option<String>,
    workspace: Option<PathBuf>,
    args: Vec<String>,
    haft_asks: bool,
    /// The options of an earlier setup, as they are typed.
    kept: Vec<String>,
}

impl Chosen {
    fn of(common: &Common, earlier: Vec<String>, client: &Client) -> anyhow::Result<Self> {
        let mut given = Vec::new();
        given.extend(common.dialect.clone().map(|dialect| ("--dialect", dialect)));
        let mode = common.mode.and_then(|mode| mode.to_possible_value());
        given.extend(mode.map(|mode| ("--mode", mode.get_name().to_owned())));
        for dir in &common.add_dir {
            let dir = user::canonical(dir)?;
            let dir = dir.to_str().with_context(|| format!("`{}` is not UTF-8", dir.display()))?;
            given.push(("--add-dir", dir.to_owned()));
        }
        let mut chosen =
            Self { dialect: None, workspace: None, args: Vec::new(), haft_asks: true, kept: Vec::new() };
        if let Some(dir) = &common.workspace {
            chosen.workspace = Some(user::canonical(dir)?);
        }
        let mut earlier = earlier.into_iter();
        while let Some(word) = earlier.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                // Each of these options has a value.
                None => (word, earlier.next()),
            };
            let Some(value) = value.filter(|_| name.starts_with("--")) else { break };
            let is_variable = matches!(client.folder, Folder::Variable(variable) if variable == value);
            let is_given = given.iter().any(|(given, _)| *given == name)
                || name == "--workspace" && (chosen.workspace.is_some() || is_variable);
            if is_given {
                continue;
            }
            chosen.kept.push(format!("{name} {value}"));
            match name.as_str() {
                "--workspace" => chosen.workspace = Some(value.into()),
                _ => chosen.add(name, value),
            }
        }
        for (name, value) in given {
            chosen.add(name.to_owned(), value);
        }
        Ok(chosen)
    }

    fn add(&mut self, name: String, value: String) {
        match name.as_str() {
            "--dialect" => self.dialect = Some(value.clone()),
            "--mode" => self.haft_asks = value != Mode::Bypass.name(),
            _ => {}
        }
        self.args.extend([name, value]);
    }

    fn note(&self) -> Option<String> {
        let kept = self.kept.join(" ");
        (!kept.is_empty()).then(|| {
            format!(
                "`{kept}` stays, from an earlier setup: give an option anew to change it, or --remove the entry first"
            )
        })
    }
}

fn request(chosen: &Chosen, flags: &SetupFlags, level: Level, project: &Path) -> anyhow::Result<Request> {
    let loaded = settings::load(&Folders::find()?, project, &settings::known_tools())?;
    let dialect = haft_host::dialect(chosen.dialect.as_deref(), &loaded.settings)?;
    let tools = dialect.tools().iter().map(|tool| tool.spec().name.to_string()).collect();
    // With --project the folder only says which project is meant.
    let workspace = chosen.workspace.clone().filter(|_| level == Level::User);
    let builtin_tools = match (flags.no_builtin_tools, flags.builtin_tools) {
        (true, _) => BuiltinTools::Off,
        (_, true) => BuiltinTools::On,
        _ => BuiltinTools::AsBefore,
    };
    let (args, haft_asks) = (chosen.args.clone(), chosen.haft_asks);
    Ok(Request { level, command: command()?, args, workspace, tools, haft_asks, builtin_tools })
}

/// How clients start haft: by its name, if that means this program, or by its path.
fn command() -> anyhow::Result<String> {
    if process::is_this_program(setup::ENTRY) {
        return Ok(setup::ENTRY.to_owned());
    }
    let path: PathBuf = std::env::current_exe().context("the path of this program")?;
    anyhow::ensure!(
        user::exists(&path),
        "this program was replaced or deleted since it started (`{}`): start the new one",
        path.display()
    );
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("`{}` is not UTF-8", path.display()))
}

fn show(plan: &Plan, flags: &SetupFlags, out: &mut impl Write) -> anyhow::Result<()> {
    let title = plan.client.title;
    if !plan.is_change() {
        let how = if flags.remove { "not set up" } else { "already set up" };
        let files: Vec<String> = plan.files.iter().map(|file| file.path.display().to_string()).collect();
        writeln!(out, "{BOLD}{title}{BOLD:#}: {how} {DIM}({}){DIM:#}", sanitize(&files.join(", ")))?;
    } else {
        writeln!(out, "{BOLD}{title}{BOLD:#}")?;
    }
    for file in plan.files.iter().filter(|file| file.is_change()) {
        for line in file.diff().lines() {
            writeln!(out, "{}", diff_line(line))?;
        }
    }
    for note in &plan.notes {
        writeln!(out, "{DIM}note: {}{DIM:#}", sanitize(note))?;
    }
    Ok(())
}

fn as_json(plans: &[Plan], flags: &SetupFlags) -> serde_json::Value {
    let is_written = flags.yes && !flags.dry_run;
    let file = |file: &setup::FileChange| {
        json!({
            "path": file.path.display().to_string(),
            "changes": file.is_change(),
            "diff": if file.is_change() { file.diff() } else { String::new() },
        })
    };
    let plan = |plan: &Plan| {
        json!({
            "client": plan.client.name,
            "level": plan.level.name(),
            "written": is_written && plan.is_change(),
            "files": plan.files.iter().map(file).collect::<Vec<_>>(),
            "notes": plan.notes,
        })
    };
    plans.iter().map(plan).collect()
}

fn confirmed(out: &mut impl Write) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        anyhow::bail!(
            "nobody is there to agree: say `--yes` to write the changes above, `--dry-run` to see them only"
        );
    }
    write!(out, "write this? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
