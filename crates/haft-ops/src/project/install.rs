//! Adding packages to a project with its package manager. This uses the network and writes to the manager's own folders,
//! so the operation claims a command and always needs approval. Knows no other use of a package manager.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use haft_core::{AbsPath, Claims, CommandLine, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::Network;

use super::{Project, ProjectKind, notes_on, require_writable};
use crate::shell::Program;

/// Timeout of an installation.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of packages in one call.
const MAX_NAMES: usize = 50;

/// A package manager.
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

/// Kind of dependency that packages are added as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyKind {
    /// A dependency of the program itself.
    Always,
    /// A dependency for development only.
    ForDevelopment,
}

/// Adds packages to a project with its package manager.
#[derive(Clone, Debug)]
pub struct Install {
    project: Project,
    manager: Manager,
    names: Vec<String>,
    program: Program,
    /// What downloads the packages, where that is a step of its own.
    fetch: Option<Program>,
}

/// Result of adding packages.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Name of the package manager.
    pub manager: &'static str,
    /// The command line that was run.
    pub command: String,
    /// Exit status of the package manager.
    pub exit: Exit,
    /// Duration of the run.
    pub took: Duration,
    /// Output of the run.
    pub log: String,
    /// Notes on the run, such as missing layers of the sandbox.
    pub notes: Vec<String>,
}

impl Manager {
    /// Its name and command.
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

    /// The package manager of a project, by its manifest and lock file.
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

/// The package manager of a Node project, which also runs its scripts: the one that `package.json` names, or the one
/// whose lock file is there.
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
    /// Prepares to add packages to the project of `folder`. Without `manager`, the project decides.
    pub fn new(
        folder: &AbsPath,
        names: &[String],
        kind: DependencyKind,
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
        let program = program(&project, manager, names, kind, cx)?;
        // `cargo add` only writes the manifest, and what runs later may have no network.
        let fetch =
            (manager == Manager::Cargo).then(|| Program { args: vec!["fetch".into()], ..program.clone() });
        Ok(Self { project, manager, names: names.to_vec(), program, fetch })
    }

    /// The command line that will be run.
    pub fn command(&self) -> String {
        match &self.fetch {
            Some(fetch) => format!("{} && {}", self.program.shown(), fetch.shown()),
            None => self.program.shown(),
        }
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
        let mut ran = self.program.run(None, TIMEOUT, cx).await?;
        let mut log = format!("{}{}", ran.out.text(), ran.err.text());
        if let Some(fetch) = self.fetch.as_ref().filter(|_| ran.exit == Exit::Code(0)) {
            ran = fetch.run(None, TIMEOUT, cx).await?;
            log.push_str(&format!("{}{}", ran.out.text(), ran.err.text()));
        }
        match ran.exit {
            Exit::Cancelled => return Err(ran.cancelled(cx)),
            Exit::TimedOut => {
                let message = format!("`{}` was ended after {} s", self.command(), TIMEOUT.as_secs());
                return Err(Fault::new(FaultKind::Timeout, message).with("output", log));
            }
            _ => {}
        }
        let notes = notes_on(&ran, &log, cx);
        let (exit, took) = (ran.exit, ran.took);
        Ok(Installed { manager: self.manager.name(), command: self.command(), exit, took, log, notes })
    }
}

/// Checks that a name is that of a package in a registry, with an optional version: no option, path or URL.
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

/// The command of the package manager, with network and write access to its caches.
fn program(
    project: &Project,
    manager: Manager,
    names: &[String],
    kind: DependencyKind,
    cx: &Context,
) -> Result<Program, Fault> {
    let run =
        |name: &str| project.require(name, cx).map(|program| Program::new(program, project.root.clone()));
    let for_development = |option: &'static str| (kind == DependencyKind::ForDevelopment).then_some(option);
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
                if kind == DependencyKind::ForDevelopment { vec!["--group", "dev"] } else { Vec::new() };
            run("poetry")?.args(["add"]).args(group)
        }
        Manager::Go => run("go")?.args(["get"]),
        Manager::Pip => {
            // The system's packages are outside of what the sandbox may write.
            let Some(python) = project.program("python", cx).filter(|path| is_in(project, path)) else {
                return Err(Fault::failed("the project has no virtual environment to install into")
                    .hint("make one first, in the project's folder: `python3 -m venv .venv`"));
            };
            let args = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input"];
            Program::new(python, project.root.clone()).args(args)
        }
    };
    // `--` ends the options, for the managers that support it.
    let ends_options = !matches!(manager, Manager::Go | Manager::Yarn | Manager::Poetry);
    let mut program = program.args(ends_options.then_some("--")).args(names.iter().map(String::as_str));
    program.network = Some(Network::On);
    program.also = cache_folders();
    Ok(program)
}

fn is_in(project: &Project, path: &OsString) -> bool {
    std::path::Path::new(path).starts_with(&project.root)
}

/// Folders in which package managers cache their downloads.
fn cache_folders() -> Vec<PathBuf> {
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
    fn options_paths_and_urls_are_not_package_names() {
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
