//! The quota of a command, and the one that all commands of a session share, by control groups of the kernel. Haft makes
//! and removes them from outside. A group is a folder in each cgroup hierarchy that counts memory or processes and that haft
//! may write: one hierarchy in version 2, up to two in version 1. It knows nothing of what runs in a group.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::cleanup::Cleanup;
use super::policy::LimitHit;

/// Prefix of the folders of groups; the process id of their maker follows.
const PREFIX: &str = "haft-";
/// Processes of a slot, which do not count against its command.
const SLOT_PROCESSES: u64 = 1;
/// How many milliseconds the end of a session waits for its groups to become empty.
const REMOVAL_TIMEOUT_MS: usize = 100;

/// What a set of processes may use together; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quota {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Seconds of processor time. Once they are used up, running commands go on, but no other starts.
    pub cpu: Option<u64>,
}

/// A cgroup hierarchy.
#[derive(Debug)]
struct Hierarchy {
    /// The folder below which groups are made.
    base: PathBuf,
    version: Version,
    processes: bool,
    memory: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A control group. After it is dropped, its folders are removed as soon as its processes have ended.
#[derive(Debug)]
pub(super) struct Cgroup {
    folders: Vec<(PathBuf, &'static Hierarchy)>,
    /// The session's group, held so that it is removed after this one.
    parent: Option<Arc<Self>>,
    /// How often it had run into its limits when that was last looked up.
    events: Events,
}

impl Cgroup {
    /// Makes a group for all slots of a session.
    pub(super) fn new(quota: Quota) -> io::Result<Self> {
        let name = next_name();
        let group = Self::make(trees().iter().map(|tree| (tree.base.join(&name), tree)), None)?;
        for (folder, tree) in &group.folders {
            if tree.version == Version::Two {
                // Version 2 counts in a group only what its parent delegates.
                let delegated: Vec<&str> = [(tree.processes, "+pids"), (tree.memory, "+memory")]
                    .into_iter()
                    .filter_map(|(has, name)| has.then_some(name))
                    .collect();
                write(folder, "cgroup.subtree_control", &delegated.join(" "))?;
            }
        }
        group.limit(quota)?;
        Ok(group)
    }

    /// Makes a group for one slot, below that of its session if it has one.
    pub(super) fn leaf(parent: Option<Arc<Self>>, quota: Quota) -> io::Result<Self> {
        let name = next_name();
        let group = match parent {
            Some(parent) => {
                let inside: Vec<_> =
                    parent.folders.iter().map(|(folder, tree)| (folder.join(&name), *tree)).collect();
                Self::make(inside.into_iter(), Some(parent))?
            }
            None => Self::make(trees().iter().map(|tree| (tree.base.join(&name), tree)), None)?,
        };
        let processes = quota.processes.map(|max| max.saturating_add(SLOT_PROCESSES));
        group.limit(Quota { processes, ..quota })?;
        for (folder, tree) in &group.folders {
            if tree.version == Version::Two && tree.memory {
                // Kill the whole command when memory runs out: one with a process missing is in an unknown state.
                let _ = write(folder, "memory.oom.group", "1");
            }
        }
        Ok(group)
    }

    fn make(
        wanted: impl Iterator<Item = (PathBuf, &'static Hierarchy)>,
        parent: Option<Arc<Self>>,
    ) -> io::Result<Self> {
        let mut group = Self { folders: Vec::new(), parent, events: Events::default() };
        for (folder, tree) in wanted {
            fs::create_dir(&folder)?;
            group.folders.push((folder, tree));
        }
        let has = |what: fn(&Hierarchy) -> bool| group.folders.iter().any(|(_, tree)| what(tree));
        match (has(|tree| tree.memory), has(|tree| tree.processes)) {
            (true, true) => Ok(group),
            (false, true) => Err(io::Error::other("memory is not counted for groups that can be made here")),
            (true, false) => {
                Err(io::Error::other("processes are not counted for groups that can be made here"))
            }
            (false, false) => Err(io::Error::other("no groups that count anything can be made here")),
        }
    }

    fn limit(&self, quota: Quota) -> io::Result<()> {
        for (folder, tree) in &self.folders {
            if let (true, Some(max)) = (tree.processes, quota.processes) {
                write(folder, "pids.max", &max.to_string())?;
            }
            let (true, Some(max)) = (tree.memory, quota.memory) else { continue };
            let max = max.to_string();
            // Failures about swap are ignored: not every kernel accounts for it.
            match tree.version {
                Version::One => {
                    write(folder, "memory.limit_in_bytes", &max)?;
                    let _ = write(folder, "memory.memsw.limit_in_bytes", &max);
                }
                Version::Two => {
                    write(folder, "memory.max", &max)?;
                    let _ = write(folder, "memory.swap.max", "0");
                }
            }
        }
        Ok(())
    }

    /// Files by which a process enters the group: it writes its number into each, or 0.
    pub(super) fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |(folder, _): &(PathBuf, &Hierarchy)| {
            let path = folder.join("cgroup.procs");
            let opened = fs::OpenOptions::new().write(true).open(&path);
            opened
                .map(OwnedFd::from)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        self.folders.iter().map(open).collect()
    }

    /// Which limit the group ran into since it was last asked, if any.
    pub(super) fn hit(&mut self) -> Option<LimitHit> {
        let now = Events::of(&self.folders);
        let before = std::mem::replace(&mut self.events, now);
        match (now.memory > before.memory, now.processes > before.processes) {
            (true, _) => Some(LimitHit::Memory),
            (false, true) => Some(LimitHit::Processes),
            (false, false) => None,
        }
    }
}

/// How often a group ran into its limits.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    memory: u64,
    processes: u64,
}

impl Events {
    fn of(folders: &[(PathBuf, &Hierarchy)]) -> Self {
        let count = |folder: &Path, file: &str, name: &str| {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            let mut fields = text.lines().filter_map(|line| line.split_once(' '));
            let field = fields.find(|(field, _)| *field == name);
            field.and_then(|(_, count)| count.trim().parse().ok()).unwrap_or(0)
        };
        let mut events = Self::default();
        for (folder, tree) in folders {
            if tree.memory {
                let file = if tree.version == Version::One { "memory.oom_control" } else { "memory.events" };
                events.memory += count(folder, file, "oom_kill");
            }
            if tree.processes {
                events.processes += count(folder, "pids.events", "max");
            }
        }
        events
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let folders = std::mem::take(&mut self.folders).into_iter().map(|(folder, _)| folder).collect();
        Cleanup { folders, parent: self.parent.take(), ..Cleanup::default() }.enqueue();
    }
}

/// A name that no other process has used: the number of this one alone was another's before, or is one's in a container.
fn next_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static START: LazyLock<String> = LazyLock::new(crate::random_id);
    format!("{PREFIX}{}-{}-{}", std::process::id(), *START, COUNT.fetch_add(1, Ordering::Relaxed))
}

fn write(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    let path = folder.join(file);
    fs::write(&path, text)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Removes the folder of an empty group. True if it is gone afterwards.
pub(super) fn remove_if_empty(folder: &Path) -> bool {
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Kills every process of a group.
pub(super) fn kill_all(group: &Path) {
    if write(group, "cgroup.kill", "1").is_ok() {
        return;
    }
    // Before Linux 5.14: with no room for another process, none is started while these are killed one by one.
    let _ = write(group, "pids.max", "0");
    let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in processes.lines().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// The hierarchies in which haft can make groups.
fn trees() -> &'static [Hierarchy] {
    static TREES: OnceLock<Vec<Hierarchy>> = OnceLock::new();
    TREES.get_or_init(|| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let trees: Vec<Hierarchy> = mounts.lines().filter_map(|mount| tree(mount, &own)).collect();
        // A hierarchy may be mounted at several places.
        let mut seen = HashSet::new();
        let once =
            |tree: &Hierarchy| seen.insert((tree.version == Version::Two, tree.memory, tree.processes));
        let trees: Vec<Hierarchy> = trees.into_iter().filter(once).collect();
        trees.iter().for_each(|tree| remove_abandoned(&tree.base));
        trees
    })
}

/// Parses a line of `/proc/self/mountinfo`: the hierarchy mounted there, if haft can make groups in it that count memory or
/// processes. `own` is the text of `/proc/self/cgroup`.
fn tree(mount: &str, own: &str) -> Option<Hierarchy> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, Path::new(place.next()?));
    let mut kind = kind.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1)?);
    // The folder of this process in the hierarchy, by a line `number:controllers:path`.
    let own_folder = |is_it: &dyn Fn(&str) -> bool| {
        let line = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            is_it(controllers).then_some(path)
        })?;
        Some(point.join(Path::new(line).strip_prefix(root).ok()?))
    };
    let has =
        |options: &str, separator: char, name: &str| options.split(separator).any(|option| option == name);
    if kind == "cgroup" {
        let (processes, memory) = (has(options, ',', "pids"), has(options, ',', "memory"));
        let name = if processes { "pids" } else { "memory" };
        let base = own_folder(&|controllers| has(controllers, ',', name))?;
        return ((processes || memory) && is_writable(&base)).then_some(Hierarchy {
            base,
            version: Version::One,
            processes,
            memory,
        });
    }
    if kind != "cgroup2" {
        return None;
    }
    // In version 2 a group with processes of its own cannot delegate controllers, so groups are made beside haft's own, below
    // the nearest ancestor that does delegate.
    let base = own_folder(&|controllers| controllers.is_empty())?;
    base.ancestors().take_while(|folder| folder.starts_with(point)).find_map(|folder| {
        let delegated = fs::read_to_string(folder.join("cgroup.subtree_control")).ok()?;
        let delegated = delegated.trim();
        let (processes, memory) = (has(delegated, ' ', "pids"), has(delegated, ' ', "memory"));
        ((processes || memory) && is_writable(folder) && is_writable(&folder.join("cgroup.procs")))
            .then(|| Hierarchy { base: folder.to_owned(), version: Version::Two, processes, memory })
    })
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// What all commands of a session share: their quota, and the group that enforces it, which is made with the first slot.
#[derive(Debug, Default)]
pub(super) struct Account {
    quota: Quota,
    group: Mutex<Option<Arc<Cgroup>>>,
    /// Milliseconds of processor time that ended commands have used.
    spent_ms: AtomicU64,
}

impl Account {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, group: Mutex::default(), spent_ms: AtomicU64::new(0) }
    }

    /// Adds the processor time of an ended command.
    pub(super) fn spend(&self, time: Duration) {
        self.spent_ms.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Fails if the processor time is used up.
    pub(super) fn require_time(&self) -> io::Result<()> {
        match self.quota.cpu {
            Some(max) if self.spent_ms.load(Ordering::Relaxed) / 1000 >= max => Err(io::Error::other(
                format!("the commands of this session have used up their {max} seconds of processor time"),
            )),
            _ => Ok(()),
        }
    }

    /// Makes a group for one slot of the session.
    pub(super) fn leaf(&self, quota: Quota) -> io::Result<Cgroup> {
        if (Quota { cpu: None, ..self.quota }) == Quota::default() {
            return Cgroup::leaf(None, quota);
        }
        let mut group = self.group.lock();
        let parent = match &*group {
            Some(group) => group.clone(),
            None => group.insert(Arc::new(Cgroup::new(self.quota)?)).clone(),
        };
        drop(group);
        let leaf = Cgroup::leaf(Some(parent.clone()), quota)?;
        // Every leaf holds its parent; their slots do not count against the session's commands.
        let slots = SLOT_PROCESSES * Arc::strong_count(&parent) as u64;
        let processes = self.quota.processes.map(|max| max.saturating_add(slots));
        parent.limit(Quota { processes, memory: None, cpu: None })?;
        Ok(leaf)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let group = self.group.get_mut().take();
        let Some(group) = group else { return };
        // The process may be about to exit, which would end the clean-up thread, so try here for a moment first.
        for _ in 0..REMOVAL_TIMEOUT_MS {
            group.folders.iter().for_each(|(folder, _)| remove_tree(folder));
            if !group.folders.iter().any(|(folder, _)| folder.exists()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Removes a group and those below it, as far as they are empty.
fn remove_tree(group: &Path) {
    for inner in fs::read_dir(group).into_iter().flatten().flatten() {
        // Fails for all but folders: the others are files of the kernel.
        remove_if_empty(&inner.path());
    }
    remove_if_empty(group);
}

/// Removes groups of haft processes that were killed before they could clean up.
fn remove_abandoned(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let own = std::process::id().to_string();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        let Some((owner, _)) = owner.filter(|(owner, _)| owner.parse::<u32>().is_ok()) else { continue };
        // This process has made none yet: those with its number are of an earlier one.
        if owner != own && Path::new("/proc").join(owner).exists() {
            continue;
        }
        remove_tree(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A folder that looks like a hierarchy of version 2, and its line of mountinfo. Each group comes with the controllers that
    /// it delegates.
    fn fake_hierarchy(groups: &[(&str, &str)]) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        for (group, delegated) in groups {
            let group = folder.path().join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.subtree_control"), delegated).unwrap();
            fs::write(group.join("cgroup.procs"), "").unwrap();
        }
        let mount = format!("30 23 0:26 / {} rw,relatime - cgroup2 cgroup2 rw", folder.path().display());
        (folder, mount)
    }

    #[test]
    fn groups_are_made_beside_the_own_one() {
        let (folder, mount) = fake_hierarchy(&[("", ""), ("user", "cpu memory pids\n"), ("user/scope", "")]);
        let tree = tree(&mount, "1:name=systemd:/\n0::/user/scope\n").unwrap();
        assert_eq!(tree.base, folder.path().join("user"));
        assert!(tree.version == Version::Two && tree.memory && tree.processes);
        let folders: Vec<(PathBuf, &'static Hierarchy)> =
            vec![(tree.base.clone(), Box::leak(Box::new(tree)))];
        let mut group = Cgroup { folders, parent: None, events: Events::default() };
        group.limit(Quota { memory: Some(1000), processes: Some(10), cpu: None }).unwrap();
        for entrance in group.entrances().unwrap() {
            io::Write::write_all(&mut fs::File::from(entrance), b"42").unwrap();
        }
        let written = |file: &str| fs::read_to_string(folder.path().join("user").join(file)).unwrap();
        let files = ["memory.max", "memory.swap.max", "pids.max", "cgroup.procs"].map(written);
        assert_eq!(files, ["1000", "0", "10", "42"]);
        assert_eq!(group.hit(), None);
        fs::write(folder.path().join("user/pids.events"), "max 3\n").unwrap();
        assert_eq!(group.hit(), Some(LimitHit::Processes));
        fs::write(folder.path().join("user/memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        assert_eq!(group.hit(), Some(LimitHit::Memory));
        assert_eq!(group.hit(), None, "nothing new has happened");
    }

    #[test]
    fn a_hierarchy_that_counts_nothing_is_not_used() {
        let (_folder, mount) = fake_hierarchy(&[("", "cpu io"), ("user", "")]);
        assert!(tree(&mount, "0::/user\n").is_none());
        assert!(tree(&mount, "4:memory:/user\n").is_none(), "this process is not in it");
        assert!(tree("30 23 0:26 / /proc rw - proc proc rw", "0::/\n").is_none());
    }
}
