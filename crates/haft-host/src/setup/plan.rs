//! Plans: what setup would write into each file of a client, or take back. Nothing changes until a plan is carried out, and
//! a file that another program changes in between is left alone.

use std::path::{Path, PathBuf};

use haft_sandbox::Store;
use haft_sandbox::user::{self, Reader};
use haft_text::{DiffLimits, Side, unified};
use serde_json::Value;

use super::client::{Client, Extra, Files, Folder, Level};
use super::document::{Form, Problem, Step};
use super::edit::{Edit, Made};
use super::find::entry;
use super::record::{Record, Splice, hash};
use super::{ENTRY, Places};
use crate::error::{Explain as _, HostError, HostErrorKind};

/// Maximum size of a configuration file.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What setup shall write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// For the user or for the project.
    pub level: Level,
    /// The program of the entry.
    pub command: String,
    /// The arguments after `mcp`, without `--workspace`.
    pub args: Vec<String>,
    /// The folder to serve; `None` leaves it to the client.
    pub workspace: Option<PathBuf>,
    /// The names of haft's tools, for clients that have to be told each one.
    pub tools: Vec<String>,
    /// Whether haft asks before calls that need approval. If it does not, the client's own question stays on.
    pub haft_asks: bool,
    /// Whether the client's own tools for files and commands are switched off.
    pub builtin_tools: BuiltinTools,
}

/// Whether a client's own tools for files and commands are switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BuiltinTools {
    /// They are switched off.
    Off,
    /// They are left, or switched on again if an earlier setup switched them off.
    On,
    /// They stay as an earlier setup left them; without one, they are left on.
    #[default]
    AsBefore,
}

/// What would be written for a client, or taken back.
#[derive(Debug)]
pub struct Plan {
    /// The client.
    pub client: &'static Client,
    /// For the user or for the project.
    pub level: Level,
    /// The files of the client, also those that stay as they are.
    pub files: Vec<FileChange>,
    /// What the user should know besides.
    pub notes: Vec<String>,
    pub(super) records: Store,
}

/// A file of a plan.
#[derive(Debug)]
pub struct FileChange {
    /// Its path.
    pub path: PathBuf,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    pub(super) record: Option<Record>,
    pub(super) had_record: bool,
    pub(super) reader: Reader,
    pub(super) folders: Vec<PathBuf>,
}

impl FileChange {
    /// Whether the file would change.
    pub fn is_change(&self) -> bool {
        self.before != self.after
    }

    /// The change as a unified diff.
    pub fn diff(&self) -> String {
        let shown = self.path.display().to_string();
        let name =
            |text: &Option<String>| if text.is_some() { shown.clone() } else { "/dev/null".to_owned() };
        let (old, new) = (name(&self.before), name(&self.after));
        let bytes = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
        let (before, after) = (bytes(&self.before), bytes(&self.after));
        let (before, after) = (Side { name: &old, bytes: &before }, Side { name: &new, bytes: &after });
        let diff = unified(before, after, DiffLimits::default()).text;
        haft_text::shorten_long_lines(&diff).into_owned()
    }

    fn carry_out(&self, records: &Store) -> Result<(), HostError> {
        let failed = || format!("`{}` was not changed", self.path.display());
        match (&self.before, &self.after) {
            _ if !self.is_change() => return Ok(()),
            (before, Some(after)) => {
                // Written first: without it a file that was changed could not be restored.
                self.keep_record(records)?;
                let before = before.as_ref().map(String::as_bytes);
                user::replace(&self.path, before, after.as_bytes(), self.reader)
                    .explain(HostErrorKind::Settings, failed)?;
            }
            (Some(before), None) => {
                user::delete(&self.path, before.as_bytes()).explain(HostErrorKind::Settings, failed)?;
                self.folders.iter().rev().for_each(|folder| user::remove_empty(folder));
            }
            (None, None) => {}
        }
        if self.record.is_none() { self.keep_record(records) } else { Ok(()) }
    }

    fn keep_record(&self, records: &Store) -> Result<(), HostError> {
        match &self.record {
            Some(record) => record.save(records, &self.path),
            None if self.had_record => Record::forget(records, &self.path),
            None => Ok(()),
        }
    }
}

impl Plan {
    /// Whether any file would change.
    pub fn is_change(&self) -> bool {
        self.files.iter().any(FileChange::is_change)
    }

    /// Writes the files. The first failure ends it; files before that one are written.
    pub fn carry_out(&self) -> Result<(), HostError> {
        self.files.iter().try_for_each(|file| file.carry_out(&self.records))
    }
}

/// Plans what [`Request`] asks for. Fails if a file cannot be parsed, or if the client lacks what is asked.
pub fn plan(client: &'static Client, request: &Request, places: &Places) -> Result<Plan, HostError> {
    let files = files_of(client, request.level, places)?;
    let (mut in_entry, mut elsewhere, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    const QUESTION: &str = "its own question before each call";
    let question = request.haft_asks.then_some((QUESTION, client.question));
    if !request.haft_asks {
        notes.push(format!("{QUESTION} stays on, since haft would not ask in this mode"));
    }
    let stays_off =
        request.builtin_tools == BuiltinTools::AsBefore && is_without_tools(client, files, places)?;
    if stays_off {
        notes.push(
            "its own tools stay off, as an earlier setup has it: --builtin-tools switches them on".to_owned(),
        );
    }
    let without_tools = stays_off || request.builtin_tools == BuiltinTools::Off;
    let tools = without_tools.then_some(("its own tools", client.tools));
    let switches = question.into_iter().chain(tools);
    for (what, switch) in switches {
        notes.extend(switch.lacks().map(|why| format!("{what}: {why}")));
        for extra in switch.extras() {
            match extra {
                Extra::EntryText(..) | Extra::EntryTrue(_) => in_entry.push(*extra),
                _ if files.settings.is_empty() => notes.push(format!(
                    "{what}: {} takes that from the user's settings alone: `haft setup {}`",
                    client.title, client.name
                )),
                _ => elsewhere.extend(edits_of(*extra, &request.tools)),
            }
        }
    }
    notes.extend(client.trust.map(str::to_owned));
    let mut entry = client.layout.entry(&request.command, &arguments(client, request)?);
    for extra in in_entry {
        match extra {
            Extra::EntryText(key, text) => drop(entry.insert(key.to_owned(), text.into())),
            Extra::EntryTrue(key) => drop(entry.insert(key.to_owned(), true.into())),
            _ => {}
        }
    }
    let entry = Edit::set(&[client.servers, &[ENTRY]].concat(), Value::Object(entry));
    let mut planned = Vec::new();
    for (path, edits) in grouped(client, places, files, entry, elsewhere) {
        planned.push(plan_file(client.form, path, &edits, request.level, places)?);
    }
    let records = places.records.clone();
    Ok(Plan { client, level: request.level, files: planned, notes, records })
}

/// The arguments after `mcp` in the entry that an earlier setup wrote; none if there was none. An entry that others
/// wrote counts for nothing: a project may bring one.
pub fn earlier_args(client: &Client, level: Level, places: &Places) -> Result<Vec<String>, HostError> {
    let files = files_of(client, level, places)?;
    let Some(path) = servers_file(client, places, files) else { return Ok(Vec::new()) };
    let Some(record) = Record::load(&places.records, &path)?.filter(|_| user::exists(&path)) else {
        return Ok(Vec::new());
    };
    let entry = Edit::set(&[client.servers, &[ENTRY]].concat(), Value::Null);
    let words = record.made.iter().find_map(|made| match &made.edit {
        edit @ Edit::Set { value, .. } if edit.is_same_place(&entry) => client.layout.command(value),
        _ => None,
    });
    let mut words = words.unwrap_or_default().into_iter().skip(1);
    Ok(if words.next().as_deref() == Some("mcp") { words.collect() } else { Vec::new() })
}

/// Whether an earlier setup switched the client's own tools off, and they still are.
fn is_without_tools(client: &Client, files: Files, places: &Places) -> Result<bool, HostError> {
    let Some(path) = settings_file(client, places, files) else { return Ok(false) };
    let Present { text: Some(text), record: Some(record), .. } = Present::read(&path, places)? else {
        return Ok(false);
    };
    let Ok(document) = client.form.parse(&text) else { return Ok(false) };
    let edits: Vec<Edit> = client
        .tools
        .extras()
        .iter()
        .flat_map(|extra| edits_of(*extra, &[]))
        .filter(Edit::is_about_value)
        .collect();
    let is_off =
        |made: &Made| edits.iter().any(|edit| edit.is_same_place(&made.edit) && edit.is_in(&document));
    Ok(record.made.iter().any(is_off))
}

pub(super) fn files_of(client: &Client, level: Level, places: &Places) -> Result<Files, HostError> {
    match (level, client.project) {
        (Level::User, _) => Ok(client.user),
        (Level::Project, Some(_)) if places.is_home() => Err(HostError::settings(
            "this is your home, not a project: leave out --project, or change to a project's folder",
        )),
        (Level::Project, Some(files)) => Ok(files),
        (Level::Project, None) => Err(HostError::settings(format!(
            "{} has no settings of projects: leave out --project, and name the project with --workspace",
            client.title
        ))),
    }
}

/// The arguments of the entry.
fn arguments(client: &Client, request: &Request) -> Result<Vec<String>, HostError> {
    let folder = match (&request.workspace, client.folder) {
        (Some(folder), _) => Some(folder.to_str().map(str::to_owned).ok_or_else(|| {
            HostError::settings(format!("`{}` is not UTF-8: settings cannot name it", folder.display()))
        })?),
        (None, Folder::Variable(variable)) => Some(variable.to_owned()),
        (None, Folder::Project) => None,
        (None, Folder::Named) => {
            return Err(HostError::settings(format!(
                "{} does not tell its servers which folder to work in: name it with --workspace",
                client.title
            )));
        }
    };
    let folder = folder.into_iter().flat_map(|folder| ["--workspace".to_owned(), folder]);
    Ok(std::iter::once("mcp".to_owned()).chain(folder).chain(request.args.iter().cloned()).collect())
}

pub(super) fn edits_of(extra: Extra, tools: &[String]) -> Vec<Edit> {
    match extra {
        Extra::EntryText(..) | Extra::EntryTrue(_) => Vec::new(),
        Extra::Items(list, texts) => texts.iter().map(|text| Edit::item(list, text)).collect(),
        Extra::ItemPerTool(list, before) => {
            tools.iter().map(|tool| Edit::item(list, &format!("{before}{tool}"))).collect()
        }
        Extra::Patterns(table, keys, text) => {
            let widened = Edit::widen(table, "*");
            let texts = keys.iter().map(|key| Edit::set(&[table, &[*key]].concat(), text.into()));
            std::iter::once(widened).chain(texts).collect()
        }
        Extra::False(path) => vec![Edit::set(path, false.into())],
        Extra::TextPerTool(table, before, key, text) => tools
            .iter()
            .map(|tool| Edit::set(&[table, &[format!("{before}{tool}").as_str(), key]].concat(), text.into()))
            .collect(),
    }
}

/// The edits of each file. The entry and the settings may be in one file.
pub(super) fn grouped(
    client: &Client,
    places: &Places,
    files: Files,
    entry: Edit,
    others: Vec<Edit>,
) -> Vec<(PathBuf, Vec<Edit>)> {
    let Some(servers) = servers_file(client, places, files) else { return Vec::new() };
    match settings_file(client, places, files) {
        Some(settings) if settings != servers => vec![(servers, vec![entry]), (settings, others)],
        _ => vec![(servers, std::iter::once(entry).chain(others).collect())],
    }
}

/// The file of the entry: the one that has it, or else the first that exists.
fn servers_file(client: &Client, places: &Places, files: Files) -> Option<PathBuf> {
    let mut paths = files.servers.iter().map(|place| places.path(*place));
    paths.find(|path| matches!(entry(client, path), Ok(Some(_)))).or_else(|| places.first(files.servers))
}

/// The file of what is written outside of the entry.
pub(super) fn settings_file(client: &Client, places: &Places, files: Files) -> Option<PathBuf> {
    if files.settings == files.servers {
        return servers_file(client, places, files);
    }
    places.first(files.settings)
}

/// A text while it is edited.
pub(super) struct Draft {
    pub(super) form: Form,
    pub(super) text: String,
    pub(super) splices: Vec<Splice>,
}

impl Draft {
    pub(super) fn take(&mut self, steps: &[Step]) -> Result<(), Problem> {
        for step in steps {
            let after = self.form.apply(&self.text, step)?;
            self.splices.push(Splice::between(&self.text, &after));
            self.text = after;
        }
        Ok(())
    }

    pub(super) fn meaning(&self) -> Result<Value, Problem> {
        self.form.parse(&self.text)
    }
}

/// A file, its record and what it was before setup, if that is known.
pub(super) struct Present {
    pub(super) text: Option<String>,
    pub(super) record: Option<Record>,
    pub(super) restored: Option<String>,
}

impl Present {
    pub(super) fn read(path: &Path, places: &Places) -> Result<Self, HostError> {
        let text = user::read_regular(path, MAX_BYTES)?.map(String::from_utf8).transpose().map_err(|_| {
            HostError::settings(format!("`{}` is not UTF-8: it is left as it is", path.display()))
        })?;
        let record = Record::load(&places.records, path)?;
        let restored = match (&record, &text) {
            (Some(record), Some(text)) => record.undo(text),
            _ => None,
        };
        Ok(Self { text, record, restored })
    }
}

/// The error of a file that cannot be edited.
pub(super) fn untouched(path: &Path, problem: &Problem) -> HostError {
    let path = path.display();
    HostError::settings(format!("`{path}` is left as it is, because it cannot be edited: {problem}"))
}

/// The edits in words.
fn by_hand(edits: &[Edit]) -> String {
    let words: Vec<String> = edits
        .iter()
        .map(|edit| match edit {
            Edit::Set { path, value } => format!("set `{}` to {value}", path.join(".")),
            Edit::Item { path, text } => format!("add `{text}` to `{}`", path.join(".")),
            Edit::Widen { path, key } => {
                format!("make `{}` a table, with what it is now under `{key}`", path.join("."))
            }
        })
        .collect();
    words.join(", ")
}

fn plan_file(
    form: Form,
    path: PathBuf,
    edits: &[Edit],
    level: Level,
    places: &Places,
) -> Result<FileChange, HostError> {
    let Present { text, record, restored } = Present::read(&path, places)?;
    // A record of a file that is gone says nothing about the next one.
    let had_record = record.is_some();
    let record = record.filter(|_| text.is_some());
    let is_stale = record.is_some() && restored.is_none();
    let base = restored.or_else(|| text.clone()).unwrap_or_default();
    let mut draft = Draft { form, text: base, splices: Vec::new() };
    let mut write = || -> Result<Vec<Made>, Problem> {
        let mut made = Vec::new();
        for old in record.iter().filter(|_| is_stale).flat_map(|record| record.made.iter().rev()) {
            if let Some(edit) = edits.iter().find(|edit| edit.is_same_place(&old.edit)) {
                made.insert(0, Made { edit: edit.clone(), ..old.clone() });
            } else {
                let document = draft.meaning()?;
                draft.take(&old.removal(&document))?;
            }
        }
        for edit in edits {
            let document = draft.meaning()?;
            let steps = edit.steps(&document)?;
            if !steps.is_empty() && !made.iter().any(|old| old.edit.is_same_place(edit)) {
                made.push(edit.made_in(&document));
            }
            draft.take(&steps)?;
        }
        Ok(made)
    };
    let written = write();
    let made = written.map_err(|problem| match form.parse(text.as_deref().unwrap_or_default()) {
        Ok(_) => untouched(&path, &format!("{problem}; by hand, {}", by_hand(edits))),
        Err(_) => untouched(&path, &problem),
    })?;
    let created = record.as_ref().map_or(text.is_none(), |record| record.created);
    let folders = record.map_or_else(|| user::missing_folders(&path), |record| record.folders);
    let after = draft.text;
    let record = Record {
        file: path.display().to_string(),
        created,
        folders: folders.clone(),
        made,
        hash: hash(&after),
        splices: (!is_stale).then_some(draft.splices),
    };
    let is_empty = text.is_none() && edits.is_empty();
    let after = (!is_empty).then_some(after);
    let reader = if level == Level::User { Reader::Owner } else { Reader::Default };
    Ok(FileChange { path, before: text, after, record: Some(record), had_record, reader, folders })
}
