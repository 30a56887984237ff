//! The command line, tested with the real binary: exit codes, output streams, settings, approvals, MCP.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // runs the binary in folders it makes itself

#[cfg(target_os = "linux")]
mod approvals;
mod batches;
mod calls;
mod changes;
#[cfg(target_os = "linux")]
mod commands;
mod faults;
#[cfg(target_os = "linux")]
mod help;
#[cfg(target_os = "linux")]
mod hostile;
#[cfg(target_os = "linux")]
mod mcp;
mod output;
mod planning;
#[cfg(target_os = "linux")]
mod projects;
mod replay;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod searching;
#[cfg(target_os = "linux")]
mod seat;
#[cfg(target_os = "linux")]
mod servers;
#[cfg(target_os = "linux")]
mod setup;
mod state;
mod state_errors;
#[cfg(target_os = "linux")]
mod terminal;
mod trials;
#[cfg(target_os = "linux")]
mod web;
mod workspace;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use haft_testing::{Need, missing, require};
use serde_json::{Value, json};

/// A temporary workspace and home.
struct Fixture {
    _folder: tempfile::TempDir,
    base: PathBuf,
}

/// The exit code and output of a run.
#[derive(Debug)]
struct RunOutput {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), files)
    }

    /// A fixture that commands see with its home folder: the sandbox has temporary folders of its own.
    fn outside_of_temporary_folders(files: &[(&str, &str)]) -> Self {
        Self::in_folder(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), files)
    }

    fn in_folder(folder: tempfile::TempDir, files: &[(&str, &str)]) -> Self {
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("ws")).unwrap();
        std::fs::create_dir_all(base.join("home/.config/haft")).unwrap();
        let fixture = Self { _folder: folder, base };
        for (name, text) in files {
            fixture.write(&format!("ws/{name}"), text);
        }
        fixture
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.base.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn settings(&self, text: &str) {
        self.write("home/.config/haft/config.toml", text);
    }

    fn haft(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command.args(args).current_dir(self.base.join("ws")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.base.join("home")).env("XDG_STATE_HOME", self.base.join("state"));
        command
    }

    fn run(&self, args: &[&str]) -> RunOutput {
        RunOutput::of(self.haft(args).stdin(Stdio::null()).output().unwrap())
    }

    fn run_with(&self, args: &[&str], stdin: &str) -> RunOutput {
        let mut command = self.haft(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let text = stdin.to_owned();
        let feeding = std::thread::spawn(move || pipe.write_all(text.as_bytes()));
        let output = RunOutput::of(child.wait_with_output().unwrap());
        feeding.join().unwrap().unwrap();
        output
    }

    /// Runs a batch and returns its replies.
    fn batch(&self, args: &[&str], lines: &[&str]) -> Vec<Value> {
        let output = self.run_with(&[&["batch"], args].concat(), &(lines.join("\n") + "\n"));
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The state folder of the workspace.
    fn state(&self) -> PathBuf {
        let mut folders = std::fs::read_dir(self.base.join("state/haft")).unwrap();
        folders.next().unwrap().unwrap().path()
    }
}

impl RunOutput {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that haft refused to start: exit code 2, a reason on stderr and nothing on stdout.
    fn refused(&self, reason: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{self:?}");
        assert!(self.stderr.contains(reason), "`{reason}` is not in {self:?}");
    }
}

fn text(reply: &Value) -> &str {
    reply["content"][0]["text"].as_str().unwrap()
}

const ONE: &str = "     1\tone";
const TWO: &str = "     1\ttwo";

fn two_files() -> Fixture {
    Fixture::new(&[("one.txt", "one\n"), ("two.txt", "two\n")])
}
