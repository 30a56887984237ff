//! What a system call is about to do to files, by its number and arguments. It looks at no file.

use std::ffi::OsString;
use std::io;

use super::filter::{SYS_REMOVEXATTRAT, SYS_SETXATTRAT};
use super::notify::Notification;

/// A path as a call names it: relative to a descriptor, or the descriptor itself where the text is empty.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) dir: i32,
    pub(super) path: OsString,
    /// Whether the call follows a link at the path.
    pub(super) follows: bool,
}

/// What a call is about to do.
#[derive(Debug)]
pub(super) enum Op {
    /// Opens a file to write to it.
    Write {
        file: Named,
        creates: bool,
    },
    /// Makes a name that must not exist.
    Create {
        name: Named,
        is_link: bool,
    },
    Remove(Named),
    Rename {
        from: Named,
        to: Named,
        exchanges: bool,
    },
    /// Gives a file one more name.
    Link {
        from: Named,
        to: Named,
    },
    /// Changes mode, owner or times.
    Attributes(Named),
    /// Changes extended attributes.
    Xattrs(Named),
    /// Nothing that counts.
    Nothing,
}

/// Reads the paths of a call.
pub(super) fn decode(call: &Notification) -> io::Result<Op> {
    let at = |dir: usize, path: usize, follows: bool| -> io::Result<Named> {
        Ok(Named { dir: call.descriptor(dir), path: call.text(path)?, follows })
    };
    let here = |path: usize, follows: bool| -> io::Result<Named> {
        Ok(Named { dir: libc::AT_FDCWD, path: call.text(path)?, follows })
    };
    let open = |dir: usize| Named { dir: call.descriptor(dir), path: OsString::new(), follows: false };
    let has = |index: usize, flag: i32| call.flags(index) & flag != 0;
    Ok(match call.call {
        libc::SYS_openat => opening(call.flags(2), || at(0, 1, true))?,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => opening(call.flags(1), || here(0, true))?,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => Op::Write { file: here(0, true)?, creates: true },
        libc::SYS_truncate => Op::Write { file: here(0, true)?, creates: false },
        libc::SYS_mkdirat | libc::SYS_mknodat => Op::Create { name: at(0, 1, false)?, is_link: false },
        libc::SYS_symlinkat => Op::Create { name: at(1, 2, false)?, is_link: true },
        libc::SYS_unlinkat => Op::Remove(at(0, 1, false)?),
        libc::SYS_renameat => Op::Rename { from: at(0, 1, false)?, to: at(2, 3, false)?, exchanges: false },
        libc::SYS_renameat2 => {
            let exchanges = has(4, libc::RENAME_EXCHANGE as i32);
            Op::Rename { from: at(0, 1, false)?, to: at(2, 3, false)?, exchanges }
        }
        libc::SYS_linkat => {
            Op::Link { from: at(0, 1, has(4, libc::AT_SYMLINK_FOLLOW))?, to: at(2, 3, false)? }
        }
        libc::SYS_fchmodat => Op::Attributes(at(0, 1, true)?),
        libc::SYS_fchmodat2 => Op::Attributes(at(0, 1, !has(3, libc::AT_SYMLINK_NOFOLLOW))?),
        libc::SYS_fchownat => Op::Attributes(at(0, 1, !has(4, libc::AT_SYMLINK_NOFOLLOW))?),
        // Without a path it is about the descriptor itself.
        libc::SYS_utimensat if call.args[1] == 0 => Op::Attributes(open(0)),
        libc::SYS_utimensat => Op::Attributes(at(0, 1, !has(3, libc::AT_SYMLINK_NOFOLLOW))?),
        libc::SYS_fchmod | libc::SYS_fchown => Op::Attributes(open(0)),
        libc::SYS_setxattr | libc::SYS_removexattr => Op::Xattrs(here(0, true)?),
        libc::SYS_lsetxattr | libc::SYS_lremovexattr => Op::Xattrs(here(0, false)?),
        libc::SYS_fsetxattr | libc::SYS_fremovexattr => Op::Xattrs(open(0)),
        SYS_SETXATTRAT | SYS_REMOVEXATTRAT => Op::Xattrs(at(0, 1, !has(2, libc::AT_SYMLINK_NOFOLLOW))?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir | libc::SYS_mknod => Op::Create { name: here(0, false)?, is_link: false },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink => Op::Create { name: here(1, false)?, is_link: true },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink | libc::SYS_rmdir => Op::Remove(here(0, false)?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => Op::Rename { from: here(0, false)?, to: here(1, false)?, exchanges: false },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link => Op::Link { from: here(0, false)?, to: here(1, false)? },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_chown => Op::Attributes(here(0, true)?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown => Op::Attributes(here(0, false)?),
        _ => Op::Nothing,
    })
}

fn opening(flags: i32, named: impl Fn() -> io::Result<Named>) -> io::Result<Op> {
    let has = |flag: i32| flags & flag == flag;
    // With `O_PATH` the other flags do not count; `O_TMPFILE` makes a file without a name.
    if has(libc::O_PATH) || has(libc::O_TMPFILE) {
        return Ok(Op::Nothing);
    }
    let mut file = named()?;
    // The one that every shell script uses.
    if file.path == "/dev/null" {
        return Ok(Op::Nothing);
    }
    if has(libc::O_CREAT | libc::O_EXCL) {
        file.follows = false;
        return Ok(Op::Create { name: file, is_link: false });
    }
    file.follows = !has(libc::O_NOFOLLOW);
    let writes = flags & (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC) != 0;
    match (writes, has(libc::O_CREAT)) {
        (true, creates) => Ok(Op::Write { file, creates }),
        // Follows links, so that a file made through a dangling one is seen; an existing file stays as it is.
        (false, true) => Ok(Op::Write { file, creates: true }),
        (false, false) => Ok(Op::Nothing),
    }
}
