//! The controlling terminal of the user, whatever standard input and output are. Keys typed before a question was asked do
//! not answer it.
#![allow(clippy::disallowed_methods)] // the lint sends all other crates here

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};

/// How often to check whether a question was withdrawn.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the rest of an escape sequence, as arrow keys send it, takes to follow its first byte.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(25);
/// Longest line in bytes.
const MAX_LINE: usize = 64 << 10;

/// The controlling terminal of this process.
#[derive(Debug)]
pub struct Terminal(File);

/// Restores the terminal's settings when dropped.
struct RestoreSettings<'a>(&'a File, Termios);

impl Drop for RestoreSettings<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.0, OptionalActions::Drain, &self.1);
    }
}

impl Terminal {
    /// Opens the terminal. Fails if this process has none.
    pub fn open() -> io::Result<Self> {
        Ok(Self(File::options().read(true).write(true).open("/dev/tty")?))
    }

    /// Discards keys that were typed but not read.
    pub fn forget_typed(&self) {
        let _ = tcflush(&self.0, QueueSelector::IFlush);
    }

    /// Prints something.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes())?;
        self.0.flush()
    }

    /// Its width in columns.
    pub fn columns(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(&self.0);
        size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 20).unwrap_or(80)
    }

    /// Prints a prompt and waits for the next key, without the end of a line. `None` if `is_over` returns true first. Keys
    /// without a character, such as arrows, are [`char::REPLACEMENT_CHARACTER`].
    pub fn key(&mut self, prompt: &str, is_over: &dyn Fn() -> bool) -> io::Result<Option<char>> {
        let before = tcgetattr(&self.0)?;
        let mut raw = before.clone();
        // Ctrl-C still interrupts, since ISIG stays set.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&self.0, OptionalActions::Now, &raw)?;
        let _restored = RestoreSettings(&self.0, before);
        // Only now: a Ctrl-D that is typed as soon as the prompt shows would end a line, and be lost.
        (&self.0).write_all(prompt.as_bytes())?;
        let mut bytes = Vec::new();
        loop {
            if !wait(&self.0, is_over)? {
                return Ok(None);
            }
            let mut byte = [0];
            if (&self.0).read(&mut byte)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.push(byte[0]);
            match std::str::from_utf8(&bytes) {
                Ok("\u{1b}") if self.rest_of_sequence()? => return Ok(Some(char::REPLACEMENT_CHARACTER)),
                Ok(text) => return Ok(text.chars().next()),
                Err(error) if error.error_len().is_some() || bytes.len() > 4 => bytes.clear(),
                Err(_) => {}
            }
        }
    }

    /// Reads what follows the first byte of an escape sequence; false if nothing does, so that it was the key Escape.
    fn rest_of_sequence(&self) -> io::Result<bool> {
        let timeout = Timespec::try_from(ESCAPE_TIMEOUT).map_err(io::Error::other)?;
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut polled, Some(&timeout))? == 0 {
            return Ok(false);
        }
        let mut rest = [0; 32];
        Ok((&self.0).read(&mut rest)? > 0)
    }

    /// Waits for a line, with the terminal's own editing. `None` if `is_over` returns true first, or if Ctrl-D ends the
    /// input.
    pub fn line(&mut self, is_over: &dyn Fn() -> bool) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        while bytes.last() != Some(&b'\n') && bytes.len() < MAX_LINE {
            if !wait(&self.0, is_over)? {
                return Ok(None);
            }
            let mut chunk = [0; 4096];
            match (&self.0).read(&mut chunk)? {
                0 if bytes.is_empty() => return Ok(None),
                0 => break,
                read => bytes.extend_from_slice(&chunk[..read]),
            }
        }
        Ok(Some(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned()))
    }
}

/// Waits until the file can be read. False if `is_over` returns true first.
fn wait(file: &File, is_over: &dyn Fn() -> bool) -> io::Result<bool> {
    let tick = Timespec::try_from(POLL_INTERVAL).map_err(io::Error::other)?;
    loop {
        if is_over() {
            return Ok(false);
        }
        let mut polled = [PollFd::new(file, PollFlags::IN)];
        match poll(&mut polled, Some(&tick)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Keeps the terminal from printing `^C` when that is typed, which would disturb lines that are drawn again and again.
/// Restores the terminal's settings when dropped.
#[derive(Debug)]
pub struct QuietInterrupts {
    terminal: File,
    before: Termios,
}

impl QuietInterrupts {
    /// `None` without a terminal, or if this process is in the background: it would be stopped if it changed the settings.
    pub fn start() -> Option<Self> {
        let Terminal(terminal) = Terminal::open().ok()?;
        let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
        if foreground != rustix::process::getpgrp() {
            return None;
        }
        let before = tcgetattr(&terminal).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHOCTL);
        tcsetattr(&terminal, OptionalActions::Now, &quiet).ok()?;
        Some(Self { terminal, before })
    }
}

impl Drop for QuietInterrupts {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Names the place from which the user starts programs: the session of the controlling terminal, or the parent process
/// where there is no terminal. Equal for all programs that are started there, and different once it is gone, since it
/// contains when the leader of that session, or that parent, was started. `None` where `/proc` does not tell.
pub fn place() -> Option<String> {
    let (own, _) = process_stat("self")?;
    let (kind, id) = match own.terminal {
        0 => ("process", own.parent),
        _ => ("terminal", own.session),
    };
    let (_, started) = process_stat(&id.to_string())?;
    Some(format!("{kind}-{id}-{started:x}"))
}

/// Whether a name is one that [`place`] gives.
pub fn is_place(name: &str) -> bool {
    let mut parts = name.splitn(3, '-');
    let kind = parts.next().is_some_and(|kind| kind == "process" || kind == "terminal");
    let id = parts.next().is_some_and(|id| id.parse::<u32>().is_ok());
    kind && id && parts.next().is_some_and(|started| u64::from_str_radix(started, 16).is_ok())
}

struct ProcessStat {
    parent: u32,
    session: u32,
    /// The device of the controlling terminal; 0 if there is none.
    terminal: i32,
}

/// What `/proc` tells of a process, and when it was started, in clock ticks since the machine was.
fn process_stat(id: &str) -> Option<(ProcessStat, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program is in brackets, and may contain blanks and brackets itself.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let [_state, parent, _group, session, terminal, ..] = fields[..] else { return None };
    let stat = ProcessStat {
        parent: parent.parse().ok()?,
        session: session.parse().ok()?,
        terminal: terminal.parse().ok()?,
    };
    Some((stat, fields.get(19)?.parse().ok()?))
}

/// Opens a file in an editor at the terminal. Returns whether the editor exited successfully.
pub fn edit(editor: &str, file: &Path) -> io::Result<bool> {
    let tty = || File::options().read(true).write(true).open("/dev/tty");
    // Like other programs, accept a command with options as editor.
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &format!("exec {editor} \"$1\""), "sh"]).arg(file);
    command.stdin(tty()?).stdout(tty()?).stderr(tty()?);
    Ok(command.status()?.success())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_place_stays_the_same_and_is_known_by_its_name() {
        let here = place().unwrap();
        assert_eq!(place().as_ref(), Some(&here));
        assert!(is_place(&here), "{here}");
        for other in ["process", "terminal-x-1", "terminal-1-xyz", "terminal-1", "mine-1-2", ""] {
            assert!(!is_place(other), "{other}");
        }
    }
}
