//! The memory that a command uses, counted by its slot where no control group does. It is looked at a few times a second, so
//! a command can exceed its limit for a moment; and memory that no process has mapped, such as that of an unmapped file in
//! memory, is not seen.

use rustix::event::Timespec;

use super::super::layers;
use super::tree;

/// A limit on the memory of all processes below this one, in bytes, temporary files included.
pub(super) struct MemoryWatch(u64);

impl MemoryWatch {
    /// How often to look.
    pub(super) const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

    pub(super) fn new(max: u64) -> Self {
        Self(max)
    }

    /// Whether the processes use more than they may.
    pub(super) fn is_over(&self) -> bool {
        let pids = tree::descendants(&[]);
        let files = layers::temporary_bytes();
        let sum =
            |bytes_of: fn(i32) -> u64| pids.iter().fold(files, |sum, pid| sum.saturating_add(bytes_of(*pid)));
        // Memory that processes share is in the first sum once for each of them. The second takes longer to tell.
        sum(resident) > self.0 && sum(share) > self.0
    }
}

/// Bytes in memory of a process.
fn resident(pid: i32) -> u64 {
    field(pid, "status", "VmRSS:").unwrap_or(0)
}

/// Bytes in memory of a process, where those that it shares are divided by the number of processes.
fn share(pid: i32) -> u64 {
    field(pid, "smaps_rollup", "Pss:").unwrap_or_else(|| resident(pid))
}

/// A field in kilobytes of a file that the kernel has about a process, in bytes.
fn field(pid: i32, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}
