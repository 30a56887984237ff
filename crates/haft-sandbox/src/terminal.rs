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

    /// Waits for the next key, without the end of a line. `None` if `is_over` returns true first.
    pub fn key(&mut self, is_over: &dyn Fn() -> bool) -> io::Result<Option<char>> {
        let before = tcgetattr(&self.0)?;
        let mut raw = before.clone();
        // Ctrl-C still interrupts, since ISIG stays set.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&self.0, OptionalActions::Now, &raw)?;
        let _restored = RestoreSettings(&self.0, before);
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
                Ok(text) => return Ok(text.chars().next()),
                Err(error) if error.error_len().is_some() || bytes.len() > 4 => bytes.clear(),
                Err(_) => {}
            }
        }
    }

    /// Waits for a line, with the terminal's own editing. `None` if `is_over` returns true first.
    pub fn line(&mut self, is_over: &dyn Fn() -> bool) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        while bytes.last() != Some(&b'\n') && bytes.len() < MAX_LINE {
            if !wait(&self.0, is_over)? {
                return Ok(None);
            }
            let mut chunk = [0; 4096];
            match (&self.0).read(&mut chunk)? {
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

/// Opens a file in an editor at the terminal. Returns whether the editor exited successfully.
pub fn edit(editor: &str, file: &Path) -> io::Result<bool> {
    let tty = || File::options().read(true).write(true).open("/dev/tty");
    // Like other programs, accept a command with options as editor.
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &format!("exec {editor} \"$1\""), "sh"]).arg(file);
    command.stdin(tty()?).stdout(tty()?).stderr(tty()?);
    Ok(command.status()?.success())
}
