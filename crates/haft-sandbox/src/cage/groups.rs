//! What everything in a cage may use together, and what all cages of a session may: control groups of the kernel,
//! made and removed by haft from outside. A group is a folder in each tree of the kernel that counts memory or
//! processes and can be written here. It knows nothing of what runs in it.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::leaving::Leaving;
use super::policy::Hit;

/// How the folders of groups begin; the number of the process that made them follows.
const NAME: &str = "haft-";
/// A keeper is up to so many processes and threads, which are not counted against the command.
const KEEPER_PROCESSES: u64 = 4;
/// So many keepers may be ready while a command runs.
const KEEPERS: u64 = 8;
/// For so many milliseconds the end of a session waits for its groups to become empty.
const PATIENCE: usize = 100;

/// What processes may use together; nothing is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Seconds of processor time. What has used them up may go on, but nothing more is started.
    pub cpu: Option<u64>,
}

/// A tree of groups.
#[derive(Debug)]
struct Tree {
    /// The folder in it below which groups are made.
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

/// A group. It is removed when it is dropped and what is in it has ended.
#[derive(Debug)]
pub(super) struct Group {
    folders: Vec<(PathBuf, &'static Tree)>,
    /// Held so that it is removed after this one.
    above: Option<Arc<Self>>,
}

impl Group {
    /// Makes a group for the cages of a session.
    pub(super) fn new(amounts: Amounts) -> io::Result<Self> {
        let name = next_name();
        let group = Self::make(trees().iter().map(|tree| (tree.base.join(&name), tree)), None)?;
        for (folder, tree) in &group.folders {
            if tree.version == Version::Two {
                let passed: Vec<&str> = [(tree.processes, "+pids"), (tree.memory, "+memory")]
                    .into_iter()
                    .filter_map(|(has, name)| has.then_some(name))
                    .collect();
                write(folder, "cgroup.subtree_control", &passed.join(" "))?;
            }
        }
        let keepers = KEEPERS * KEEPER_PROCESSES;
        group.limit(Amounts {
            processes: amounts.processes.map(|most| most.saturating_add(keepers)),
            ..amounts
        })?;
        Ok(group)
    }

    /// Makes a group for one cage, in that of its session if it has one.
    pub(super) fn leaf(above: Option<Arc<Self>>, amounts: Amounts) -> io::Result<Self> {
        let name = next_name();
        let group = match above {
            Some(above) => {
                let inside: Vec<_> =
                    above.folders.iter().map(|(folder, tree)| (folder.join(&name), *tree)).collect();
                Self::make(inside.into_iter(), Some(above))?
            }
            None => Self::make(trees().iter().map(|tree| (tree.base.join(&name), tree)), None)?,
        };
        let processes = amounts.processes.map(|most| most.saturating_add(KEEPER_PROCESSES));
        group.limit(Amounts { processes, ..amounts })?;
        for (folder, tree) in &group.folders {
            if tree.version == Version::Two && tree.memory {
                // A command of which one process is missing does who knows what.
                let _ = write(folder, "memory.oom.group", "1");
            }
        }
        Ok(group)
    }

    fn make(
        wanted: impl Iterator<Item = (PathBuf, &'static Tree)>,
        above: Option<Arc<Self>>,
    ) -> io::Result<Self> {
        let mut group = Self { folders: Vec::new(), above };
        for (folder, tree) in wanted {
            fs::create_dir(&folder)?;
            group.folders.push((folder, tree));
        }
        let has = |what: fn(&Tree) -> bool| group.folders.iter().any(|(_, tree)| what(tree));
        match (has(|tree| tree.memory), has(|tree| tree.processes)) {
            (true, true) => Ok(group),
            (false, true) => Err(io::Error::other("memory is not counted for groups that can be made here")),
            (true, false) => {
                Err(io::Error::other("processes are not counted for groups that can be made here"))
            }
            (false, false) => Err(io::Error::other("no groups that count anything can be made here")),
        }
    }

    fn limit(&self, amounts: Amounts) -> io::Result<()> {
        for (folder, tree) in &self.folders {
            if let (true, Some(most)) = (tree.processes, amounts.processes) {
                write(folder, "pids.max", &most.to_string())?;
            }
            let (true, Some(most)) = (tree.memory, amounts.memory) else { continue };
            let most = most.to_string();
            // Not all kernels count what is swapped out.
            match tree.version {
                Version::One => {
                    write(folder, "memory.limit_in_bytes", &most)?;
                    let _ = write(folder, "memory.memsw.limit_in_bytes", &most);
                }
                Version::Two => {
                    write(folder, "memory.max", &most)?;
                    let _ = write(folder, "memory.swap.max", "0");
                }
            }
        }
        Ok(())
    }

    /// Puts a process in, and with it all that it starts.
    pub(super) fn enter(&self, pid: u32) -> io::Result<()> {
        self.folders.iter().try_for_each(|(folder, _)| write(folder, "cgroup.procs", &pid.to_string()))
    }

    /// Which limit was met.
    pub(super) fn hit(&self) -> Option<Hit> {
        let counted = |folder: &Path, file: &str, name: &str| {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            let mut fields = text.lines().filter_map(|line| line.split_once(' '));
            fields.any(|(field, count)| field == name && count.trim() != "0")
        };
        let is_short = |(folder, tree): &(PathBuf, &Tree)| match tree.version {
            _ if !tree.memory => false,
            Version::One => counted(folder, "memory.oom_control", "oom_kill"),
            Version::Two => counted(folder, "memory.events", "oom_kill"),
        };
        let is_full =
            |(folder, tree): &(PathBuf, &Tree)| tree.processes && counted(folder, "pids.events", "max");
        match self.folders.iter().any(is_short) {
            true => Some(Hit::Memory),
            false => self.folders.iter().any(is_full).then_some(Hit::Processes),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let folders = std::mem::take(&mut self.folders).into_iter().map(|(folder, _)| folder).collect();
        Leaving { folders, above: self.above.take(), ..Leaving::default() }.later();
    }
}

fn next_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{NAME}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn write(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    let path = folder.join(file);
    fs::write(&path, text)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

pub(super) fn is_removed(folder: &Path) -> bool {
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Ends what is in a group by force.
pub(super) fn kill_all(group: &Path) {
    if write(group, "cgroup.kill", "1").is_ok() {
        return;
    }
    // Nothing more is started meanwhile.
    let _ = write(group, "pids.max", "0");
    let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in processes.lines().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// The trees in which groups can be made here.
fn trees() -> &'static [Tree] {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    TREES.get_or_init(|| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let trees: Vec<Tree> = mounts.lines().filter_map(|mount| tree(mount, &own)).collect();
        // The same tree may be mounted at several places.
        let mut seen = HashSet::new();
        let once = |tree: &Tree| seen.insert((tree.version == Version::Two, tree.memory, tree.processes));
        let trees: Vec<Tree> = trees.into_iter().filter(once).collect();
        trees.iter().for_each(|tree| remove_abandoned(&tree.base));
        trees
    })
}

/// The tree that is mounted by a line of the kernel's list, if groups that count something can be made in it.
fn tree(mount: &str, own: &str) -> Option<Tree> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, Path::new(place.next()?));
    let mut kind = kind.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1)?);
    // Where this process is in the tree: `number:controllers:path`.
    let inside = |is_it: &dyn Fn(&str) -> bool| {
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
        let base = inside(&|controllers| has(controllers, ',', name))?;
        return ((processes || memory) && is_writable(&base)).then_some(Tree {
            base,
            version: Version::One,
            processes,
            memory,
        });
    }
    if kind != "cgroup2" {
        return None;
    }
    // A group that has processes of its own gives nothing to count to those in it, so it is done beside it.
    let base = inside(&|controllers| controllers.is_empty())?;
    base.ancestors().take_while(|folder| folder.starts_with(point)).find_map(|folder| {
        let passed = fs::read_to_string(folder.join("cgroup.subtree_control")).ok()?;
        let passed = passed.trim();
        let (processes, memory) = (has(passed, ' ', "pids"), has(passed, ' ', "memory"));
        ((processes || memory) && is_writable(folder) && is_writable(&folder.join("cgroup.procs")))
            .then(|| Tree { base: folder.to_owned(), version: Version::Two, processes, memory })
    })
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The group that the cages of a session are in, if there is something that they may use only together. It is
/// made with the first of them.
#[derive(Debug, Default)]
pub(super) struct Session {
    amounts: Amounts,
    group: Mutex<Option<Arc<Group>>>,
    /// Milliseconds of processor time that ended commands have used.
    spent: AtomicU64,
}

impl Session {
    pub(super) fn new(amounts: Amounts) -> Self {
        Self { amounts, group: Mutex::default(), spent: AtomicU64::new(0) }
    }

    /// Notes what an ended command has used.
    pub(super) fn spend(&self, time: Duration) {
        self.spent.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Refuses where the time is used up.
    pub(super) fn has_time(&self) -> io::Result<()> {
        match self.amounts.cpu {
            Some(most) if self.spent.load(Ordering::Relaxed) / 1000 >= most => Err(io::Error::other(
                format!("the commands of this session have used up their {most} seconds of processor time"),
            )),
            _ => Ok(()),
        }
    }

    /// Makes a group for one cage of the session.
    pub(super) fn leaf(&self, amounts: Amounts) -> io::Result<Group> {
        if (Amounts { cpu: None, ..self.amounts }) == Amounts::default() {
            return Group::leaf(None, amounts);
        }
        let mut group = self.group.lock();
        let above = match &*group {
            Some(group) => group.clone(),
            None => group.insert(Arc::new(Group::new(self.amounts)?)).clone(),
        };
        drop(group);
        Group::leaf(Some(above), amounts)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let group = self.group.get_mut().take();
        let Some(group) = group else { return };
        // Whoever ends a session may be about to end itself, so this is not left to others if it takes but a moment.
        for _ in 0..PATIENCE {
            group.folders.iter().for_each(|(folder, _)| remove_tree(folder));
            if !group.folders.iter().any(|(folder, _)| folder.exists()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Removes a group and those in it, as far as they are empty.
fn remove_tree(group: &Path) {
    for inner in fs::read_dir(group).into_iter().flatten().flatten() {
        // All but folders are files of the kernel, which cannot be removed.
        is_removed(&inner.path());
    }
    is_removed(group);
}

/// Removes the groups of those who were killed before they could.
fn remove_abandoned(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split_once('-'));
        let Some((owner, _)) = owner.filter(|(owner, _)| owner.parse::<u32>().is_ok()) else { continue };
        if Path::new("/proc").join(owner).exists() {
            continue;
        }
        remove_tree(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A folder that looks like a tree of the second version, with what its groups pass on to those in them.
    fn looks_like(groups: &[(&str, &str)]) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        for (group, passed) in groups {
            let group = folder.path().join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.subtree_control"), passed).unwrap();
            fs::write(group.join("cgroup.procs"), "").unwrap();
        }
        let mount = format!("30 23 0:26 / {} rw,relatime - cgroup2 cgroup2 rw", folder.path().display());
        (folder, mount)
    }

    #[test]
    fn groups_are_made_beside_the_own_one() {
        let (folder, mount) = looks_like(&[("", ""), ("user", "cpu memory pids\n"), ("user/scope", "")]);
        let tree = tree(&mount, "1:name=systemd:/\n0::/user/scope\n").unwrap();
        assert_eq!(tree.base, folder.path().join("user"));
        assert!(tree.version == Version::Two && tree.memory && tree.processes);
        let group = Group { folders: vec![(tree.base.clone(), Box::leak(Box::new(tree)))], above: None };
        group.limit(Amounts { memory: Some(1000), processes: Some(10), cpu: None }).unwrap();
        group.enter(42).unwrap();
        let written = |file: &str| fs::read_to_string(folder.path().join("user").join(file)).unwrap();
        let files = ["memory.max", "memory.swap.max", "pids.max", "cgroup.procs"].map(written);
        assert_eq!(files, ["1000", "0", "10", "42"]);
        assert_eq!(group.hit(), None);
        fs::write(folder.path().join("user/pids.events"), "max 3\n").unwrap();
        assert_eq!(group.hit(), Some(Hit::Processes));
        fs::write(folder.path().join("user/memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        assert_eq!(group.hit(), Some(Hit::Memory));
    }

    #[test]
    fn a_tree_that_counts_nothing_is_not_taken() {
        let (_folder, mount) = looks_like(&[("", "cpu io"), ("user", "")]);
        assert!(tree(&mount, "0::/user\n").is_none());
        assert!(tree(&mount, "4:memory:/user\n").is_none(), "this process is not in it");
        assert!(tree("30 23 0:26 / /proc rw - proc proc rw", "0::/\n").is_none());
    }
}
