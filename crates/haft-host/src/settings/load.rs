//! Loads and merges the settings files, applies trust, and records where each rule and server came from.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use haft_core::Workspace;
use haft_rules::{KnownTools, RuleBook};
use haft_sandbox::{PathError, PathErrorKind, Store, user};

use super::servers::{self, MCP_JSON, read_mcp_json};
use super::{ConfiguredServer, MAX_BYTES, Result, Settings, Web, home};
use crate::error::{Explain as _, HostError, HostErrorKind};
use crate::grants::Grants;

/// The effective settings, and where they came from.
pub struct Loaded {
    /// The merged settings.
    pub settings: Settings,
    /// The effective rules, each with its origin.
    pub book: RuleBook,
    /// All settings files that were looked for.
    pub files: Vec<(PathBuf, Presence)>,
    /// Whether the user trusts the project's settings.
    pub trust: Trust,
    /// Names of the project's settings that are ignored because the project is not trusted.
    pub ignored: Vec<String>,
    /// The MCP servers in use, each with its origin.
    pub servers: Vec<ConfiguredServer>,
    /// The project's MCP servers that are not started because the project is not trusted.
    pub untrusted_servers: Vec<ConfiguredServer>,
    /// The error in an untrusted project's `.mcp.json`. In a trusted project it fails the loading.
    pub mcp_json_error: Option<String>,
    /// The project's settings files, with their content.
    of_project: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// The hash of the project's settings.
    seal: String,
}

/// The user's settings file, in the folder of settings.
const USER_FILE: &str = "config.toml";
/// The settings files of a project, in `.haft`.
const PROJECT_FILES: [&str; 2] = ["config.toml", "config.local.toml"];
/// The file, in the state folder, with the hash of the project's settings when the user trusted them.
const SEAL: &str = "trusted";

/// The hash of a project's settings, by which a change since they were trusted is detected.
fn seal(of_project: &[(PathBuf, Option<Vec<u8>>)], mcp_json: &Option<Vec<u8>>) -> String {
    let settings = of_project.iter().map(|(_, bytes)| bytes);
    let all: Vec<&Option<Vec<u8>>> = settings.chain(mcp_json.is_some().then_some(mcp_json)).collect();
    haft_core::Hash::of(&serde_json::to_vec(&all).unwrap_or_default()).to_string()
}

impl Loaded {
    /// The project's settings files that exist, with their text.
    pub fn of_project(&self) -> Vec<(&Path, &str)> {
        let files = self.of_project.iter();
        files
            .filter_map(|(path, bytes)| Some((path.as_path(), std::str::from_utf8(bytes.as_ref()?).ok()?)))
            .collect()
    }

    /// Stores the hash of a trusted project's settings, so that later changes are detected.
    pub fn store_trusted_hash(&self, state: &Store) -> Result<()> {
        Ok(state.write(SEAL, self.seal.as_bytes())?)
    }

    /// Stores the hash the first time a trusted project is used.
    pub fn store_first_trusted_hash(&self, state: &Store) -> Result<()> {
        if self.trust == Trust::Full && !state.has(SEAL)? { self.store_trusted_hash(state) } else { Ok(()) }
    }
}

/// Whether a settings file exists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Presence {
    /// It exists.
    Found,
    /// It does not exist.
    Missing,
}

/// Whether the user trusts the project's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trust {
    /// The user trusts them as they are.
    Full,
    /// The user has not trusted them.
    None,
    /// The user has trusted them, but they have changed since.
    Changed,
}

/// The user's folders for settings and for state.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The folder of the user's settings.
    pub config: PathBuf,
    /// The folder of haft's state, with a subfolder for each workspace.
    pub state: PathBuf,
}

impl Folders {
    /// The folders of the user who runs this program.
    pub fn find() -> Result<Self> {
        let base = etcetera::choose_base_strategy()
            .explain(HostErrorKind::State, || "your home folder cannot be found; set HOME".to_owned())?;
        let state = base.state_dir().unwrap_or_else(|| base.data_dir());
        Ok(Self { config: base.config_dir().join("haft"), state: state.join("haft") })
    }

    /// Checks that no other user can change haft's state.
    pub fn are_private(&self) -> Result<()> {
        Store::at(&self.state)
            .is_private()
            .explain(HostErrorKind::State, || "the state folder cannot be used".to_owned())
    }
}

/// The files that [`load`] reads: when none of them has changed, it returns the same.
pub(crate) fn files(folders: &Folders, workspace: &Path, state: &Store) -> [PathBuf; 6] {
    let [shared, local] = PROJECT_FILES.map(|name| workspace.join(".haft").join(name));
    [
        folders.config.join(USER_FILE),
        shared,
        local,
        workspace.join(MCP_JSON),
        state.path(SEAL),
        state.path(crate::grants::FILE),
    ]
}

/// Loads and merges all settings files of a workspace.
pub fn load(folders: &Folders, workspace: &Path, known: &KnownTools) -> Result<Loaded> {
    let user_file = folders.config.join(USER_FILE);
    let project = workspace.join(".haft");
    let mut files = Vec::new();
    let mut read = |path: PathBuf, bytes: Option<Vec<u8>>| -> Result<Option<Settings>> {
        let presence = if bytes.is_some() { Presence::Found } else { Presence::Missing };
        let mut found = bytes.map(|bytes| parse(&path, bytes)).transpose()?;
        if let Some(found) = &mut found {
            found
                .check(workspace, known)
                .explain(HostErrorKind::Settings, || format!("`{}`", path.display()))?;
            found.add_dirs = found.add_dirs.iter().map(|dir| workspace.join(home(dir))).collect();
        }
        files.push((path, presence));
        Ok(found)
    };
    let bytes = user::read_regular(&user_file, MAX_BYTES)?;
    let mut settings = read(user_file.clone(), bytes)?.unwrap_or_default();
    let mut book = RuleBook::new(known.clone());
    settings.permissions.add_to(&mut book, &user_file.display().to_string())?;
    let trusted: Vec<PathBuf> = settings.trusted.iter().map(|folder| home(folder)).collect();
    if let Some(folder) = trusted.iter().find(|folder| !folder.is_absolute()) {
        return Err(HostError::settings(format!(
            "`trusted` names `{}`: write a whole path, or one that begins with `~/`",
            folder.display()
        )));
    }
    let trusted = trusted.iter().filter_map(|folder| user::canonical(folder).ok());
    // A folder inside a trusted one is another project, perhaps a vendored one whose authors are not trusted.
    let is_trusted = trusted.into_iter().any(|folder| workspace == folder);
    let state = crate::environment::state_folder(folders, workspace);
    let mut of_project = Vec::new();
    let root = workspace.parent().map(|_| Workspace::open(workspace)).transpose()?;
    for name in PROJECT_FILES {
        let path = project.join(name);
        let bytes = read_of_project(root.as_ref(), &path)?;
        of_project.push((path, bytes));
    }
    let mcp_json = read_of_project(root.as_ref(), &workspace.join(MCP_JSON));
    let mcp_json_text = mcp_json.as_ref().ok().cloned().flatten();
    let seal = seal(&of_project, &mcp_json_text);
    let trust = match (is_trusted, state.read(SEAL)?) {
        (false, _) => Trust::None,
        (true, Some(sealed)) if sealed != seal.as_bytes() => Trust::Changed,
        (true, _) => Trust::Full,
    };
    let mut ignored = Vec::new();
    let mut servers = Vec::new();
    let mut held_back = Vec::new();
    settings.mcp.add_to(&mut servers, &user_file.display().to_string(), false);
    let mut unreadable = None;
    match read_mcp_json(&workspace.join(MCP_JSON), mcp_json) {
        Ok(found) if trust == Trust::Full => servers::add(found.into_iter(), &mut servers),
        Ok(found) if found.is_empty() => {}
        Ok(found) => {
            ignored.push(format!("{MCP_JSON}: mcpServers"));
            held_back = found;
        }
        Err(error) if trust == Trust::Full => return Err(error),
        // Other programs use this file, too: an error in it matters only once haft uses it.
        Err(error) => unreadable = Some(error.to_string()),
    }
    for (name, (path, bytes)) in PROJECT_FILES.into_iter().zip(of_project.clone()) {
        let Some(mut found) = read(path.clone(), bytes)? else { continue };
        let own = [
            ("trusted", !found.trusted.is_empty()),
            ("mcp.network", !found.mcp.network.is_empty()),
            ("mcp.free", !found.mcp.free.is_empty()),
            ("web", found.web != Web::default()),
        ];
        if let Some((key, _)) = own.into_iter().find(|(_, is_set)| *is_set) {
            return Err(HostError::settings(format!(
                "`{}` sets `{key}`, which only the user's own file can",
                path.display()
            )));
        }
        let place = format!(".haft/{name}");
        found.mcp.add_to(if trust == Trust::Full { &mut servers } else { &mut held_back }, &place, true);
        if trust != Trust::Full {
            let (kept, dropped) = found.restricted(&settings);
            ignored.extend(dropped.into_iter().map(|key| format!(".haft/{name}: {key}")));
            found = kept;
        }
        found.permissions.add_to(&mut book, &format!(".haft/{name}"))?;
        settings.add(found);
    }
    Grants { state, config: folders.config.clone() }.add_to(&mut book)?;
    of_project.push((workspace.join(MCP_JSON), mcp_json_text));
    Ok(Loaded {
        settings,
        book,
        files,
        trust,
        ignored,
        servers,
        untrusted_servers: held_back,
        mcp_json_error: unreadable,
        of_project,
        seal,
    })
}

/// Reads a settings file of the project. Its authors are not the user, so only a regular file inside the workspace is
/// accepted, and no link that leads out.
fn read_of_project(root: Option<&Workspace>, path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(workspace) = root else {
        // `/` cannot be a workspace, but commands that touch no files accept it.
        return Ok(user::read_regular(path, MAX_BYTES)?);
    };
    let below = path.strip_prefix(workspace.root()).unwrap_or(path).to_string_lossy();
    let wrong =
        |error: PathError| HostError::settings(format!("the project's settings cannot be read: {error}"));
    let place = match workspace.resolve(workspace.root(), &below) {
        Ok(place) if place.stat.is_some() => place,
        Ok(_) => return Ok(None),
        Err(error) if matches!(error.kind, PathErrorKind::NotFound | PathErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(wrong(error)),
    };
    let file = workspace.open_file(&place.path).map_err(wrong)?.file;
    Ok(Some(user::at_most(path, file, MAX_BYTES)?))
}

fn parse(path: &Path, bytes: Vec<u8>) -> Result<Settings> {
    let text = String::from_utf8(bytes)
        .map_err(|_| HostError::settings(format!("`{}` is not UTF-8", path.display())))?;
    toml::from_str(&text)
        .map_err(|error| HostError::settings(format!("`{}`: {}", path.display(), error.to_string().trim())))
}
