//! A process and all its descendants, so that all of them can be killed. The process group catches most of them; those that
//! have left the group are found through their parents, before these die, or by a variable in their environment.

use std::collections::{HashMap, HashSet};
#[cfg(target_os = "linux")]
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// How often to search the tree again for processes that were started during the last search.
const MAX_ROUNDS: usize = 16;

/// Tries to read the environment of a process that shows none, and the pause in between.
#[cfg(target_os = "linux")]
const MAX_TRIES: usize = 10;
#[cfg(target_os = "linux")]
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// A process with its descendants. Dropping this kills all of them.
pub(super) struct Tree {
    leader: Pid,
    /// Whether the leader was reaped, so that its process id may belong to another process.
    leader_reaped: bool,
    killed: bool,
    known: HashMap<Pid, Handle>,
    /// A variable that only processes of this tree have in their environment.
    mark: Option<String>,
}

impl Tree {
    /// The tree of a process that leads its own group.
    pub(super) fn new(leader: Pid) -> Self {
        Self { leader, leader_reaped: false, killed: false, known: HashMap::new(), mark: None }
    }

    /// The tree of a process that leads its own group and was started with a unique variable. Its descendants inherit that,
    /// so they can be found even when their parents have died.
    pub(super) fn marked(leader: Pid, mark: String) -> Self {
        let mut tree = Self::new(leader);
        tree.mark = Some(mark);
        tree
    }

    /// Records that the leader has ended and was reaped.
    pub(super) fn leader_ended(&mut self) {
        self.leader_reaped = true;
    }

    /// Sends SIGTERM to every process in the tree.
    pub(super) fn ask_to_end(&mut self) {
        self.find();
        self.signal(Signal::TERM);
    }

    /// Whether any process in the tree still runs.
    pub(super) fn is_alive(&self) -> bool {
        !self.leader_reaped
            || rustix::process::test_kill_process_group(self.leader).is_ok()
            || self.known.values().any(Handle::is_alive)
    }

    /// Kills every process in the tree. Does nothing the second time: process ids may have been reused by then.
    pub(super) fn kill(&mut self) {
        if self.killed {
            return;
        }
        self.killed = true;
        // Stopped processes start no others, so the search terminates.
        let _ = rustix::process::kill_process_group(self.leader, Signal::STOP);
        for _ in 0..MAX_ROUNDS {
            let found = self.find();
            if found.is_empty() {
                break;
            }
            for pid in found {
                if let Some(handle) = self.known.get(&pid) {
                    handle.signal(Signal::STOP);
                }
            }
        }
        self.signal(Signal::KILL);
        // A process that was being forked when its parent was stopped appears only now, and must not stay behind.
        for _ in 0..MAX_ROUNDS {
            if self.find().is_empty() {
                break;
            }
            self.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        // An error means that it has ended already.
        let _ = rustix::process::kill_process_group(self.leader, signal);
        for handle in self.known.values() {
            handle.signal(signal);
        }
    }

    /// Searches for processes that are not known yet, and returns them.
    fn find(&mut self) -> Vec<Pid> {
        let mut new = Vec::new();
        let mut to_visit: Vec<Pid> = self.known.keys().copied().collect();
        if !self.leader_reaped {
            to_visit.push(self.leader);
        }
        let mut seen: HashSet<Pid> = to_visit.iter().copied().chain([self.leader]).collect();
        let mut found = self.mark.as_deref().map(with_variable).unwrap_or_default();
        loop {
            for pid in found {
                if seen.insert(pid)
                    && let Some(handle) = Handle::open(pid)
                {
                    self.known.insert(pid, handle);
                    new.push(pid);
                    to_visit.push(pid);
                }
            }
            let Some(parent) = to_visit.pop() else { return new };
            found = children(parent);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process handle, which cannot be mistaken for a later process with the same id.
#[cfg(target_os = "linux")]
struct Handle(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Handle {
    fn open(pid: Pid) -> Option<Self> {
        use rustix::process::{PidfdFlags, pidfd_open};
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Self)
    }

    fn signal(&self, signal: Signal) {
        // An error means that it has ended already.
        let _ = rustix::process::pidfd_send_signal(&self.0, signal);
    }

    fn is_alive(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // The handle becomes readable when the process ends.
        matches!(poll(&mut fds, Some(&now)), Ok(0))
    }
}

/// The direct children of every thread of a process.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods)] // the lint sends all other crates here
fn children(pid: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let threads = threads.into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids = list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
            pids.filter_map(Pid::from_raw).collect::<Vec<_>>()
        })
        .collect()
}

/// The processes with this variable in their environment. A process in the middle of `exec` shows an empty environment for a
/// moment, so it is tried again.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods)] // the lint sends all other crates here
fn with_variable(mark: &str) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    let (mut marked, mut unclear) = (Vec::new(), pids.collect::<Vec<_>>());
    for attempt in 0..MAX_TRIES {
        if attempt > 0 {
            std::thread::sleep(RETRY_PAUSE);
        }
        unclear.retain(|pid| {
            let is_marked = is_marked(*pid, mark);
            if is_marked == Some(true) {
                marked.push(*pid);
            }
            is_marked.is_none()
        });
        if unclear.is_empty() {
            break;
        }
    }
    marked
}

/// Whether a process has this variable in its environment; `None` if that cannot be told now.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods)] // the lint sends all other crates here
fn is_marked(pid: Pid, mark: &str) -> Option<bool> {
    let pid = pid.as_raw_nonzero();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    // Kernel threads have neither an environment nor an executable.
    if environment.is_empty() && std::fs::read_link(format!("/proc/{pid}/exe")).is_ok() {
        return None;
    }
    let is_mark =
        |variable: &[u8]| variable.strip_prefix(mark.as_bytes()).is_some_and(|value| value.starts_with(b"="));
    Some(environment.split(|byte| *byte == 0).any(is_mark))
}

#[cfg(not(target_os = "linux"))]
fn with_variable(_: &str) -> Vec<Pid> {
    Vec::new()
}

/// Other systems only have the process group, so no handle exists.
#[cfg(not(target_os = "linux"))]
enum Handle {}

#[cfg(not(target_os = "linux"))]
impl Handle {
    fn open(_: Pid) -> Option<Self> {
        None
    }

    fn signal(&self, _: Signal) {
        match *self {}
    }

    fn is_alive(&self) -> bool {
        match *self {}
    }
}

#[cfg(not(target_os = "linux"))]
fn children(_: Pid) -> Vec<Pid> {
    Vec::new()
}
