//! haft at a pseudo-terminal: what it prints, and what a person sees.

use std::fs::File;
use std::io::Read as _;
use std::process::Child;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::*;

/// haft at a pseudo-terminal, and what is on its screen.
pub(super) struct Seat {
    child: Child,
    /// What was printed since the last key.
    pub(super) screen: String,
    /// The screen as a terminal shows it.
    emulator: vt100::Parser,
    terminal: File,
}

/// The size of the terminal.
const ROWS: u16 = 120;
const COLUMNS: u16 = 100;

impl Seat {
    pub(super) fn take(fixture: &Fixture, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::with_columns(fixture, args, env, COLUMNS)
    }

    /// Takes a seat at a terminal of this width.
    pub(super) fn with_columns(fixture: &Fixture, args: &[&str], env: &[(&str, &str)], columns: u16) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let other = || File::options().read(true).write(true).open(&name).unwrap();
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let haft = fixture.haft(args);
        // A new session makes this haft's controlling terminal.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(haft.get_program()).args(haft.get_args());
        command.env_clear().current_dir(haft.get_current_dir().unwrap());
        for (name, value) in haft.get_envs() {
            command.env(name, value.unwrap());
        }
        command.env("TERM", "xterm-256color");
        command.envs(env.iter().copied()).stdin(other()).stdout(other()).stderr(other());
        let child = command.spawn().unwrap();
        // An unanswered question must not hang the tests.
        let pid = rustix::process::Pid::from_child(&child);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(120));
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        });
        let emulator = vt100::Parser::new(ROWS, columns, 0);
        Self { child, screen: String::new(), emulator, terminal: File::from(terminal) }
    }

    /// Waits until a text is on the screen.
    pub(super) fn sees(&mut self, text: &str) -> &mut Self {
        let from = self.screen.len();
        while !self.screen.contains(text) {
            let mut chunk = [0; 4096];
            let read = self.terminal.read(&mut chunk).unwrap_or(0);
            assert_ne!(
                read,
                0,
                "`{text}` was never on the screen: {}",
                &self.screen[from.min(self.screen.len())..]
            );
            self.printed(&chunk[..read]);
        }
        self
    }

    fn printed(&mut self, bytes: &[u8]) {
        self.emulator.process(bytes);
        self.screen.push_str(&String::from_utf8_lossy(bytes));
    }

    /// The screen as a person sees it now, without trailing blanks. Durations are `N s`, a spinner is `*`.
    pub(super) fn shown(&self) -> String {
        let text = self.emulator.screen().contents();
        let lines = text.lines().map(|line| redacted(line.trim_end()));
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// The screen row by row: a line that the terminal had to break is several rows.
    pub(super) fn rows(&self, columns: u16) -> Vec<String> {
        let rows = self.emulator.screen().rows(0, columns).map(|row| redacted(row.trim_end()));
        let mut rows: Vec<String> = rows.collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    pub(super) fn types(&mut self, text: &str) -> &mut Self {
        self.screen.clear();
        self.terminal.write_all(text.as_bytes()).unwrap();
        self
    }

    /// Waits for the end; returns the exit code and the screen since the last key.
    pub(super) fn leaves(mut self) -> (i32, String) {
        let code = self.ends();
        (code, self.screen)
    }

    /// Kills haft.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.ends();
    }

    /// Waits for the end and returns the exit code; the screen can still be looked at.
    pub(super) fn ends(&mut self) -> i32 {
        let mut rest = Vec::new();
        // Reading fails once the other side is closed.
        let _ = self.terminal.read_to_end(&mut rest);
        self.printed(&rest);
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

/// A line without what differs from run to run.
fn redacted(line: &str) -> String {
    let words = line.split(' ').collect::<Vec<_>>();
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let mut out: Vec<&str> = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        let unit = words.get(at + 1).copied().unwrap_or_default();
        let is_time = is_number(word) && ["s", "ms", "µs", "s,", "ms,", "µs,"].contains(&unit);
        let is_unit = at > 0 && is_number(words[at - 1]) && out.last() == Some(&"N");
        let is_spinner = at == 0
            && word.chars().count() == 1
            && "⠁⠂⠄⡀⢀⠠⠐⠈⠉⠊⠋⠌⠍⠎⠏⠑⠒⠓⠔⠕⠖⠗⠘⠙⠚⠛⠜⠝⠞⠟⠡⠢⠣⠤⠥⠦⠧⠨⠩⠪⠫⠬⠭⠮⠯⠰⠱⠲⠳⠴⠵⠶⠷⠸⠹⠺⠻⠼⠽⠾⠿".contains(word);
        out.push(match word {
            _ if is_time => "N",
            _ if is_unit && word.ends_with("s,") => "s,",
            _ if is_unit => "s",
            _ if is_spinner => "*",
            word => word,
        });
    }
    out.join(" ")
}
