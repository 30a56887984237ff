//! Adding packages to a project with its package manager. That reaches the network and writes to the manager's own
//! folders, so somebody is always asked.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use haft_core::{AbsPath, Claims, CommandLine, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::Network;

use super::{Project, ProjectKind, explained, require_writable};
use crate::shell::Program;

/// How long an installation may take.
const TIMEOUT: Duration = Duration::from_secs(600);
/// More packages are not added at once.
const MAX_NAMES: usize = 50;

/// What adds packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// `cargo add`.
    Cargo,
    /// `npm install`.
    Npm,
    /// `pnpm add`.
    Pnpm,
    /// `yarn add`.
    Yarn,
    /// `bun add`.
    Bun,
    /// `pip install`.
    Pip,
    /// `uv add`.
    Uv,
    /// `poetry add`.
    Poetry,
    /// `go get`.
    Go,
}

/// For what packages are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyKind {
    /// For the program itself.
    Always,
    /// For those who work on it.
    ForDevelopment,
}

/// Adds packages.
#[derive(Clone, Debug)]
pub struct Install {
    project: Project,
    manager: Manager,
    names: Vec<String>,
    program: Program,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Installed {
    /// What added them.
    pub manager: &'static str,
    /// What was run, as somebody would type it.
    pub command: String,
    /// How the program ended.
    pub exit: Exit,
    /// How long it took.
    pub took: Duration,
    /// What it printed.
    pub log: String,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Manager {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
            Self::Pip => "pip",
            Self::Uv => "uv",
            Self::Poetry => "poetry",
            Self::Go => "go",
        }
    }

    fn of(project: &Project, cx: &Context) -> Result<Self, Fault> {
        Ok(match project.kind {
            ProjectKind::Cargo => Self::Cargo,
            ProjectKind::Go => Self::Go,
            ProjectKind::Node => match node_manager(project, cx) {
                "pnpm" => Self::Pnpm,
                "yarn" => Self::Yarn,
                "bun" => Self::Bun,
                _ => Self::Npm,
            },
            ProjectKind::Python if project.has("uv.lock", cx) => Self::Uv,
            ProjectKind::Python if project.has("poetry.lock", cx) => Self::Poetry,
            ProjectKind::Python => Self::Pip,
            ProjectKind::Make => {
                return Err(Fault::invalid("a makefile has no packages").hint("name a `manager`"));
            }
        })
    }
}

/// What runs scripts and adds packages: what `package.json` names, or what has left its lock here.
pub(super) fn node_manager(project: &Project, cx: &Context) -> &'static str {
    let manifest = project.text("package.json", cx).unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap_or_default();
    let named = manifest.get("packageManager").and_then(serde_json::Value::as_str).unwrap_or_default();
    let named = named.split('@').next().unwrap_or_default();
    if let Some(manager) = ["npm", "pnpm", "yarn", "bun"].into_iter().find(|manager| *manager == named) {
        return manager;
    }
    let locks =
        [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")];
    locks.iter().find(|(lock, _)| project.has(lock, cx)).map_or("npm", |(_, manager)| manager)
}

impl Install {
    /// Packages for the project that a folder belongs to.
    pub fn new(
        folder: &AbsPath,
        names: &[String],
        kept: DependencyKind,
        manager: Option<Manager>,
        cx: &Context,
    ) -> Result<Self, Fault> {
        if names.is_empty() || names.len() > MAX_NAMES {
            return Err(Fault::invalid(format!("{} packages are named", names.len()))
                .hint(format!("name 1 to {MAX_NAMES}")));
        }
        names.iter().try_for_each(|name| check_name(name))?;
        let project = Project::find(folder, cx)?;
        require_writable(&project, cx)?;
        let manager = manager.map_or_else(|| Manager::of(&project, cx), Ok)?;
        let program = program(&project, manager, names, kept, cx)?;
        Ok(Self { project, manager, names: names.to_vec(), program })
    }

    /// What is to be run, as somebody would type it.
    pub fn command(&self) -> String {
        self.program.shown()
    }
}

impl Operation for Install {
    type Output = Installed;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        let mut words = vec![self.manager.name().to_owned(), "install".to_owned()];
        words.extend(self.names.iter().cloned());
        Claims::none()
            .write(Resource::Path(self.project.root.clone()))
            .write(Resource::Command(CommandLine::new(words.join(" "))))
    }

    async fn run(self, cx: &Context) -> Result<Installed, Fault> {
        let ran = self.program.run(None, TIMEOUT, cx).await?;
        let log = format!("{}{}", ran.out.text(), ran.err.text());
        match ran.exit {
            Exit::Cancelled => return Err(ran.cancelled(cx)),
            Exit::TimedOut => {
                let told = format!("`{}` was ended after {} s", self.program.shown(), TIMEOUT.as_secs());
                return Err(Fault::new(FaultKind::Timeout, told).with("output", log));
            }
            _ => {}
        }
        let notes = explained(&ran, &log, cx);
        let (exit, took) = (ran.exit, ran.took);
        Ok(Installed { manager: self.manager.name(), command: self.program.shown(), exit, took, log, notes })
    }
}

/// A package by its name, with a version perhaps. Neither an option nor a place elsewhere.
fn check_name(name: &str) -> Result<(), Fault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@/._+~^<>=!,*[]-".contains(c);
    let wrong = if name.is_empty() {
        "is empty"
    } else if name.starts_with('-') {
        "begins with `-`, like an option"
    } else if name.starts_with(['.', '/', '~']) {
        "is a path"
    } else if name.contains(':') {
        "is an address"
    } else if !name.chars().all(plain) || name.len() > 214 {
        "has characters that no name of a package has"
    } else if name.split(['/', '@']).any(|part| part == "..") {
        "is a path"
    } else {
        return Ok(());
    };
    Err(Fault::invalid(format!("`{}` names no package: it {wrong}", name.escape_debug()))
        .hint("give names as the package manager knows them, such as `left-pad`, `@scope/name@^1.2` or `requests>=2`"))
}

fn program(
    project: &Project,
    manager: Manager,
    names: &[String],
    kept: DependencyKind,
    cx: &Context,
) -> Result<Program, Fault> {
    let run =
        |name: &str| project.require(name, cx).map(|program| Program::new(program, project.root.clone()));
    let for_development = |option: &'static str| (kept == DependencyKind::ForDevelopment).then_some(option);
    let program = match manager {
        Manager::Cargo => run("cargo")?.args(["add"]).args(for_development("--dev")),
        Manager::Npm => {
            run("npm")?.args(["install", "--no-fund", "--no-audit"]).args(for_development("--save-dev"))
        }
        Manager::Pnpm => run("pnpm")?.args(["add"]).args(for_development("--save-dev")),
        Manager::Yarn => run("yarn")?.args(["add"]).args(for_development("--dev")),
        Manager::Bun => run("bun")?.args(["add"]).args(for_development("--dev")),
        Manager::Uv => run("uv")?.args(["add"]).args(for_development("--dev")),
        Manager::Poetry => {
            let group =
                if kept == DependencyKind::ForDevelopment { vec!["--group", "dev"] } else { Vec::new() };
            run("poetry")?.args(["add"]).args(group)
        }
        Manager::Go => run("go")?.args(["get"]),
        Manager::Pip => {
            // What is installed for everybody lies outside of what may be written.
            let Some(python) = project.program("python", cx).filter(|path| is_in(project, path)) else {
                return Err(Fault::failed("the project has no virtual environment to install into")
                    .hint("make one first, in the project's folder: `python3 -m venv .venv`"));
            };
            let args = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input"];
            Program::new(python, project.root.clone()).args(args)
        }
    };
    // After this nothing is an option, for those that know it.
    let ends = !matches!(manager, Manager::Go | Manager::Yarn | Manager::Poetry);
    let mut program = program.args(ends.then_some("--")).args(names.iter().map(String::as_str));
    program.network = Some(Network::On);
    program.also = own_folders();
    Ok(program)
}

fn is_in(project: &Project, path: &OsString) -> bool {
    std::path::Path::new(path).starts_with(&project.root)
}

/// Where package managers keep what they have downloaded.
fn own_folders() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let cargo =
        std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home.as_ref().map(|home| home.join(".cargo")));
    let own = [".npm", ".cache", ".local/share/pnpm", ".local/share/uv", ".bun", ".yarn", "go/pkg"];
    let of_home = home.iter().flat_map(|home| own.map(|name| home.join(name)));
    let of_cargo = cargo.iter().flat_map(|cargo| ["registry", "git"].map(|name| cargo.join(name)));
    of_home.chain(of_cargo).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_packages_are_taken() {
        for name in
            ["left-pad", "@scope/name@^1.2", "requests[socks]>=2,<3", "serde@1.0", "example.com/x@v1.2"]
        {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "--global",
            "-g",
            "../x",
            "/etc",
            "./x",
            "git+https://x",
            "file:x",
            "a;b",
            "a b",
            "$(x)",
            "a`b`",
            "a/../b",
            "a\nb",
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
