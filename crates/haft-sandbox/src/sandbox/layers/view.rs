//! The file system as a command sees it: mounts in a namespace of its own. What may be written is mounted writable, all
//! else read-only; hidden files are covered, guarded ones mounted read-only once more.
//!
//! The session's namespace has a root of its own with the machine's files below [`HOST`] and, beside them, what the
//! session's commands share: `/proc` and the folders for temporary files. A command copies that namespace, takes the shared
//! mounts along, makes the machine's root its own, and mounts the rest as its policy says. So each command sees the files
//! that exist when it starts, and no policy is fixed when the session begins.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, mount, mount_change, move_mount,
    open_tree, unmount,
};

use super::super::layer_error::LayerError;
use super::super::policy::{Policy, Visibility};
use super::super::trial::Mounts;

mod overlay;

/// Folders for temporary files, which the commands of a session share, and no other process.
pub(super) const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// The machine's files in the root of the session's namespace.
const HOST: &str = "/host";
/// Folder of the session's temporary files in that root.
const SHARED: &str = "/shared";
/// Folder of the session's devices in that root.
const DEVICES: &str = "/dev";
/// Folders of services' sockets, which are covered.
const SOCKETS: [&str; 1] = ["/run"];
/// Size limit of each folder for temporary files.
const TEMPORARY_BYTES: u64 = 2 << 30;

/// Folders of the system's programs and libraries.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];
/// Settings of the system that programs read; none of them is secret.
const SETTINGS: [&str; 24] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/protocols",
    "/etc/services",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.conf",
    "/etc/os-release",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/mime.types",
    "/etc/terminfo",
    "/etc/fonts",
];
/// The devices that commands see, besides pseudoterminals of their own. `tty` stands for a terminal that they do not have.
const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Settings of the devices for pseudoterminals, which the commands of a session share: how many there can be, and that
/// everyone can make one.
const PSEUDOTERMINALS: &std::ffi::CStr = c"newinstance,ptmxmode=0666,mode=620,max=256";
/// The settings of name lookup, which on some systems lead into a covered folder.
const RESOLVER: &str = "/etc/resolv.conf";

/// Tries every feature of the kernel that a view needs, on nothing that a policy names. A failure after this probe is not for
/// lack of a feature, so it must not take the layer away.
pub(in super::super) fn probe_view() -> Result<(), LayerError> {
    let lacks = |error: io::Error| LayerError::probed("a mount namespace", error);
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| lacks(error.into()))?;
    let root = clone_mounts(Path::new("/")).map_err(lacks)?;
    set_read_only(root.as_fd(), Path::new(""), Depth::All).map_err(lacks)?;
    // In a container that covers parts of /proc the kernel refuses to mount a complete one.
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).map_err(|error| lacks(error.into()))?;
    fsconfig_create(fs.as_fd()).map_err(|error| lacks(error.into()))?;
    fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        .map_err(|error| lacks(error.into()))?;
    Ok(())
}

/// Sets up the session's namespace: a root with the machine's files, a `/proc` of the session's own processes, and empty
/// folders for temporary files. No policy is involved, so a failure means that the kernel does not allow it.
pub(in super::super) fn make_session_root() -> Result<(), LayerError> {
    session_root().map_err(|error| LayerError::probed("a root of its own", error))
}

fn session_root() -> io::Result<()> {
    let host = clone_mounts(Path::new("/"))?;
    // The new root is built on any existing folder; what that holds is in the clone.
    let root = Path::new("/tmp");
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    tmpfs(root, "755", 1 << 20)?;
    fs::create_dir(at(HOST))?;
    mount_clone(&host, &at(HOST))?;
    fs::create_dir(at("/proc"))?;
    // While the old /proc is still mounted: the kernel refuses a new one that would show more than those in place.
    proc_at(&at("/proc"), None)?;
    devices_at(&at(DEVICES))?;
    for folder in TEMPORARY {
        let folder = at(&shared_place(folder));
        fs::create_dir_all(&folder)?;
        tmpfs(&folder, "1777", TEMPORARY_BYTES)?;
    }
    enter_root(root)
}

/// Makes a folder of devices: a few that hold nothing of the machine, and pseudoterminals of its own. Those of the machine
/// are terminals of its users, disks and the like.
fn devices_at(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    tmpfs(folder, "755", 1 << 20)?;
    for name in NODES {
        let Ok(node) = clone_mounts(&Path::new("/dev").join(name)) else { continue };
        fs::File::create(folder.join(name))?;
        mount_clone(&node, &folder.join(name))?;
    }
    for (name, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/{target}"), folder.join(name))?;
    }
    fs::create_dir(folder.join("shm"))?;
    fs::create_dir(folder.join("pts"))?;
    // Without pseudoterminals some programs fail, but the sandbox is no weaker.
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    if mount("devpts", folder.join("pts"), "devpts", flags, Some(PSEUDOTERMINALS)).is_ok() {
        std::os::unix::fs::symlink("pts/ptmx", folder.join("ptmx"))?;
    }
    read_only(folder, Depth::One)
}

/// Bytes of the session's temporary files, for a process in its namespace.
pub(in super::super) fn temporary_bytes() -> u64 {
    let used = |folder: &str| {
        let found = rustix::fs::statvfs(&*shared_place(folder)).ok()?;
        Some(found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize))
    };
    TEMPORARY.into_iter().filter_map(used).sum()
}

/// Where the root of the session's namespace has a shared folder.
fn shared_place(folder: &str) -> String {
    format!("{SHARED}/{}", folder.trim_start_matches('/').replace('/', "-"))
}

/// What the commands of a session share, cloned from its namespace.
struct Shared {
    proc: OwnedFd,
    devices: OwnedFd,
    temporary: Vec<(&'static str, OwnedFd)>,
}

impl Shared {
    fn clone_all() -> io::Result<Self> {
        let temporary =
            TEMPORARY.into_iter().map(|folder| Ok((folder, clone_mounts(Path::new(&shared_place(folder)))?)));
        Ok(Self {
            proc: clone_mounts(Path::new("/proc"))?,
            devices: clone_mounts(Path::new(DEVICES))?,
            temporary: temporary.collect::<io::Result<_>>()?,
        })
    }
}

/// Makes a mounted folder the root of this namespace and detaches the old root.
fn enter_root(root: &Path) -> io::Result<()> {
    // `pivot_root(".", ".")` stacks the old root on the new one, where it can be detached without a folder for it.
    rustix::process::chdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// Sets up the view that a policy describes, in a copy of the session's namespace.
pub(in super::super) fn make_view(policy: &Policy, trial: &Mounts) -> io::Result<()> {
    let shared = Shared::clone_all()?;
    enter_root(Path::new(HOST))?;
    // Cloned before anything is covered or made read-only: the clones keep the original mounts and their access.
    let cloned = |paths: &[PathBuf]| -> io::Result<Vec<(PathBuf, OwnedFd)>> {
        paths
            .iter()
            .filter(|path| path.exists())
            .map(|path| {
                let tree = clone_mounts(path)?;
                policy.require_opened(path, &tree)?;
                Ok((path.clone(), tree))
            })
            .collect()
    };
    let (mut write, read) = (cloned(&policy.write)?, cloned(&policy.read)?);
    // Made before anything is read-only, too: the upper layers must be writable.
    for (path, tree) in &mut write {
        if let Some(layer) = trial.layers.iter().find(|layer| layer.root == *path) {
            *tree = overlay::mount(layer)?;
        }
    }
    write.extend(cloned(&trial.shared)?);
    match policy.sees {
        Visibility::Everything => open_view(&shared)?,
        Visibility::Listed => closed_view(&shared)?,
    }
    for (path, tree) in &read {
        attach(tree, path)?;
        read_only(path, Depth::All)?;
    }
    for (path, tree) in &write {
        attach(tree, path)?;
        set_attributes(CWD, path, Depth::All, HARMLESS)?;
    }
    if policy.sees == Visibility::Listed {
        // Only now: attaching made folders in it as mount points.
        read_only(Path::new("/"), Depth::One)?;
    }
    guard(&policy.guarded, &policy.write)?;
    let kept: Vec<&PathBuf> = policy.read.iter().chain(&policy.write).collect();
    let mut hidden = policy.hidden.iter().map(PathBuf::as_path).chain(trial.hidden());
    hidden.try_for_each(|path| hide(path, &kept))
}

/// A view of all files, read-only.
fn open_view(shared: &Shared) -> io::Result<()> {
    read_only(Path::new("/"), Depth::All)?;
    mount_clone(&shared.proc, Path::new("/proc"))?;
    read_only(Path::new("/proc"), Depth::One)?;
    mount_clone(&shared.devices, Path::new("/dev"))?;
    for (folder, tree) in &shared.temporary {
        let folder = Path::new(folder);
        // `/var/tmp` may be a link to `/tmp`.
        if folder.is_dir() && !folder.is_symlink() {
            mount_clone(tree, folder)?;
        }
    }
    let resolver =
        fs::canonicalize(RESOLVER).ok().filter(|path| SOCKETS.iter().any(|folder| path.starts_with(folder)));
    let resolver = resolver.map(|path| Ok::<_, io::Error>((clone_mounts(&path)?, path))).transpose()?;
    for folder in SOCKETS {
        tmpfs(Path::new(folder), "755", 1 << 20)?;
    }
    resolver.map_or(Ok(()), |(tree, path)| attach(&tree, &path))
}

/// A view of the system's programs and what they need, and nothing else: its folders for temporary files are empty.
fn closed_view(shared: &Shared) -> io::Result<()> {
    // The new root is built on any existing folder; what that holds is not visible afterwards.
    let root = Path::new("/tmp");
    let at = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let wanted = SYSTEM.iter().chain(&SETTINGS).map(Path::new);
    let (links, others): (Vec<&Path>, Vec<&Path>) =
        wanted.filter(|path| path.exists()).partition(|path| path.is_symlink());
    let trees = others.into_iter().map(|path| Ok((path, path.canonicalize()?, clone_mounts(path)?)));
    let trees: Vec<(&Path, PathBuf, OwnedFd)> = trees.collect::<io::Result<_>>()?;
    tmpfs(root, "755", 1 << 20)?;
    for path in links {
        let to = at(path);
        fs::create_dir_all(to.parent().unwrap_or(root))?;
        std::os::unix::fs::symlink(fs::read_link(path)?, to)?;
    }
    for (path, real, tree) in &trees {
        let to = at(path);
        if !real.is_dir() {
            fs::create_dir_all(to.parent().unwrap_or(root))?;
            fs::File::create(&to)?;
        }
        attach(tree, &to)?;
        read_only(&to, Depth::All)?;
    }
    attach(&shared.devices, &root.join("dev"))?;
    fs::create_dir(root.join("proc"))?;
    // While the machine's /proc is still mounted: the kernel refuses a new one that would show more than those in place.
    proc_at(&root.join("proc"), Some(c"subset=pid"))?;
    read_only(&root.join("proc"), Depth::One)?;
    for folder in TEMPORARY.iter().chain(&SOCKETS) {
        let folder = at(Path::new(folder));
        fs::create_dir_all(&folder)?;
        tmpfs(&folder, "1777", TEMPORARY_BYTES)?;
    }
    enter_root(root)
}

/// The paths that may be read with [`Visibility::Listed`], for Landlock where there is no view.
pub(super) fn listed(policy: &Policy) -> Vec<PathBuf> {
    let system = SYSTEM.iter().chain(&SETTINGS).chain(&["/proc"]).map(PathBuf::from);
    system.chain(policy.read.iter().cloned()).collect()
}

fn proc_at(path: &Path, options: Option<&std::ffi::CStr>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("proc", path, "proc", flags, options) {
        // Before Linux 5.8 there is no `subset` option.
        Err(rustix::io::Errno::INVAL) if options.is_some() => Ok(mount("proc", path, "proc", flags, None)?),
        done => Ok(done?),
    }
}

/// Clones the mounts at a path and below it, detached, to be mounted elsewhere or there again.
fn clone_mounts(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

/// Mounts cloned mounts at a path. Makes the mount point where it is missing: the path may lie in a folder that was just
/// covered.
fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    if !path.exists() {
        let is_folder = FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode).is_dir();
        let folder = if is_folder { Some(path) } else { path.parent() };
        folder.map_or(Ok(()), fs::create_dir_all)?;
        if !is_folder {
            fs::File::create(path)?;
        }
    }
    mount_clone(tree, path)
}

fn mount_clone(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    Ok(move_mount(tree.as_fd(), "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn tmpfs(path: &Path, mode: &str, bytes: u64) -> io::Result<()> {
    if !path.is_dir() || path.is_symlink() {
        return Ok(());
    }
    let options = std::ffi::CString::new(format!("mode={mode},size={bytes}")).map_err(io::Error::other)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str()))?)
}

/// Makes existing paths read-only. The writable folders above them become mount points as well, which cannot be renamed: a
/// command that moved one of them away could put another file in the guarded place.
fn guard(paths: &[PathBuf], write: &[PathBuf]) -> io::Result<()> {
    let mut mount_points: BTreeSet<&Path> = BTreeSet::new();
    let mut guarded: BTreeSet<&Path> = BTreeSet::new();
    for path in paths {
        // A link cannot be a mount point; haft restores links after the command.
        if path.is_symlink() || !path.exists() {
            continue;
        }
        let Some(root) = write.iter().find(|root| path.starts_with(root)) else { continue };
        mount_points.extend(path.ancestors().take_while(|above| above != root));
        guarded.insert(path);
    }
    // Sorted: a folder comes before what is in it.
    for path in mount_points {
        mount_clone(&clone_mounts(path)?, path)?;
    }
    guarded.into_iter().try_for_each(|path| read_only(path, Depth::All))
}

/// Covers a path: a folder with an empty one, a file with `/dev/null`. Some folders below it stay as they are.
fn hide(path: &Path, kept: &[&PathBuf]) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let stays = |folder: &&&PathBuf| **folder != path && folder.starts_with(path) && folder.is_dir();
            let cloned = kept.iter().filter(stays).map(|folder| Ok((*folder, clone_mounts(folder)?)));
            let shown: Vec<(&PathBuf, OwnedFd)> = cloned.collect::<io::Result<_>>()?;
            // What stays must be reachable for the command's own user.
            tmpfs(path, if shown.is_empty() { "700" } else { "755" }, 4096)?;
            for (folder, tree) in &shown {
                attach(tree, folder)?;
            }
            read_only(path, Depth::One)
        }
        Ok(found) if found.is_file() => attach(&clone_mounts(Path::new("/dev/null"))?, path),
        // The link's target could be read by its own name, so that is hidden.
        Ok(found) if found.is_symlink() => match path.canonicalize() {
            Ok(target) if target != path && !target.is_symlink() => hide(&target, kept),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// How far a mount attribute reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The mount at a path.
    One,
    /// That mount and all below it.
    All,
}

/// Makes the mount at a path read-only.
fn read_only(path: &Path, depth: Depth) -> io::Result<()> {
    set_read_only(CWD, path, depth)
}

/// Makes the mount at a path below a directory handle read-only; an empty path is the handle itself.
fn set_read_only(dir: BorrowedFd<'_>, path: &Path, depth: Depth) -> io::Result<()> {
    set_attributes(dir, path, depth, libc::MOUNT_ATTR_RDONLY | HARMLESS)
}

/// Attributes of every mount but that of the devices: no program there gives rights, and no file there is a device.
const HARMLESS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

#[allow(unsafe_code)]
fn set_attributes(dir: BorrowedFd<'_>, path: &Path, depth: Depth, attributes: u64) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let attributes = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let recursive = if depth == Depth::All { libc::AT_RECURSIVE } else { 0 };
    let own = if path.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    // SAFETY: both pointers are valid for the call, and the size is that of what the second one points to.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_raw_fd(),
            path.as_ptr(),
            recursive | own,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
