//! Runs every file below `cases/` against the real binary, one test each. `cases/README.md` explains the
//! format; `UPDATE_CASES=1` writes the current replies into the files instead of comparing.
#![allow(clippy::disallowed_methods)] // sets up and inspects the files of a case directly

#[path = "cases/format.rs"]
mod format;
#[path = "cases/run.rs"]
mod run;
#[path = "cases/show.rs"]
mod show;
#[path = "cases/world.rs"]
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let mut files = Vec::new();
    if let Err(error) = collect(&root, &mut files) {
        return libtest_mimic::run(
            &Arguments::from_args(),
            vec![Trial::test("cases", move || Err(error.into()))],
        )
        .exit_code();
    }
    files.sort();
    let trials = files.into_iter().map(|file| {
        let name = file.strip_prefix(&root).unwrap_or(&file).with_extension("").display().to_string();
        Trial::test(name, move || check(&file).map_err(|error| Failed::from(format!("{error:#}"))))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
    Ok(())
}

fn check(file: &Path) -> anyhow::Result<()> {
    let expected = std::fs::read_to_string(file)?;
    let dialect = file.iter().rev().nth(2).and_then(|name| name.to_str()).context("no dialect")?;
    let actual = run::run(&format::Case::parse(&expected)?, dialect)?.to_string();
    if actual == expected {
        return Ok(());
    }
    if std::env::var_os("UPDATE_CASES").is_some() {
        return Ok(std::fs::write(file, actual)?);
    }
    anyhow::bail!("{}\n(UPDATE_CASES=1 accepts what is marked `+`)", show::difference(&expected, &actual))
}
