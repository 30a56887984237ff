//! Detecting the kind of a project, and running its own programs in the session's sandbox: tests, linters, formatters and
//! package managers. How each program is called is in `plan`, how its output is parsed in `read`.

mod format;
mod install;
mod plan;
mod read;
mod verify;

use std::ffi::OsString;

use haft_core::{AbsPath, Context, Fault, FaultKind};
use haft_sandbox::sandbox::Network;
use haft_sandbox::{FolderAccess, Kind};

use super::shell::{Ran, ReadySandbox, SandboxOptions, find_program};

pub use format::{Format, Formatted, Formatting};
pub use install::{DependencyKind, Install, Installed, Manager};
pub use read::{Counts, Problem, Severity};
pub use verify::{Verified, Verify, Work};

/// Maximum size in bytes of a manifest.
const MAX_MANIFEST: u64 = 1 << 20;
/// Files that mark a Python project.
const PYTHON: [&str; 7] =
    ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "pytest.ini", "tox.ini", "conftest.py"];
/// Names of makefiles, in the order in which make tries them.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// A project: a folder with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its build system.
    pub kind: ProjectKind,
    /// The folder with the manifest.
    pub root: AbsPath,
}

/// Build system of a project, by its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectKind {
    /// `Cargo.toml`.
    Cargo,
    /// `go.mod`.
    Go,
    /// `package.json`.
    Node,
    /// `pyproject.toml`, `setup.py`, `requirements.txt` and similar files.
    Python,
    /// A makefile and nothing else.
    Make,
}

impl ProjectKind {
    /// Its name for the model, such as `cargo`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Node => "node",
            Self::Python => "python",
            Self::Make => "make",
        }
    }
}

impl Project {
    /// The project of a path: that of the nearest manifest in its folder or above, within the workspace.
    pub fn find(from: &AbsPath, cx: &Context) -> Result<Self, Fault> {
        let is_folder = cx.workspace().stat(from).is_ok_and(|stat| stat.kind == Kind::Directory);
        let mut folder = if is_folder { Some(from.clone()) } else { from.parent() };
        while let Some(root) = folder {
            if cx.workspace().access(&root).is_none() {
                break;
            }
            if let Some(kind) = kind_of(&root, cx) {
                return Ok(Self { kind, root });
            }
            folder = root.parent();
        }
        Err(Fault::new(
            FaultKind::NotFound,
            format!("`{}` belongs to no project that is known here", cx.workspace().display(from)),
        )
        .hint("there must be a `Cargo.toml`, `package.json`, `pyproject.toml` (or its like), `go.mod` or `Makefile` in it or above"))
    }

    fn has(&self, name: &str, cx: &Context) -> bool {
        has(&self.root, name, cx)
    }

    /// The text of a file beside the manifest.
    fn text(&self, name: &str, cx: &Context) -> Option<String> {
        text(&self.root, name, cx)
    }

    /// Whether the makefile has a rule for a target.
    fn makes(&self, target: &str, cx: &Context) -> bool {
        let Some(text) = MAKEFILES.iter().find_map(|name| self.text(name, cx)) else { return false };
        let rule = |line: &str| {
            let (targets, rest) = line.split_once(':')?;
            let is_rule = !line.starts_with(['\t', ' ', '#']) && !rest.starts_with('=');
            Some(is_rule && targets.split_whitespace().any(|word| word == target))
        };
        text.lines().any(|line| rule(line) == Some(true))
    }

    /// The command of a script in `package.json`.
    fn script(&self, name: &str, cx: &Context) -> Option<String> {
        let manifest: serde_json::Value = serde_json::from_str(&self.text("package.json", cx)?).ok()?;
        Some(manifest.get("scripts")?.get(name)?.as_str()?.to_owned())
    }

    /// Finds a program: in the project's `node_modules` or virtual environment, otherwise in `PATH`.
    fn program(&self, name: &str, cx: &Context) -> Option<OsString> {
        // In a repository of several packages, the programs may be installed in a folder above.
        let mut folder = Some(self.root.clone());
        while let Some(root) = folder.filter(|root| cx.workspace().access(root).is_some()) {
            for place in ["node_modules/.bin", ".venv/bin", "venv/bin"] {
                let path = root.as_path().join(place).join(name);
                if has(&root, &format!("{place}/{name}"), cx) {
                    return Some(path.into());
                }
            }
            folder = root.parent();
        }
        find_program(name, cx).map(Into::into)
    }

    /// Finds a program, or fails with a fault that says how to install it.
    fn require(&self, name: &str, cx: &Context) -> Result<OsString, Fault> {
        self.program(name, cx).ok_or_else(|| missing(name))
    }

    /// A path that a program printed, relative to the root of the workspace where it is inside.
    fn shown(&self, path: &str, cx: &Context) -> String {
        let whole = self.root.as_path().join(path.trim_start_matches("./"));
        match whole.strip_prefix(cx.workspace().root()) {
            Ok(below) => haft_sandbox::names::show_on_a_line(below),
            Err(_) => haft_sandbox::names::show_on_a_line(path),
        }
    }
}

/// The build system of a folder, if it has a manifest.
fn kind_of(folder: &AbsPath, cx: &Context) -> Option<ProjectKind> {
    let has = |name: &str| has(folder, name, cx);
    if has("Cargo.toml") {
        Some(ProjectKind::Cargo)
    } else if has("go.mod") {
        Some(ProjectKind::Go)
    } else if has("package.json") {
        Some(ProjectKind::Node)
    } else if PYTHON.into_iter().any(has) {
        Some(ProjectKind::Python)
    } else if MAKEFILES.into_iter().any(has) {
        Some(ProjectKind::Make)
    } else {
        None
    }
}

fn has(folder: &AbsPath, name: &str, cx: &Context) -> bool {
    // A link counts, even one that leads out of the workspace: a virtual environment has many.
    cx.workspace().stat(&AbsPath::lexical(&folder.as_path().join(name))).is_ok()
}

fn text(folder: &AbsPath, name: &str, cx: &Context) -> Option<String> {
    let file = cx.workspace().open_file(&folder.child(name.as_ref())).ok()?;
    String::from_utf8(file.read_whole(MAX_MANIFEST).ok()?).ok()
}

/// The fault for a program that is not installed, with how to install it.
fn missing(name: &str) -> Fault {
    let how = match name {
        "cargo" | "rustfmt" => "install Rust from https://rustup.rs",
        "node" | "npm" => "install Node.js, such as with `apt install nodejs npm` or `brew install node`",
        "pnpm" | "yarn" => "run `corepack enable`, or `npm install --global pnpm yarn`",
        "bun" => "install it from https://bun.sh",
        "python3" => "install Python 3, such as with `apt install python3` or `brew install python`",
        "pytest" | "ruff" | "black" | "mypy" => {
            "run `pip install` with its name in the project's virtual environment"
        }
        "uv" => "install it from https://docs.astral.sh/uv",
        "poetry" => "run `pipx install poetry`",
        "go" | "gofmt" => "install Go from https://go.dev/dl",
        "eslint" | "prettier" | "typescript" => "add it with `npm install --save-dev`",
        "make" => "install it, such as with `apt install make`",
        _ => "install it",
    };
    Fault::new(
        FaultKind::NotFound,
        format!("`{name}` is not installed, and the project does not bring it along"),
    )
    .hint(format!("have the user get it: {how}"))
    .with("program", name)
}

/// Fails if the workspace has the project's folder for reading only.
fn require_writable(project: &Project, cx: &Context) -> Result<(), Fault> {
    match cx.workspace().access(&project.root) {
        Some(FolderAccess::Write) => Ok(()),
        _ => Err(Fault::new(
            FaultKind::AccessDenied,
            format!("`{}` was added for reading only", cx.workspace().display(&project.root)),
        )),
    }
}

/// Whether the sandbox has all layers that confine a program to the workspace.
fn confines(sandbox: Option<&ReadySandbox>, cx: &Context) -> bool {
    sandbox.is_some_and(|sandbox| sandbox.lacks(&super::code::confining(cx)).is_empty())
}

/// Error messages of programs that failed for lack of a network.
const OFFLINE: [&str; 9] = [
    "no matching package named",
    "failed to download",
    "--offline was specified",
    "Could not resolve host",
    "EAI_AGAIN",
    "ENOTFOUND",
    "Temporary failure in name resolution",
    "dial tcp",
    "Network is unreachable",
];

/// Notes on a program that ran: the sandbox's own, a missing network, and layers that are missing here.
fn notes_on(ran: &Ran, log: &str, cx: &Context) -> Vec<String> {
    let mut notes = ran.notes.clone();
    let offline = cx.session().extension::<SandboxOptions>().network == Network::Off;
    if offline && ran.exit != haft_sandbox::Exit::Code(0) && OFFLINE.iter().any(|words| log.contains(words)) {
        notes.push(
            "it seems to have wanted the network, which programs do not reach here; the setting `sandbox.network` \
             lets them"
                .to_owned(),
        );
    }
    for (layer, why) in &ran.report.missing {
        notes.push(format!("it ran without {}, which cannot be had here: {why}", layer.made_of()));
    }
    notes
}
