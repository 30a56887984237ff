//! A temporary folder with the workspace and home of a case, with fixed time stamps; and the changes made in it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use chrono::DateTime;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};

use haft_testing::http::{HttpServer, response};

use super::format::{Case, Named, Section};
use super::show;

/// The modification time of all files of a case that set none.
const DEFAULT_TIME: &str = "2024-01-02T03:04:05Z";

pub(crate) struct World {
    base: PathBuf,
    kept: Vec<String>,
    plan: Option<String>,
    web: Option<HttpServer>,
    _folder: tempfile::TempDir,
}

/// Starts a server with the pages of a case, if it has any: `:: page /path` or `:: page /path, 404 Not Found`, with headers,
/// an empty line and the body.
fn serve(case: &Case) -> anyhow::Result<Option<HttpServer>> {
    let mut pages = BTreeMap::new();
    for (head, body) in case.all("page") {
        let (path, status) = head.split_once(", ").unwrap_or((head, "200 OK"));
        let (headers, content) = body.split_once("\n\n").unwrap_or((body, ""));
        let headers =
            headers.trim_end().lines().map(|line| line.split_once(": ").context("a header is `name: value`"));
        let headers: Vec<(&str, &str)> = headers.collect::<Result<_, _>>()?;
        pages.insert(path.to_owned(), response(status, &headers, content));
    }
    if pages.is_empty() {
        return Ok(None);
    }
    let missing = response("404 Not Found", &[], "");
    Ok(Some(HttpServer::start(move |request, stream| {
        let path = request.target.split('?').next().unwrap_or_default();
        stream.write_all(pages.get(path).unwrap_or(&missing))
    })))
}

/// Replaces every string after `start` for which `is_it` holds with a name.
fn replace_after(text: &str, start: &str, name: &str, is_it: impl Fn(&str) -> bool) -> String {
    let mut parts = text.split(start);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(start);
        match part.split_once('"') {
            Some((value, rest)) if is_it(value) => out.extend([name, "\"", rest]),
            _ => out.push_str(part),
        }
    }
    out
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// The entries of a folder by path, each with its type and content.
pub(crate) type Snapshot = BTreeMap<PathBuf, (String, Vec<u8>)>;

impl World {
    /// Creates the files and settings of a case.
    pub(crate) fn make(case: &Case) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let base = folder.path().canonicalize()?;
        let web = serve(case)?;
        let world = Self { base, kept: Vec::new(), plan: None, web, _folder: folder };
        fs::create_dir(world.workspace())?;
        fs::create_dir_all(world.config())?;
        for section in &case.sections {
            let made = if let Some(rest) = section.of("file") {
                world.file(rest, &section.body)
            } else if let Some(rest) = section.of("folder") {
                world.folder(rest)
            } else if let Some(rest) = section.of("link") {
                world.link(rest)
            } else if let Some(rest) = section.of("hard link") {
                world.hard_link(rest)
            } else if let Some(rest) = section.of("fifo") {
                world.fifo(rest)
            } else if section.of("settings").is_some() {
                Ok(fs::write(world.config().join("config.toml"), world.filled(&section.body))?)
            } else {
                Ok(())
            };
            made.with_context(|| section.head.clone())?;
        }
        world.date()?;
        Ok(world)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.base.join("ws")
    }

    fn config(&self) -> PathBuf {
        self.base.join("home/.config/haft")
    }

    /// The binary, in the workspace, with an environment of its own.
    pub(crate) fn haft(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        let home = self.base.join("home");
        command.current_dir(self.workspace()).env_clear();
        // Programs of the case itself come first.
        let programs = std::iter::once(self.base.join("bin"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(programs.chain(std::env::split_paths(&path)));
        command.env("PATH", path.unwrap_or_default());
        command.env("XDG_CONFIG_HOME", home.join(".config")).env("XDG_STATE_HOME", home.join("state"));
        command.env("XDG_DATA_HOME", home.join("data")).env("XDG_CACHE_HOME", home.join("cache"));
        command.env("HOME", home);
        command
    }

    /// Expands `$WS`, `$TMP`, `$PLAN` and `$KEPT` in the text of a case.
    pub(crate) fn filled(&self, text: &str) -> String {
        let text = text.replace("$WS", &self.workspace().to_string_lossy());
        let text = text.replace("$TMP", &self.base.to_string_lossy());
        let text = match &self.web {
            Some(web) => text.replace("$WEB", &web.address().to_string()),
            None => text,
        };
        let text = match &self.plan {
            Some(plan) => text.replace("$PLAN", plan),
            None => text,
        };
        match self.kept.last() {
            Some(kept) => text.replace("$KEPT", kept),
            None => text,
        }
    }

    /// Replaces what differs from run to run in haft's output with names: paths, ids and times.
    pub(crate) fn named(&mut self, text: &str) -> String {
        let state = self.base.join("home/state/haft").to_string_lossy().into_owned();
        let mut text = text.to_owned();
        while let Some(start) = text.find(&state) {
            let end = |suffix: &str| text[start..].find(suffix).map(|at| start + at + suffix.len());
            let (result, plan) = (end(".txt"), end(".md"));
            if let Some(end) = plan.filter(|plan| result.is_none_or(|result| *plan < result)) {
                let plan = text[start..end].to_owned();
                text = text.replace(&plan, "$PLAN");
                self.plan = Some(plan);
                continue;
            }
            let Some(end) = result else { break };
            let kept = text[start..end].to_owned();
            text = text.replace(&kept, "$KEPT");
            // A call can read this file, so its time is fixed, too.
            let _ = self.date_one(Path::new(&kept), DEFAULT_TIME);
            self.kept.push(kept);
        }
        if let Some(web) = &self.web {
            text = text.replace(&web.address().to_string(), "$WEB");
        }
        // Each reply has marks of its own.
        const MARK: &str = "⟦web ";
        const MARK_DIGITS: usize = 16;
        while let Some(start) = text.find(MARK).map(|at| at + MARK.len())
            && let Some(mark) = text.get(start..start + MARK_DIGITS).map(str::to_owned)
            && mark.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            text = text.replace(&mark, "$MARK");
        }
        let text = replace_after(&text, "\"created_at\": \"", "$NOW", |_| true);
        let text = replace_after(&text, "\"id\": \"", "$ID", is_uuid);
        let text = text.replace(&*self.workspace().to_string_lossy(), "$WS");
        text.replace(&*self.base.to_string_lossy(), "$TMP")
    }

    fn place(&self, name: &OsStr) -> anyhow::Result<PathBuf> {
        let path = self.workspace().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(path)
    }

    fn file(&self, rest: &str, body: &str) -> anyhow::Result<()> {
        let named = Named::parse(rest)?;
        let mut text = match named.generated()? {
            Some(text) => text,
            None => self.filled(body),
        };
        if named.has("no final newline") {
            text.pop();
        }
        if named.has("crlf") {
            text = text.replace('\n', "\r\n");
        }
        if named.has("bom") {
            text.insert(0, '\u{feff}');
        }
        let bytes = if named.has("base64") {
            let plain: String = text.split_whitespace().collect();
            base64::engine::general_purpose::STANDARD.decode(plain)?
        } else {
            text.into_bytes()
        };
        let path = self.place(&named.name)?;
        fs::write(&path, bytes)?;
        let mode = named.value("mode").unwrap_or("644");
        fs::set_permissions(&path, fs::Permissions::from_mode(u32::from_str_radix(mode, 8)?))?;
        self.date_one(&path, named.value("modified").unwrap_or(DEFAULT_TIME))
    }

    fn folder(&self, rest: &str) -> anyhow::Result<()> {
        let named = Named::parse(rest)?;
        Ok(fs::create_dir_all(self.place(&named.name)?)?)
    }

    fn link(&self, rest: &str) -> anyhow::Result<()> {
        let (name, target) = rest.split_once(" -> ").context("a link is written `name -> target`")?;
        Ok(symlink(self.filled(target), self.place(name.as_ref())?)?)
    }

    fn hard_link(&self, rest: &str) -> anyhow::Result<()> {
        let (name, target) = rest.split_once(" -> ").context("a hard link is written `name -> file`")?;
        Ok(fs::hard_link(self.workspace().join(target), self.place(name.as_ref())?)?)
    }

    fn fifo(&self, rest: &str) -> anyhow::Result<()> {
        let path = self.place(rest.as_ref())?;
        Ok(rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?)
    }

    /// Sets the times of folders and links, after everything in them is created.
    fn date(&self) -> anyhow::Result<()> {
        for (path, (kind, _)) in snapshot(&self.base)? {
            let path = self.base.join(path);
            if kind == "folder" {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            }
            if !kind.starts_with("file") {
                self.date_one(&path, DEFAULT_TIME)?;
            }
        }
        Ok(())
    }

    fn date_one(&self, path: &Path, when: &str) -> anyhow::Result<()> {
        let when = DateTime::parse_from_rfc3339(when)?;
        let time =
            Timespec { tv_sec: when.timestamp(), tv_nsec: i64::from(when.timestamp_subsec_nanos()) as _ };
        let times = Timestamps { last_access: time, last_modification: time };
        Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Reads everything below a folder.
pub(crate) fn snapshot(root: &Path) -> anyhow::Result<Snapshot> {
    let mut found = Snapshot::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let stat = fs::symlink_metadata(&path)?;
            let what = if stat.is_dir() {
                // The content of `.git` differs from run to run; cases inspect it by git's own commands.
                if path.file_name() != Some(OsStr::new(".git")) {
                    folders.push(path.clone());
                }
                ("folder".to_owned(), Vec::new())
            } else if stat.is_symlink() {
                ("link".to_owned(), fs::read_link(&path)?.as_os_str().as_bytes().to_vec())
            } else if stat.is_file() {
                (format!("file, mode {:o}", stat.permissions().mode() & 0o777), fs::read(&path)?)
            } else {
                ("other".to_owned(), Vec::new())
            };
            let below = path.strip_prefix(root).map_err(io::Error::other)?;
            found.insert(below.to_owned(), what);
        }
    }
    Ok(found)
}

/// The differences of two snapshots, as sections of a case.
pub(crate) fn changes(before: &Snapshot, after: &Snapshot) -> anyhow::Result<Vec<Section>> {
    let mut changes = Vec::new();
    for path in before.keys().filter(|path| !after.contains_key(*path)) {
        changes.push(Section::new(format!("after gone {}", path.display()), ""));
    }
    for (path, (kind, content)) in after.iter().filter(|(path, what)| before.get(*path) != Some(what)) {
        if kind == "other" {
            bail!("`{}` has become something strange", path.display());
        }
        let old_kind = before.get(path).map(|(kind, _)| kind.as_str());
        let (word, mode) = kind.split_once(", ").unwrap_or((kind, ""));
        let mode = if mode == "mode 644" || old_kind == Some(kind) { "" } else { mode };
        let comma = if mode.is_empty() { "" } else { ", " };
        let name = path.display();
        // Binary content is shown as base64.
        let Ok(content) = std::str::from_utf8(content) else {
            let mut text = base64::engine::general_purpose::STANDARD.encode(content);
            text.push('\n');
            changes
                .push(Section::new(format!("after {word} {name}{comma}{mode}, base64"), show::text(&text)));
            continue;
        };
        let mut text = show::text(content);
        let mut end = "";
        if !text.is_empty() && !content.ends_with('\n') {
            text.push('\n');
            end = if word == "file" { ", no final newline" } else { "" };
        }
        changes.push(Section::new(format!("after {word} {name}{comma}{mode}{end}"), text));
    }
    Ok(changes)
}
