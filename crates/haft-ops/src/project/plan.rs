//! Which program does what for which kind of project, and how it is called so that its answer can be read.

use std::ffi::OsString;

use haft_core::{AbsPath, Context, Fault};
use haft_sandbox::sandbox::Network;

use super::read::Form;
use super::{Project, ProjectKind};
use crate::shell::{Program, SandboxOptions};

/// A program to be run and the form of what it prints.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) program: Program,
    pub(super) form: Form,
    /// What to run instead where it turns out that this is not installed.
    pub(super) otherwise: Option<Box<Plan>>,
}

impl Plan {
    fn new(program: Program, form: Form) -> Self {
        Self { program, form, otherwise: None }
    }
}

/// Adds `--offline` where there is no network, so that cargo says at once what it lacks.
fn cargo(project: &Project, words: &[&str], cx: &Context) -> Result<Program, Fault> {
    let program =
        Program::new(project.require("cargo", cx)?, project.root.clone()).args(words.iter().copied());
    let program = program.env("CARGO_TERM_COLOR", "never").env("RUST_BACKTRACE", "0");
    Ok(match cx.session().extension::<SandboxOptions>().network {
        Network::Off => program.args(["--offline"]),
        Network::On => program,
    })
}

/// A script of `package.json`, by whatever runs those here.
fn script(project: &Project, name: &str, args: &[String], cx: &Context) -> Result<Program, Fault> {
    let manager = super::install::node_manager(project, cx);
    let program = Program::new(project.require(manager, cx)?, project.root.clone());
    let program = match manager {
        "npm" => program.args(["run", "--silent", name]).args((!args.is_empty()).then_some("--")),
        _ => program.args(["run", name]),
    };
    let program = program.args(args.iter().map(String::as_str));
    // The caches of these programs lie outside of what they may write.
    Ok(program
        .env("npm_config_cache", "/tmp/npm")
        .env("npm_config_update_notifier", "false")
        .env("CI", "true")
        .env("FORCE_COLOR", "0"))
}

fn python(project: &Project, args: &[&str], cx: &Context) -> Result<Program, Fault> {
    let python = project.program("python3", cx).or_else(|| project.program("python", cx));
    let python = python.ok_or_else(|| super::missing("python3"))?;
    Ok(Program::new(python, project.root.clone())
        .args(args.iter().copied())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PY_COLORS", "0"))
}

fn make(project: &Project, targets: &[&str], cx: &Context) -> Result<Program, Fault> {
    let target = targets.iter().find(|target| project.makes(target, cx)).ok_or_else(|| {
        let wanted = targets.join("` or `");
        Fault::failed(format!(
            "the makefile of `{}` has no target `{wanted}`",
            cx.workspace().display(&project.root)
        ))
        .hint("add one, or run what is meant as a command")
    })?;
    Ok(Program::new(project.require("make", cx)?, project.root.clone()).args([*target]))
}

/// Paths from the project's folder, where they are named.
fn below(project: &Project, paths: &[AbsPath]) -> Vec<OsString> {
    let of = |path: &AbsPath| match path.as_path().strip_prefix(&project.root) {
        Ok(below) if below.as_os_str().is_empty() => ".".into(),
        // With a folder before it, no name is an option.
        Ok(below) => std::path::Path::new(".").join(below).into_os_string(),
        Err(_) => path.as_path().into(),
    };
    paths.iter().map(of).collect()
}

/// The same, or the whole project.
fn all_or(project: &Project, paths: &[AbsPath]) -> Vec<OsString> {
    if paths.is_empty() { vec![".".into()] } else { below(project, paths) }
}

pub(super) fn tests(
    project: &Project,
    paths: &[AbsPath],
    filter: Option<&str>,
    cx: &Context,
) -> Result<Plan, Fault> {
    let only = filter.iter().copied();
    Ok(match project.kind {
        ProjectKind::Cargo => {
            let program = cargo(project, &["test", "--no-fail-fast", "--message-format=json"], cx)?;
            Plan::new(program.args(only), Form::CargoTest)
        }
        ProjectKind::Go => {
            let program =
                Program::new(project.require("go", cx)?, project.root.clone()).args(["test", "-json"]);
            let program = program.args(filter.map(|filter| format!("-run={filter}")));
            let packages = match paths {
                [] => vec![OsString::from("./...")],
                paths => below(project, paths)
                    .into_iter()
                    .map(|mut path| {
                        path.push("/...");
                        path
                    })
                    .collect(),
            };
            Plan::new(program.args(packages).env("GOCACHE", "/tmp/go"), Form::GoTest)
        }
        ProjectKind::Node => {
            let Some(text) = project.script("test", cx).filter(|text| !text.contains("no test specified"))
            else {
                return Err(Fault::failed("`package.json` has no script `test`")
                    .hint("add one, such as `node --test`, or run what is meant as a command"));
            };
            let mut args: Vec<String> = Vec::new();
            if let Some(filter) = filter {
                let option = [("jest", "-t"), ("vitest", "-t"), ("mocha", "-g")];
                let option = option.iter().find(|(runner, _)| text.contains(runner));
                match option {
                    Some((_, option)) => args.extend([(*option).to_owned(), filter.to_owned()]),
                    None if text.contains("node --test") => {
                        args.push(format!("--test-name-pattern={filter}"));
                    }
                    // What the script runs may know what to do with a name.
                    None => args.push(filter.to_owned()),
                }
            }
            args.extend(below(project, paths).iter().map(|path| path.to_string_lossy().into_owned()));
            Plan::new(script(project, "test", &args, cx)?, Form::Node)
        }
        ProjectKind::Python => {
            let by_name = filter.map_or(Vec::new(), |filter| vec!["-k", filter]);
            let unittest = python(project, &["-m", "unittest"], cx)?;
            let is_file = paths.iter().all(|path| path.as_path().extension().is_some());
            // `discover` is one only in the first place.
            let unittest = match paths {
                [] => unittest.args(["discover", "-v"]),
                paths if is_file => unittest.args(["-v"]).args(below(project, paths)),
                paths => unittest.args(["discover", "-v", "-s"]).args(below(project, &paths[..1])),
            };
            let unittest = unittest.args(by_name.clone());
            let pytest =
                ["-m", "pytest", "-p", "no:cacheprovider", "-rfE", "--tb=short", "--no-header", "--color=no"];
            let pytest = python(project, &pytest, cx)?.args(by_name).args(below(project, paths));
            let otherwise = Some(Box::new(Plan::new(unittest, Form::Unittest)));
            Plan { program: pytest, form: Form::Pytest, otherwise }
        }
        ProjectKind::Make => {
            if filter.is_some() {
                return Err(Fault::invalid("`make test` knows no filter")
                    .hint("leave it out, or run the tests that are meant as a command"));
            }
            Plan::new(make(project, &["test", "check"], cx)?, Form::Lines)
        }
    })
}

pub(super) fn lint(project: &Project, paths: &[AbsPath], fix: bool, cx: &Context) -> Result<Plan, Fault> {
    let unfixable = |name: &str| match fix {
        true => Err(Fault::invalid(format!("`{name}` mends nothing by itself")).hint("leave out `fix`")),
        false => Ok(()),
    };
    Ok(match project.kind {
        ProjectKind::Cargo => {
            let program = cargo(project, &["clippy", "--all-targets", "--message-format=json"], cx)?;
            let mend = ["--fix", "--allow-dirty", "--allow-staged"];
            Plan::new(if fix { program.args(mend) } else { program }, Form::Cargo)
        }
        ProjectKind::Go => {
            unfixable("go vet")?;
            let program =
                Program::new(project.require("go", cx)?, project.root.clone()).args(["vet", "./..."]);
            Plan::new(program.env("GOCACHE", "/tmp/go"), Form::Lines)
        }
        ProjectKind::Node => {
            if let Some(eslint) = project.program("eslint", cx) {
                let program = Program::new(eslint, project.root.clone()).args(["-f", "json"]);
                let program = program.args(fix.then_some("--fix")).args(all_or(project, paths));
                return Ok(Plan::new(program, Form::Eslint));
            }
            unfixable("what checks this project")?;
            if project.has("tsconfig.json", cx)
                && let Some(tsc) = project.program("tsc", cx)
            {
                let program = Program::new(tsc, project.root.clone()).args(["--noEmit", "--pretty", "false"]);
                return Ok(Plan::new(program, Form::Tsc));
            }
            match project.script("lint", cx) {
                Some(_) => Plan::new(script(project, "lint", &[], cx)?, Form::Lines),
                None => return Err(super::missing("eslint")),
            }
        }
        ProjectKind::Python => {
            let args = ["check", "--output-format=json", "--no-cache"];
            let program = Program::new(project.require("ruff", cx)?, project.root.clone()).args(args);
            Plan::new(program.args(fix.then_some("--fix")).args(all_or(project, paths)), Form::Ruff)
        }
        ProjectKind::Make => {
            unfixable("make lint")?;
            Plan::new(make(project, &["lint"], cx)?, Form::Lines)
        }
    })
}

/// How files are formatted: what lists those that are not as they should be, and what mends them. Where nothing
/// lists them, they are mended without being known.
pub(super) fn format(
    project: &Project,
    paths: &[AbsPath],
    cx: &Context,
) -> Result<(Option<Plan>, Program), Fault> {
    let run = |program: OsString, args: &[&str]| {
        Program::new(program, project.root.clone()).args(args.iter().copied())
    };
    let files = all_or(project, paths);
    Ok(match project.kind {
        ProjectKind::Cargo if paths.is_empty() => {
            let cargo = project.require("cargo", cx)?;
            let list = run(cargo.clone(), &["fmt", "--all", "--", "--check", "-l"]);
            (Some(Plan::new(list, Form::Names)), run(cargo, &["fmt", "--all"]))
        }
        ProjectKind::Cargo => {
            if let Some(folder) = paths.iter().find(|path| path.as_path().extension().is_none()) {
                let shown = cx.workspace().display(folder);
                return Err(Fault::invalid(format!("`{shown}` is no file that rustfmt can be given"))
                    .hint("name `.rs` files, or leave out `paths` to format all of the project"));
            }
            let rustfmt = project.require("rustfmt", cx)?;
            let edition = edition(project, cx);
            let list = run(rustfmt.clone(), &["--edition", &edition, "--check", "-l"]).args(files.clone());
            (Some(Plan::new(list, Form::Names)), run(rustfmt, &["--edition", &edition]).args(files))
        }
        ProjectKind::Go => {
            let gofmt = project.require("gofmt", cx)?;
            let list = run(gofmt.clone(), &["-l"]).args(files.clone());
            (Some(Plan::new(list, Form::Names)), run(gofmt, &["-w"]).args(files))
        }
        ProjectKind::Node => {
            let prettier = project.require("prettier", cx)?;
            let list = run(prettier.clone(), &["--list-different"]).args(files.clone());
            (
                Some(Plan::new(list, Form::Names)),
                run(prettier, &["--write", "--log-level", "warn"]).args(files),
            )
        }
        ProjectKind::Python => match (project.program("ruff", cx), project.program("black", cx)) {
            (Some(ruff), _) => {
                let list = run(ruff.clone(), &["format", "--check", "--no-cache"]).args(files.clone());
                (Some(Plan::new(list, Form::RuffFormat)), run(ruff, &["format", "--no-cache"]).args(files))
            }
            (None, Some(black)) => {
                let list = run(black.clone(), &["--check"]).args(files.clone());
                (Some(Plan::new(list, Form::Black)), run(black, &["--quiet"]).args(files))
            }
            (None, None) => return Err(super::missing("ruff")),
        },
        ProjectKind::Make => (None, make(project, &["format", "fmt"], cx)?),
    })
}

/// What rustfmt must be told, and cargo reads from the manifest.
fn edition(project: &Project, cx: &Context) -> String {
    let manifest = project.text("Cargo.toml", cx).and_then(|text| toml::from_str::<toml::Table>(&text).ok());
    let package = manifest.as_ref().and_then(|manifest| manifest.get("package"));
    let edition = package.and_then(|package| package.get("edition")).and_then(toml::Value::as_str);
    edition.unwrap_or("2021").to_owned()
}
