//! What is set up: which clients are installed, and where each has an entry named haft.

use std::path::PathBuf;
use std::time::Duration;

use haft_sandbox::{Exit, Run, process, user};

use super::client::{Client, Level};
use super::clients::CLIENTS;
use super::document::at;
use super::plan::MAX_BYTES;
use super::{ENTRY, Places};

/// How long a program may take to tell its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// How it shows that a client is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installed {
    /// By this program in `PATH`.
    Program(PathBuf),
    /// By this file or folder of its settings.
    Settings(PathBuf),
}

impl Installed {
    /// Its path.
    pub fn path(&self) -> &std::path::Path {
        match self {
            Installed::Program(path) | Installed::Settings(path) => path,
        }
    }
}

impl Client {
    /// Whether it is installed, and how that shows.
    pub fn installed(&self, places: &Places) -> Option<Installed> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let in_path = |name: &&str| {
            std::env::split_paths(&folders).map(|f| f.join(name)).find(|path| user::exists(path))
        };
        let program = self.programs.iter().find_map(in_path);
        let settings = || self.traces.iter().map(|place| places.path(*place)).find(|path| user::exists(path));
        program.map(Installed::Program).or_else(|| settings().map(Installed::Settings))
    }
}

/// An entry named haft, or a file that may have one but cannot be read.
#[derive(Clone, Debug)]
pub struct Found {
    /// The client.
    pub client: &'static Client,
    /// For the user or for the project.
    pub level: Level,
    /// The file.
    pub path: PathBuf,
    /// The command with its arguments, empty for an entry without one; or why the file cannot be read.
    pub command: Result<Vec<String>, String>,
}

impl Found {
    /// Checks that the entry's program exists and starts, and returns its version. A program that only a project names is
    /// not started, unless it is this one: anyone could have put it there.
    pub async fn version(&self, own: &str) -> Result<String, String> {
        let command = self.command.as_ref().map_err(Clone::clone)?;
        let Some(program) = command.first() else { return Err("the entry has no command".to_owned()) };
        if process::is_this_program(program) {
            return Ok(own.to_owned());
        }
        if self.level == Level::Project {
            return Err(format!(
                "`{program}` is another program than this one, and is not started from here"
            ));
        }
        let run = Run {
            program: program.into(),
            args: vec!["--version".into()],
            dir: "/".into(),
            env: Vec::new(),
            stdin: Vec::new(),
            timeout: VERSION_TIMEOUT,
            max_output: 4096,
        };
        let finished =
            haft_sandbox::run(run, std::future::pending()).await.map_err(|error| error.to_string())?;
        let printed = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        match (finished.exit, printed.strip_prefix("haft ")) {
            (Exit::Code(0), Some(version)) => Ok(version.to_owned()),
            _ => Err(format!("`{program} --version` does not answer as haft does")),
        }
    }
}

/// Every entry named haft, in the user's settings and in the project's.
pub fn find(places: &Places) -> Vec<Found> {
    let mut all = Vec::new();
    for client in CLIENTS {
        let levels = [(Level::User, Some(client.user)), (Level::Project, client.project)];
        let levels = levels.into_iter().filter(|(level, _)| *level == Level::User || !places.is_home());
        for (level, files) in levels.filter_map(|(level, files)| Some((level, files?))) {
            for path in files.servers.iter().map(|place| places.path(*place)) {
                let command = match entry(client, &path) {
                    Ok(Some(command)) => Ok(command),
                    Ok(None) => continue,
                    Err(problem) => Err(problem),
                };
                all.push(Found { client, level, path, command });
            }
        }
    }
    all
}

/// The command of a client's entry in a file, empty for an entry without one; `None` if there is no entry.
pub(super) fn entry(client: &Client, path: &std::path::Path) -> Result<Option<Vec<String>>, String> {
    let Some(bytes) = user::read_regular(path, MAX_BYTES).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let document = client.form.parse(&text)?;
    let keys: Vec<String> = client.servers.iter().chain(&[ENTRY]).map(|key| (*key).to_owned()).collect();
    Ok(at(&document, &keys).map(|entry| client.layout.command(entry).unwrap_or_default()))
}

/// A client that has an entry in more than one file.
#[derive(Clone, Debug)]
pub struct Duplicate {
    /// The client.
    pub client: &'static Client,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// The clients that have several entries named haft.
pub fn duplicates(found: &[Found]) -> Vec<Duplicate> {
    let of = |client: &'static Client| Duplicate {
        client,
        files: found
            .iter()
            .filter(|found| found.client.name == client.name && found.command.is_ok())
            .map(|found| found.path.clone())
            .collect(),
    };
    CLIENTS.iter().map(of).filter(|duplicate| duplicate.files.len() > 1).collect()
}
