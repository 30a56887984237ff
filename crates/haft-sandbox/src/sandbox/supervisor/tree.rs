//! Processes below this one: who they are, how to signal them, and how to end them all. Orphans among them become children
//! of the nearest process above that is a subreaper (a slot) or process 1 (the supervisor), so none gets away.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

/// How often to look for processes that were started while others were killed.
const MAX_ROUNDS: usize = 2000;

/// Waits for a child.
pub(super) fn wait_for(pid: Pid) -> io::Result<ExitStatus> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Whether no process is left below this one. Reaps those that have ended.
pub(super) fn is_alone() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Sends a signal to every process below this one.
pub(super) fn signal_all(with: Signal) {
    descendants(&[]).into_iter().for_each(|pid| signal(pid, with));
}

/// Kills every process below this one. False if some could not be killed.
pub(super) fn kill_all() -> bool {
    // They may start others meanwhile. SIGSTOP first, so that fewer are started.
    for _ in 0..MAX_ROUNDS {
        if is_alone() {
            return true;
        }
        kill(&descendants(&[]));
    }
    false
}

/// Kills every process below this one but some children and what is below those.
pub(super) fn kill_strays(spared: &[i32]) {
    // The listing is no snapshot: a process whose parent ends meanwhile can be missing in one. By the next, it has been adopted.
    let mut empty = 0;
    for _ in 0..MAX_ROUNDS {
        let strays = descendants(spared);
        empty = if strays.is_empty() { empty + 1 } else { 0 };
        if empty == 2 {
            return;
        }
        kill(&strays);
        for pid in strays.into_iter().filter_map(Pid::from_raw) {
            super::reap(pid);
        }
    }
}

fn kill(pids: &[i32]) {
    pids.iter().for_each(|pid| signal(*pid, Signal::STOP));
    pids.iter().for_each(|pid| signal(*pid, Signal::KILL));
    std::thread::sleep(Duration::from_millis(1));
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// All processes below this one, zombies left out, but some children and what is below those.
pub(super) fn descendants(spared: &[i32]) -> Vec<i32> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else { continue };
        let stat = String::from_utf8_lossy(&stat);
        // The program's name is in parentheses and may hold any bytes.
        let Some(mut fields) = stat.rsplit(") ").next().map(str::split_whitespace) else { continue };
        let is_zombie = fields.next() == Some("Z");
        if let Some(parent) = fields.next().and_then(|field| field.parse().ok())
            && !is_zombie
            && !spared.contains(&pid)
        {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![rustix::process::getpid().as_raw_nonzero().get()];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    found
}

/// The beginnings of the command lines of the first few processes.
pub(super) fn command_lines(pids: &[i32]) -> Vec<Vec<u8>> {
    let name = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
        words.join(&b' ').into_iter().take(200).collect()
    };
    pids.iter().take(10).map(name).collect()
}

/// Milliseconds of processor time that all ended descendants took.
pub(super) fn cpu_time_of_children() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    #[allow(unsafe_code)]
    // SAFETY: the pointer is valid for the call, and all zeroes are a valid value if it fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let times = [usage.ru_utime, usage.ru_stime];
    times.iter().map(|time| time.tv_sec.unsigned_abs() * 1000 + time.tv_usec.unsigned_abs() / 1000).sum()
}
