//! The file system as a command sees it.

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

use super::super::layer::LayerError;
use super::super::policy::{Policy, Sees};

/// Folders of programs for their temporary files: each cage has its own.
pub(super) const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Where services have their sockets.
const SOCKETS: [&str; 1] = ["/run"];
/// How much may be put into temporary files.
const TEMPORARY_BYTES: u64 = 2 << 30;

/// Where the programs of a system are.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];
/// What programs read of the settings of a system, and nothing that is a secret.
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
/// The devices that there are where only what is listed can be seen.
const NODES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Tries everything that a view needs of the kernel, without anything that a policy names. What fails after this is not the
/// kernel's doing.
pub(in super::super) fn probe_view() -> Result<(), LayerError> {
    let lacks = |error: io::Error| LayerError::probed("a mount namespace", error);
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| lacks(error.into()))?;
    let root = tree(Path::new("/")).map_err(lacks)?;
    set_read_only(root.as_fd(), Path::new(""), Depth::All).map_err(lacks)?;
    // In a container that covers parts of /proc the kernel refuses a whole one.
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).map_err(|error| lacks(error.into()))?;
    fsconfig_create(fs.as_fd()).map_err(|error| lacks(error.into()))?;
    fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        .map_err(|error| lacks(error.into()))?;
    Ok(())
}

/// Makes a view of the file system in which only what may be changed can be, and what is hidden is not there.
pub(in super::super) fn make_view(policy: &Policy) -> io::Result<()> {
    // Taken before anything is covered or made read-only.
    let taken = |paths: &[PathBuf]| -> io::Result<Vec<(PathBuf, OwnedFd)>> {
        paths.iter().filter(|path| path.exists()).map(|path| Ok((path.clone(), tree(path)?))).collect()
    };
    let (write, read) = (taken(&policy.write)?, taken(&policy.read)?);
    match policy.sees {
        Sees::Everything => open_view()?,
        Sees::Listed => closed_view()?,
    }
    for (path, tree) in &read {
        attach(tree, path)?;
        read_only(path, Depth::All)?;
    }
    for (path, tree) in &write {
        attach(tree, path)?;
    }
    if policy.sees == Sees::Listed {
        // Only now, because folders were made in it for what was put there.
        read_only(Path::new("/"), Depth::One)?;
    }
    for path in &policy.guarded {
        guard(path, &policy.write)?;
    }
    for path in &policy.hidden {
        hide(path)?;
    }
    Ok(())
}

/// Everything there is, to be read.
fn open_view() -> io::Result<()> {
    read_only(Path::new("/"), Depth::All)?;
    proc_at(Path::new("/proc"), None)?;
    for place in TEMPORARY {
        tmpfs(Path::new(place), "1777", TEMPORARY_BYTES)?;
    }
    for place in SOCKETS {
        tmpfs(Path::new(place), "755", 1 << 20)?;
    }
    Ok(())
}

/// Nothing but the programs of the system and what they cannot do without.
fn closed_view() -> io::Result<()> {
    // Any folder will do that is there: what is below it is not seen again.
    let root = Path::new("/tmp");
    let at = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let wanted = SYSTEM.iter().chain(&SETTINGS).chain(&NODES).map(Path::new);
    let (links, places): (Vec<&Path>, Vec<&Path>) =
        wanted.filter(|path| path.exists()).partition(|path| path.is_symlink());
    let trees = places.into_iter().map(|path| Ok((path, path.canonicalize()?, tree(path)?)));
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
        if !NODES.iter().any(|node| *path == Path::new(node)) {
            read_only(&to, Depth::All)?;
        }
    }
    for (name, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/{target}"), root.join("dev").join(name))?;
    }
    fs::create_dir(root.join("proc"))?;
    // As long as the other one is still there: the kernel lets nobody see more than before.
    proc_at(&root.join("proc"), Some(c"subset=pid"))?;
    for place in TEMPORARY.iter().chain(&SOCKETS) {
        let place = at(Path::new(place));
        fs::create_dir_all(&place)?;
        tmpfs(&place, "1777", TEMPORARY_BYTES)?;
    }
    // The old root goes on top of the new one, and away.
    rustix::process::chdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// What can be read where only what is listed can be, without a view.
pub(super) fn listed(policy: &Policy) -> Vec<PathBuf> {
    let system = SYSTEM.iter().chain(&SETTINGS).chain(&["/proc"]).map(PathBuf::from);
    system.chain(policy.read.iter().cloned()).collect()
}

fn proc_at(path: &Path, options: Option<&std::ffi::CStr>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    match mount("proc", path, "proc", flags, options) {
        // Older kernels show all of it or nothing.
        Err(rustix::io::Errno::INVAL) if options.is_some() => Ok(mount("proc", path, "proc", flags, None)?),
        done => Ok(done?),
    }
}

/// The mounts of a place, to be put elsewhere, or there again.
fn tree(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    // It may lie in a folder that was just covered.
    if !path.exists() {
        let is_folder = FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode).is_dir();
        let folder = if is_folder { Some(path) } else { path.parent() };
        folder.map_or(Ok(()), fs::create_dir_all)?;
        if !is_folder {
            fs::File::create(path)?;
        }
    }
    put(tree, path)
}

fn put(tree: &OwnedFd, path: &Path) -> io::Result<()> {
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

/// Makes what exists read-only, and keeps the folders above it, in what may be written, in their places.
pub(in super::super) fn guard(path: &Path, write: &[PathBuf]) -> io::Result<()> {
    // Nothing can be put on a link; haft sees to it that it leads where it did.
    if !path.exists() || path.is_symlink() {
        return Ok(());
    }
    let Some(root) = write.iter().find(|root| path.starts_with(root)) else { return Ok(()) };
    let mut above: Vec<&Path> = path.ancestors().skip(1).take_while(|above| above != root).collect();
    above.reverse();
    let act = || {
        for folder in above {
            put(&tree(folder)?, folder)?;
        }
        put(&tree(path)?, path)?;
        read_only(path, Depth::All)
    };
    match act() {
        // It was only there for another command, which has just ended.
        Err(_) if !path.exists() => Ok(()),
        done => done,
    }
}

/// Takes a guard away, and the name that was only taken for it.
pub(in super::super) fn give_back(path: &Path) {
    if unmount(path, UnmountFlags::DETACH).is_ok() {
        super::super::guards::free(path);
    }
}

fn hide(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            tmpfs(path, "700", 4096)?;
            read_only(path, Depth::All)
        }
        Ok(found) if found.is_file() => attach(&tree(Path::new("/dev/null"))?, path),
        // By whatever other name it could be read: where the link leads is hidden.
        Ok(found) if found.is_symlink() => match path.canonicalize() {
            Ok(target) if target != path && !target.is_symlink() => hide(&target),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// How far something goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// What is mounted at a place.
    One,
    /// And below it.
    All,
}

/// Makes what is mounted at a place read-only.
fn read_only(path: &Path, depth: Depth) -> io::Result<()> {
    set_read_only(CWD, path, depth)
}

/// Makes what is mounted below a handle read-only; an empty path is the handle itself.
#[allow(unsafe_code)]
fn set_read_only(dir: BorrowedFd<'_>, path: &Path, depth: Depth) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
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
