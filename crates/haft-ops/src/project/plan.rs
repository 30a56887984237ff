//! Which program tests, lints or formats which kind of project, and with which options, so that its output can be parsed.
//! Only builds command lines; runs nothing.

use std::ffi::OsString;

use haft_core::{AbsPath, Context, Fault};
use haft_sandbox::sandbox::Network;

use super::read::OutputFormat;
use super::{Project, ProjectKind};
use crate::shell::{Program, SandboxOptions};

/// A program to run and the format of its output.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    pub(super) program: Program,
    pub(super) format: OutputFormat,
    /// What to run instead if the program turns out not to be installed.
    pub(super) fallback: Option<Box<Invocation>>,
}

impl Invocation {
    fn new(program: Program, format: OutputFormat) -> Self {
        Self { program, format, fallback: None }
    }
}

/// A cargo command, with `--offline` if there is no network, so that cargo reports a missing crate without retries.
fn cargo(project: &Project, words: &[&str], cx: &Context) -> Result<Program, Fault> {
    let program =
        Program::new(project.require("cargo", cx)?, project.root.clone()).args(words.iter().copied());
    let program = program.env("CARGO_TERM_COLOR", "never").env("RUST_BACKTRACE", "0");
    Ok(match cx.session().extension::<SandboxOptions>().network {
        Network::Off => program.args(["--offline"]),
        Network::On => program,
    })
}

/// A script of `package.json`, run by the project's package manager.
fn script(project: &Project, name: &str, args: &[String], cx: &Context) -> Result<Program, Fault> {
    let manager = super::install::node_manager(project, cx);
    let program = Program::new(project.require(manager, cx)?, project.root.clone());
    let program = match manager {
        "npm" => program.args(["run", "--silent", name]).args((!args.is_empty()).then_some("--")),
        _ => program.args(["run", name]),
    };
    let program = program.args(args.iter().map(String::as_str));
    // The default cache folder is outside of what the sandbox may write.
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

/// Paths relative to the project's folder.
fn below(project: &Project, paths: &[AbsPath]) -> Vec<OsString> {
    let of = |path: &AbsPath| match path.as_path().strip_prefix(&project.root) {
        Ok(below) if below.as_os_str().is_empty() => ".".into(),
        // With `./` before it, no name looks like an option.
        Ok(below) => std::path::Path::new(".").join(below).into_os_string(),
        Err(_) => path.as_path().into(),
    };
    paths.iter().map(of).collect()
}

/// Paths relative to the project's folder, or `.` for the whole project if there are none.
fn all_or(project: &Project, paths: &[AbsPath]) -> Vec<OsString> {
    if paths.is_empty() { vec![".".into()] } else { below(project, paths) }
}

/// The command that runs the tests of a project.
pub(super) fn tests(
    project: &Project,
    paths: &[AbsPath],
    filter: Option<&str>,
    cx: &Context,
) -> Result<Invocation, Fault> {
    let only = filter.iter().copied();
    Ok(match project.kind {
        ProjectKind::Cargo => {
            let program = cargo(project, &["test", "--no-fail-fast", "--message-format=json"], cx)?;
            Invocation::new(program.args(only), OutputFormat::CargoTest)
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
            Invocation::new(program.args(packages).env("GOCACHE", "/tmp/go"), OutputFormat::GoTest)
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
                    // An unknown test runner may accept a name as an argument.
                    None => args.push(filter.to_owned()),
                }
            }
            args.extend(below(project, paths).iter().map(|path| path.to_string_lossy().into_owned()));
            Invocation::new(script(project, "test", &args, cx)?, OutputFormat::Node)
        }
        ProjectKind::Python => {
            let by_name = filter.map_or(Vec::new(), |filter| vec!["-k", filter]);
            let unittest = python(project, &["-m", "unittest"], cx)?;
            let is_file = paths.iter().all(|path| path.as_path().extension().is_some());
            // `discover` is a subcommand only as the first argument.
            let unittest = match paths {
                [] => unittest.args(["discover", "-v"]),
                paths if is_file => unittest.args(["-v"]).args(below(project, paths)),
                paths => unittest.args(["discover", "-v", "-s"]).args(below(project, &paths[..1])),
            };
            let unittest = unittest.args(by_name.clone());
            let pytest =
                ["-m", "pytest", "-p", "no:cacheprovider", "-rfE", "--tb=short", "--no-header", "--color=no"];
            let pytest = python(project, &pytest, cx)?.args(by_name).args(below(project, paths));
            // Whether pytest is installed shows only when it runs.
            let fallback = Some(Box::new(Invocation::new(unittest, OutputFormat::Unittest)));
            Invocation { program: pytest, format: OutputFormat::Pytest, fallback }
        }
        ProjectKind::Make => {
            if filter.is_some() {
                return Err(Fault::invalid("`make test` knows no filter")
                    .hint("leave it out, or run the tests that are meant as a command"));
            }
            Invocation::new(make(project, &["test", "check"], cx)?, OutputFormat::Lines)
        }
    })
}

/// The command that lints a project, and fixes what it can if `fix` is set.
pub(super) fn lint(
    project: &Project,
    paths: &[AbsPath],
    fix: bool,
    cx: &Context,
) -> Result<Invocation, Fault> {
    let unfixable = |name: &str| match fix {
        true => Err(Fault::invalid(format!("`{name}` mends nothing by itself")).hint("leave out `fix`")),
        false => Ok(()),
    };
    Ok(match project.kind {
        ProjectKind::Cargo => {
            let program = cargo(project, &["clippy", "--all-targets", "--message-format=json"], cx)?;
            let options = ["--fix", "--allow-dirty", "--allow-staged"];
            Invocation::new(if fix { program.args(options) } else { program }, OutputFormat::Cargo)
        }
        ProjectKind::Go => {
            unfixable("go vet")?;
            let program =
                Program::new(project.require("go", cx)?, project.root.clone()).args(["vet", "./..."]);
            Invocation::new(program.env("GOCACHE", "/tmp/go"), OutputFormat::Lines)
        }
        ProjectKind::Node => {
            if let Some(eslint) = project.program("eslint", cx) {
                let program = Program::new(eslint, project.root.clone()).args(["-f", "json"]);
                let program = program.args(fix.then_some("--fix")).args(all_or(project, paths));
                return Ok(Invocation::new(program, OutputFormat::Eslint));
            }
            unfixable("what checks this project")?;
            if project.has("tsconfig.json", cx)
                && let Some(tsc) = project.program("tsc", cx)
            {
                let program = Program::new(tsc, project.root.clone()).args(["--noEmit", "--pretty", "false"]);
                return Ok(Invocation::new(program, OutputFormat::Tsc));
            }
            match project.script("lint", cx) {
                Some(_) => Invocation::new(script(project, "lint", &[], cx)?, OutputFormat::Lines),
                None => return Err(super::missing("eslint")),
            }
        }
        ProjectKind::Python => {
            let args = ["check", "--output-format=json", "--no-cache"];
            let program = Program::new(project.require("ruff", cx)?, project.root.clone()).args(args);
            Invocation::new(
                program.args(fix.then_some("--fix")).args(all_or(project, paths)),
                OutputFormat::Ruff,
            )
        }
        ProjectKind::Make => {
            unfixable("make lint")?;
            Invocation::new(make(project, &["lint"], cx)?, OutputFormat::Lines)
        }
    })
}

/// The commands that format files: one that lists unformatted files, and one that formats files in place. A makefile
/// has no command for the first.
pub(super) fn format(
    project: &Project,
    paths: &[AbsPath],
    cx: &Context,
) -> Result<(Option<Invocation>, Program), Fault> {
    let run = |program: OsString, args: &[&str]| {
        Program::new(program, project.root.clone()).args(args.iter().copied())
    };
    let files = all_or(project, paths);
    Ok(match project.kind {
        ProjectKind::Cargo if paths.is_empty() => {
            let cargo = project.require("cargo", cx)?;
            let list = run(cargo.clone(), &["fmt", "--all", "--", "--check", "-l"]);
            (Some(Invocation::new(list, OutputFormat::Names)), run(cargo, &["fmt", "--all"]))
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
            (
                Some(Invocation::new(list, OutputFormat::Names)),
                run(rustfmt, &["--edition", &edition]).args(files),
            )
        }
        ProjectKind::Go => {
            let gofmt = project.require("gofmt", cx)?;
            let list = run(gofmt.clone(), &["-l"]).args(files.clone());
            (Some(Invocation::new(list, OutputFormat::Names)), run(gofmt, &["-w"]).args(files))
        }
        ProjectKind::Node => {
            let prettier = project.require("prettier", cx)?;
            let list = run(prettier.clone(), &["--list-different"]).args(files.clone());
            (
                Some(Invocation::new(list, OutputFormat::Names)),
                run(prettier, &["--write", "--log-level", "warn"]).args(files),
            )
        }
        ProjectKind::Python => match (project.program("ruff", cx), project.program("black", cx)) {
            (Some(ruff), _) => {
                let list = run(ruff.clone(), &["format", "--check", "--no-cache"]).args(files.clone());
                (
                    Some(Invocation::new(list, OutputFormat::RuffFormat)),
                    run(ruff, &["format", "--no-cache"]).args(files),
                )
            }
            (None, Some(black)) => {
                let list = run(black.clone(), &["--check"]).args(files.clone());
                (Some(Invocation::new(list, OutputFormat::Black)), run(black, &["--quiet"]).args(files))
            }
            (None, None) => return Err(super::missing("ruff")),
        },
        ProjectKind::Make => (None, make(project, &["format", "fmt"], cx)?),
    })
}

/// The Rust edition of a project. Cargo reads it from the manifest; rustfmt by itself needs it as an option.
fn edition(project: &Project, cx: &Context) -> String {
    let manifest = project.text("Cargo.toml", cx).and_then(|text| toml::from_str::<toml::Table>(&text).ok());
    let package = manifest.as_ref().and_then(|manifest| manifest.get("package"));
    let edition = package.and_then(|package| package.get("edition")).and_then(toml::Value::as_str);
    edition.unwrap_or("2021").to_owned()
}
