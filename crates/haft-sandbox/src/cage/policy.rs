//! What a command in a cage may do, and which walls stand.

use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use super::groups::Quota;
use super::layer::LayerError;
use super::wire::{Build, Frame, Parts};
use crate::process::Exit;

/// What a command may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whether there are walls at all.
    pub walls: Layers,
    /// Folders that it may write to, besides a private one for temporary files.
    pub write: Vec<PathBuf>,
    /// Files and folders in those that it may only read.
    pub guarded: Vec<PathBuf>,
    /// Folders that it may read although others hide them, or although nothing else can be seen.
    pub read: Vec<PathBuf>,
    /// How much of the file system it sees.
    pub sees: Sees,
    /// Files and folders that it does not see.
    pub hidden: Vec<PathBuf>,
    /// Whether it reaches the network.
    pub network: Network,
    /// How much it may use.
    pub limits: Limits,
    /// Walls that are not put up although they could be: they are told as missing.
    pub without: Vec<Layer>,
}

/// Whether there are walls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layers {
    /// As many as can be had.
    #[default]
    All,
    /// Those that need no namespaces.
    Few,
    /// None: it is only seen to that nothing is left behind.
    None,
}

/// How much of the file system a command sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sees {
    /// All that is not hidden.
    #[default]
    Everything,
    /// The programs of the system, with the few settings they need, and the folders that it may read or write.
    Listed,
}

/// Whether a command reaches the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// It does not.
    #[default]
    Off,
    /// It does.
    On,
}

/// How much a command may use; nothing is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Bytes of memory for each process.
    pub memory: Option<u64>,
    /// Seconds of processor time for each process.
    pub cpu: Option<u64>,
    /// Processes and threads, all together. Where there are no control groups it does not bind root.
    pub processes: Option<u64>,
    /// Open files for each process.
    pub files: Option<u64>,
    /// Bytes of the largest file that may be written.
    pub file_size: Option<u64>,
    /// Bytes of memory for everything together, temporary files included. Binds only where there are control groups.
    pub total_memory: Option<u64>,
    /// Seconds of processor time for all commands of a session: once they are used up, no other is started. One that
    /// had to be ended counts with the time it took.
    pub total_cpu: Option<u64>,
}

impl Limits {
    /// What is sensible where nothing is said: enough for a build on a large machine, and nothing that takes
    /// the machine down.
    pub fn usual() -> Self {
        let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kilobytes =
            info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
        let bytes = kilobytes.and_then(|count| count.parse::<u64>().ok()).map(|count| count * 1024);
        Self { processes: Some(2048), total_memory: bytes.map(|bytes| bytes / 5 * 4), ..Self::default() }
    }

    /// What of it is for everything together.
    pub fn amounts(&self) -> Quota {
        Quota { memory: self.total_memory, processes: self.processes, cpu: self.total_cpu }
    }
}

/// A limit that a command met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hit {
    /// Something was ended for want of memory.
    Memory,
    /// A process could not be started.
    Processes,
    /// A process used up its time.
    Cpu,
    /// A file became too large.
    FileSize,
}

impl Hit {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpu => "cpu",
            Self::FileSize => "file_size",
        }
    }

    /// Told by how a command ended: by a signal, or as a shell tells of the signal that ended a program.
    pub(super) fn told_by(exit: Exit, limits: &Limits) -> Option<Self> {
        let signal = match exit {
            Exit::Signal(signal) => signal,
            Exit::Code(code) => code - 128,
            Exit::TimedOut | Exit::Cancelled => return None,
        };
        match signal {
            libc::SIGXCPU if limits.cpu.is_some() => Some(Self::Cpu),
            libc::SIGXFSZ if limits.file_size.is_some() => Some(Self::FileSize),
            _ => None,
        }
    }
}

/// A wall of a cage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Nothing started in the cage outlives it.
    Processes,
    /// What is outside cannot be changed, and what is hidden not be seen: by a view of the file system.
    View,
    /// The same, by rules for paths.
    Paths,
    /// There is no network.
    Network,
    /// Dangerous system calls are refused.
    Calls,
    /// Everything together uses no more than it may.
    Quota,
}

impl Layer {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Processes, Self::View, Self::Paths, Self::Network, Self::Calls, Self::Quota];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::View => "view",
            Self::Paths => "paths",
            Self::Network => "network",
            Self::Calls => "calls",
            Self::Quota => "amounts",
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|wall| wall.name().as_bytes() == name)
    }

    /// What it is made of.
    pub fn made_of(self) -> &'static str {
        match self {
            Self::Processes => "a process namespace",
            Self::View => "a mount namespace",
            Self::Paths => "Landlock",
            Self::Network => "a network namespace",
            Self::Calls => "a seccomp filter",
            Self::Quota => "a control group",
        }
    }
}

/// Which walls stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Those that do.
    pub standing: Vec<Layer>,
    /// Those that were wanted and do not, and why.
    pub missing: Vec<(Layer, String)>,
}

impl Report {
    /// Whether a wall stands.
    pub fn has(&self, wall: Layer) -> bool {
        self.standing.contains(&wall)
    }

    /// Notes a layer that stands, or that the kernel lacks.
    pub(super) fn note(&mut self, wall: Layer, made: Result<(), LayerError>) -> Result<(), LayerError> {
        match made {
            Ok(()) => self.standing.push(wall),
            Err(LayerError::Unsupported(why)) => self.missing.push((wall, why)),
            Err(failed) => return Err(failed),
        }
        Ok(())
    }

    pub(super) fn frame(&self) -> Frame {
        let name = |wall: &Layer| wall.name().as_bytes().to_vec();
        Build::default()
            .list(self.standing.iter().map(name))
            .list(self.missing.iter().map(|(wall, _)| name(wall)))
            .list(self.missing.iter().map(|(_, why)| why.clone().into_bytes()))
            .frame()
    }

    pub(super) fn parse(frame: Frame) -> io::Result<Self> {
        let mut parts = Parts::of(frame);
        let wall = |name: &Vec<u8>| Layer::named(name);
        let standing = parts.list()?.iter().filter_map(wall).collect();
        let walls: Vec<Layer> = parts.list()?.iter().filter_map(wall).collect();
        let why = parts.list()?;
        let why = why.iter().map(|why| String::from_utf8_lossy(why).into_owned());
        Ok(Self { standing, missing: walls.into_iter().zip(why).collect() })
    }
}

impl Policy {
    pub(super) fn frame(&self) -> Frame {
        let paths = |paths: &Vec<PathBuf>| -> Vec<Vec<u8>> {
            paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
        };
        // The amount of memory is seen to from outside.
        let Limits { memory, cpu, processes, files, file_size, total_memory: _, total_cpu: _ } = self.limits;
        let walls = match self.walls {
            Layers::All => "all",
            Layers::Few => "few",
            Layers::None => "none",
        };
        let frame = Build::default()
            .bytes(walls)
            .list(paths(&self.write).into_iter())
            .list(paths(&self.guarded).into_iter())
            .list(paths(&self.read).into_iter())
            .list(paths(&self.hidden).into_iter())
            .bytes(if self.network == Network::On { "on" } else { "off" })
            .bytes(if self.sees == Sees::Listed { "listed" } else { "everything" })
            .list(self.without.iter().map(|wall| wall.name().as_bytes().to_vec()));
        let limits = [memory, cpu, processes, files, file_size];
        limits.into_iter().fold(frame, |frame, limit| frame.number(limit.unwrap_or(u64::MAX))).frame()
    }

    pub(super) fn parse(frame: Frame) -> io::Result<Self> {
        let mut parts = Parts::of(frame);
        let walls = match &*parts.bytes()? {
            b"all" => Layers::All,
            b"few" => Layers::Few,
            _ => Layers::None,
        };
        let mut paths = || -> io::Result<Vec<PathBuf>> {
            Ok(parts.list()?.into_iter().map(|path| std::ffi::OsString::from_vec(path).into()).collect())
        };
        let (write, guarded, read, hidden) = (paths()?, paths()?, paths()?, paths()?);
        let network = if parts.bytes()? == b"on" { Network::On } else { Network::Off };
        let sees = if parts.bytes()? == b"listed" { Sees::Listed } else { Sees::Everything };
        let without = parts.list()?.iter().filter_map(|name| Layer::named(name)).collect();
        let mut limit =
            || -> io::Result<Option<u64>> { Ok(Some(parts.number()?).filter(|limit| *limit != u64::MAX)) };
        let limits = Limits {
            memory: limit()?,
            cpu: limit()?,
            processes: limit()?,
            files: limit()?,
            file_size: limit()?,
            total_memory: None,
            total_cpu: None,
        };
        Ok(Self { walls, write, guarded, read, sees, hidden, network, limits, without })
    }
}
