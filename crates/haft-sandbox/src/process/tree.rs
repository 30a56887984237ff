//! A process and everything it has started, so that all of it can be ended. The group catches most of the
//! tree; what has left the group is found by asking each process for its children, before the parent dies
//! and the trail is lost.

use std::collections::{HashMap, HashSet};
#[cfg(target_os = "linux")]
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// How often the tree is searched again for processes that were started during the last search.
const MAX_ROUNDS: usize = 16;

/// How often a process is looked at that shows no environment, and how long is waited in between.
#[cfg(target_os = "linux")]
const LOOKS: usize = 10;
#[cfg(target_os = "linux")]
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// A process with everything below it. All of it is ended when this is dropped.
pub(super) struct Tree {
    leader: Pid,
    /// Whether the leader's number may by now belong to another process.
    leader_gone: bool,
    over: bool,
    known: HashMap<Pid, Handle>,
    /// A variable that only this tree has in its environment.
    mark: Option<String>,
}

impl Tree {
    /// Takes charge of a process that leads its own group.
    pub(super) fn new(leader: Pid) -> Self {
        Self { leader, leader_gone: false, over: false, known: HashMap::new(), mark: None }
    }

    /// The same for a process that was started with a variable which no other has. Whatever it starts inherits that, and
    /// is found by it even when its parents are gone.
    pub(super) fn marked(leader: Pid, mark: String) -> Self {
        let mut tree = Self::new(leader);
        tree.mark = Some(mark);
        tree
    }

    /// Notes that the leader has ended and was waited for.
    pub(super) fn leader_ended(&mut self) {
        self.leader_gone = true;
    }

    /// Asks everything in the tree to end.
    pub(super) fn ask_to_end(&mut self) {
        self.find();
        self.signal(Signal::TERM);
    }

    /// Whether anything in the tree still runs.
    pub(super) fn is_alive(&self) -> bool {
        !self.leader_gone
            || rustix::process::test_kill_process_group(self.leader).is_ok()
            || self.known.values().any(Handle::is_alive)
    }

    /// Ends everything in the tree at once. Only the first time: later the numbers may belong to others.
    pub(super) fn kill(&mut self) {
        if self.over {
            return;
        }
        self.over = true;
        // Stopped processes start no others, so the search comes to an end.
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
        // One that was about to be started when its parent was stopped shows only now; it must not stay behind stopped.
        for _ in 0..MAX_ROUNDS {
            if self.find().is_empty() {
                break;
            }
            self.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        // Failing means that it has ended already.
        let _ = rustix::process::kill_process_group(self.leader, signal);
        for handle in self.known.values() {
            handle.signal(signal);
        }
    }

    /// Looks for processes not known yet, and tells which.
    fn find(&mut self) -> Vec<Pid> {
        let mut new = Vec::new();
        let mut open: Vec<Pid> = self.known.keys().copied().collect();
        if !self.leader_gone {
            open.push(self.leader);
        }
        let mut seen: HashSet<Pid> = open.iter().copied().chain([self.leader]).collect();
        let mut found = self.mark.as_deref().map(having).unwrap_or_default();
        loop {
            for pid in found {
                if seen.insert(pid)
                    && let Some(handle) = Handle::open(pid)
                {
                    self.known.insert(pid, handle);
                    new.push(pid);
                    open.push(pid);
                }
            }
            let Some(parent) = open.pop() else { return new };
            found = children(parent);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process that cannot be mistaken for a later one with the same number.
#[cfg(target_os = "linux")]
struct Handle(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Handle {
    fn open(pid: Pid) -> Option<Self> {
        use rustix::process::{PidfdFlags, pidfd_open};
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Self)
    }

    fn signal(&self, signal: Signal) {
        // Failing means that it has ended already.
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
#[allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to
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

/// The processes that were started with a variable. One that is just becoming another program has none for a moment, and
/// is looked at again.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to
fn having(mark: &str) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    let (mut marked, mut unclear) = (Vec::new(), pids.collect::<Vec<_>>());
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(BETWEEN_LOOKS);
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

/// Whether a process was started with a variable, if that can be told.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to
fn is_marked(pid: Pid, mark: &str) -> Option<bool> {
    let pid = pid.as_raw_nonzero();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    // What is no program has none either, and is nobody's.
    if environment.is_empty() && std::fs::read_link(format!("/proc/{pid}/exe")).is_ok() {
        return None;
    }
    let is_mark =
        |variable: &[u8]| variable.strip_prefix(mark.as_bytes()).is_some_and(|value| value.starts_with(b"="));
    Some(environment.split(|byte| *byte == 0).any(is_mark))
}

#[cfg(not(target_os = "linux"))]
fn having(_: &str) -> Vec<Pid> {
    Vec::new()
}

/// Elsewhere only the group is known, so there are none of these.
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
