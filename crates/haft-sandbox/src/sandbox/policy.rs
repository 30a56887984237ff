//! What a command in a sandbox may do, the report of which layers are in force, and how both go over the wire.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::cgroups::Quota;
use super::layer_error::LayerError;
use super::wire::{Build, Frame, Parts};
use crate::process::Exit;

/// What a command may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Which layers to set up.
    pub layers: Layers,
    /// Folders that it may write to, besides private ones for temporary files.
    pub write: Vec<PathBuf>,
    /// Files and folders below `write` that it may only read.
    pub guarded: Vec<PathBuf>,
    /// Folders that it may read although they lie in hidden ones, or although `sees` lists nothing else.
    pub read: Vec<PathBuf>,
    /// Device and inode of folders of `write` and `read`. Nothing runs if another folder, or a link, has taken the place of one.
    pub opened: Vec<(PathBuf, (u64, u64))>,
    /// How much of the file system it sees.
    pub sees: Visibility,
    /// Files and folders that it does not see.
    pub hidden: Vec<PathBuf>,
    /// Whether it reaches the network.
    pub network: Network,
    /// How much it may use.
    pub limits: Limits,
    /// Layers to leave out although the kernel supports them; the report lists them as missing.
    pub without: Vec<Layer>,
}

/// Which layers of the sandbox to set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layers {
    /// Every layer that the kernel supports.
    #[default]
    All,
    /// Those that need no namespaces.
    Few,
    /// None: the supervisor only ends every process with the command.
    None,
}

impl Layers {
    /// Its name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Few => "few",
            Self::None => "none",
        }
    }

    pub(super) fn named(name: &[u8]) -> Self {
        // An unknown name is that of the strictest.
        [Self::None, Self::Few]
            .into_iter()
            .find(|layers| layers.name().as_bytes() == name)
            .unwrap_or_default()
    }
}

/// How much of the file system a command sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Everything that is not hidden.
    #[default]
    Everything,
    /// The system's programs, the few settings they need, and the folders that the policy lists.
    Listed,
}

/// Whether a command reaches the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// No network.
    #[default]
    Off,
    /// The network of the machine.
    On,
}

/// Limits of what a command may use; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Bytes of memory for each process.
    pub memory: Option<u64>,
    /// Seconds of processor time for each process.
    pub cpu: Option<u64>,
    /// Processes and threads of the whole command. Without control groups it does not bind root.
    pub processes: Option<u64>,
    /// Open files for each process.
    pub files: Option<u64>,
    /// Bytes of the largest file that may be written.
    pub file_size: Option<u64>,
    /// Bytes of memory for the whole command, temporary files included. Where there are no control groups, it is looked at a few
    /// times a second.
    pub total_memory: Option<u64>,
    /// Seconds of processor time for all commands of a session: once they are used up, no other starts. A command that was
    /// killed counts with its wall-clock time.
    pub total_cpu: Option<u64>,
}

impl Limits {
    /// The defaults: enough for a build on a large machine, and too little to take the machine down.
    pub fn usual() -> Self {
        let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kilobytes =
            info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
        let bytes = kilobytes.and_then(|count| count.parse::<u64>().ok()).map(|count| count * 1024);
        Self { processes: Some(2048), total_memory: bytes.map(|bytes| bytes / 5 * 4), ..Self::default() }
    }

    /// The limits that hold for all processes of a command together, as a quota.
    pub fn quota(&self) -> Quota {
        Quota { memory: self.total_memory, processes: self.processes, cpu: self.total_cpu }
    }
}

/// A limit that a command ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitHit {
    /// The kernel killed a process for want of memory.
    Memory,
    /// A process could not be started.
    Processes,
    /// A process used up its processor time.
    Cpu,
    /// A file became too large.
    FileSize,
}

impl LimitHit {
    /// Its name in replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpu => "cpu",
            Self::FileSize => "file_size",
        }
    }

    /// The limit that an exit points to: the command died by its signal, or a shell reported that signal as 128 + n.
    pub(super) fn from_exit(exit: Exit, limits: &Limits) -> Option<Self> {
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

/// A layer of the sandbox: one mechanism of the kernel that confines commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// A process namespace: nothing started in the sandbox outlives it.
    Processes,
    /// A mount namespace: files outside the policy are read-only, and hidden ones are absent.
    View,
    /// Landlock rules: files outside the policy cannot be written, and hidden ones cannot be read.
    Paths,
    /// A network namespace: nothing outside the sandbox can be reached.
    Network,
    /// A seccomp filter: dangerous system calls fail.
    Calls,
    /// A control group: all processes together keep to their [`Quota`].
    Quota,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Self; 6] =
        [Self::Processes, Self::View, Self::Paths, Self::Network, Self::Calls, Self::Quota];

    /// Its name in settings and replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::View => "view",
            Self::Paths => "paths",
            Self::Network => "network",
            Self::Calls => "calls",
            Self::Quota => "quota",
        }
    }

    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| layer.name().as_bytes() == name)
    }

    /// The mechanism of the kernel that it is made of, in words.
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

/// Kind of a frame with a report.
const REPORT: &str = "report";

/// Which layers of a sandbox are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The layers in force.
    pub active: Vec<Layer>,
    /// The layers that were wanted and are not in force, each with the reason.
    pub missing: Vec<(Layer, String)>,
}

impl Report {
    /// Whether a layer is in force.
    pub fn has(&self, layer: Layer) -> bool {
        self.active.contains(&layer)
    }

    /// Records a layer that is in force, or that the kernel lacks; passes on any other failure.
    pub(super) fn note(&mut self, layer: Layer, outcome: Result<(), LayerError>) -> Result<(), LayerError> {
        match outcome {
            Ok(()) => self.active.push(layer),
            Err(LayerError::Unsupported(why)) => self.missing.push((layer, why)),
            Err(failed) => return Err(failed),
        }
        Ok(())
    }

    pub(super) fn frame(&self) -> Frame {
        let name = |layer: &Layer| layer.name().as_bytes().to_vec();
        Build::default()
            .bytes(REPORT)
            .list(self.active.iter().map(name))
            .list(self.missing.iter().map(|(layer, _)| name(layer)))
            .list(self.missing.iter().map(|(_, why)| why.clone().into_bytes()))
            .frame()
    }

    /// Takes a report from a frame, after its kind.
    pub(super) fn parse(parts: &mut Parts) -> io::Result<Self> {
        let layer = |name: &Vec<u8>| Layer::named(name);
        let standing = parts.list()?.iter().filter_map(layer).collect();
        let missing: Vec<Layer> = parts.list()?.iter().filter_map(layer).collect();
        let why = parts.list()?;
        let why = why.iter().map(|why| String::from_utf8_lossy(why).into_owned());
        Ok(Self { active: standing, missing: missing.into_iter().zip(why).collect() })
    }
}

impl Policy {
    /// Adds the policy to a frame.
    pub(super) fn build(&self, frame: Build) -> Build {
        let paths = |paths: &Vec<PathBuf>| -> Vec<Vec<u8>> {
            paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
        };
        // Haft enforces the totals from outside, by a control group.
        let Limits { memory, cpu, processes, files, file_size, total_memory: _, total_cpu: _ } = self.limits;
        let frame = frame
            .bytes(self.layers.name())
            .list(paths(&self.write).into_iter())
            .list(paths(&self.guarded).into_iter())
            .list(paths(&self.read).into_iter())
            .list(paths(&self.hidden).into_iter())
            .list(self.opened.iter().map(|(path, _)| path.as_os_str().as_bytes().to_vec()))
            .list(self.opened.iter().map(|(_, (device, inode))| format!("{device} {inode}").into_bytes()))
            .bytes(if self.network == Network::On { "on" } else { "off" })
            .bytes(if self.sees == Visibility::Listed { "listed" } else { "everything" })
            .list(self.without.iter().map(|layer| layer.name().as_bytes().to_vec()));
        let limits = [memory, cpu, processes, files, file_size];
        limits.into_iter().fold(frame, |frame, limit| frame.number(limit.unwrap_or(u64::MAX)))
    }

    /// Takes a policy from the front of a frame.
    pub(super) fn parse(parts: &mut Parts) -> io::Result<Self> {
        let layers = Layers::named(&parts.bytes()?);
        let mut paths = || -> io::Result<Vec<PathBuf>> {
            Ok(parts.list()?.into_iter().map(|path| std::ffi::OsString::from_vec(path).into()).collect())
        };
        let (write, guarded, read, hidden) = (paths()?, paths()?, paths()?, paths()?);
        let opened = paths()?;
        let identities = parts.list()?.iter().map(|text| identity(text)).collect::<io::Result<Vec<_>>>()?;
        let opened = opened.into_iter().zip(identities).collect();
        let network = if parts.bytes()? == b"on" { Network::On } else { Network::Off };
        let sees = if parts.bytes()? == b"listed" { Visibility::Listed } else { Visibility::Everything };
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
        Ok(Self { layers, write, guarded, read, opened, sees, hidden, network, limits, without })
    }

    /// Fails if a folder, opened by its path, is not the one that the session opened.
    pub(super) fn require_opened(&self, path: &Path, found: impl AsFd) -> io::Result<()> {
        let Some((_, wanted)) = self.opened.iter().find(|(opened, _)| opened == path) else { return Ok(()) };
        let found = rustix::fs::fstat(found)?;
        match (found.st_dev, found.st_ino) == *wanted {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "`{}` is not the folder that this session opened: that was moved or deleted, and something else has its name; \
                 put it back, or start a new session",
                path.display()
            ))),
        }
    }
}

/// Device and inode, as they go over the wire.
fn identity(text: &[u8]) -> io::Result<(u64, u64)> {
    let text = std::str::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData)?;
    let (device, inode) = text.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
    let number = |text: &str| text.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
    Ok((number(device)?, number(inode)?))
}
