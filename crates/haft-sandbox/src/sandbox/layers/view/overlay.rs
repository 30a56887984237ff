//! The copy-on-write mount of a command that is tried.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};

use super::super::super::trial::Layer;

/// Mounts the view of a root, detached.
pub(super) fn mount(layer: &Layer) -> io::Result<OwnedFd> {
    let failed = |error: rustix::io::Errno| {
        let root = layer.root.display();
        io::Error::new(
            io::Error::from(error).kind(),
            format!("a trial view of `{root}` cannot be made: {error}"),
        )
    };
    let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed)?;
    for (option, path) in [("lowerdir", &layer.root), ("upperdir", &layer.upper), ("workdir", &layer.work)] {
        // By its number: in a path, colons and backslashes would have to be escaped.
        let dir = open(path).map_err(failed)?;
        let by_number = format!("/proc/self/fd/{}", dir.as_raw_fd());
        fsconfig_set_string(fs.as_fd(), option, by_number).map_err(failed)?;
    }
    fsconfig_set_flag(fs.as_fd(), "userxattr").map_err(failed)?;
    // Without it, unmounting writes everything to the disk that is to be written, of other programs too.
    fsconfig_set_flag(fs.as_fd(), "volatile").map_err(failed)?;
    fsconfig_create(fs.as_fd()).map_err(failed)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags).map_err(failed)
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
