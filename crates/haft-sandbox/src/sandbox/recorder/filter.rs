//! The seccomp filter that makes changing system calls wait for the recorder. It decides by call number and open flags
//! alone, so calls that only read never leave the kernel. It knows nothing of what happens to the calls.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use super::RecorderError;

#[cfg(target_arch = "x86_64")]
const ARCH: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
const ARCH: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCH: Option<u32> = None;

/// Set in the number of a call of the x32 ABI, which shares its architecture with x86-64.
const X32_BIT: u32 = 0x4000_0000;

/// Calls that libc does not name yet.
pub(super) const SYS_SETXATTRAT: i64 = 463;
pub(super) const SYS_REMOVEXATTRAT: i64 = 466;

/// Open flags that can change a file or make one.
const CHANGING_FLAGS: u32 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY))
        as u32;

/// Calls that open a file, and the index of their flags.
const OPENING: &[(i64, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// Calls that change names, content or attributes of files.
const CHANGING: &[i64] = &[
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mknodat,
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// Calls that take their arguments in memory, where a filter cannot look. Programs fall back to the older calls.
const ABSENT: &[i64] = &[libc::SYS_openat2, libc::SYS_io_uring_setup];

/// Most instructions of the filter.
const MAX_LENGTH: usize = 256;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// A filter under construction, without allocations: it is made between `fork` and `exec`.
struct Program {
    code: [libc::sock_filter; MAX_LENGTH],
    length: usize,
}

impl Program {
    fn push(&mut self, code: u16, k: u32, jump_true: u8, jump_false: u8) {
        if let Some(next) = self.code.get_mut(self.length) {
            *next = libc::sock_filter { code, jt: jump_true, jf: jump_false, k };
        }
        self.length += 1;
    }

    /// Ends with an action if the loaded word equals `value`.
    fn end_if(&mut self, value: u32, action: u32) {
        self.push(IF_EQUAL, value, 0, 1);
        self.push(RETURN, action, 0, 0);
    }

    fn new(arch: u32) -> Self {
        let enosys = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
        let notify = libc::SECCOMP_RET_USER_NOTIF;
        let none = libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
        let mut program = Self { code: [none; MAX_LENGTH], length: 0 };
        program.push(LOAD, ARCHITECTURE, 0, 0);
        program.push(IF_EQUAL, arch, 1, 0);
        // Programs of another ABI would call by other numbers, past the recorder.
        program.push(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0);
        program.push(LOAD, NUMBER, 0, 0);
        if cfg!(target_arch = "x86_64") {
            program.push(IF_ANY_BIT, X32_BIT, 0, 1);
            program.push(RETURN, enosys, 0, 0);
        }
        for (call, flags) in OPENING {
            program.push(IF_EQUAL, number(*call), 0, 4);
            // The low half of an argument comes first on both architectures.
            program.push(LOAD, ARGUMENTS + 8 * flags, 0, 0);
            program.push(IF_ANY_BIT, CHANGING_FLAGS, 0, 1);
            program.push(RETURN, notify, 0, 0);
            program.push(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0);
        }
        for call in CHANGING {
            program.end_if(number(*call), notify);
        }
        for call in ABSENT {
            program.end_if(number(*call), enosys);
        }
        program.push(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0);
        program
    }
}

fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// Makes every changing call of this process, and of all that it starts, wait for the holder of the returned listener.
/// Needs `no_new_privs`. For use between `fork` and `exec`: it allocates nothing and takes no lock. Afterwards this process
/// must make no changing call of its own before the listener is served.
#[allow(unsafe_code)]
pub fn install() -> Result<OwnedFd, RecorderError> {
    let Some(arch) = ARCH else { return Err(RecorderError::Architecture) };
    let program = Program::new(arch);
    let length = u16::try_from(program.length).unwrap_or(u16::MAX);
    let code = libc::sock_fprog { len: length, filter: program.code.as_ptr().cast_mut() };
    let listen = |flags: libc::c_ulong| {
        // SAFETY: `code` and the instructions it points to are valid for the call, which only reads them.
        let fd = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const code)
        };
        match i32::try_from(fd) {
            // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let killable = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let result = match listen(killable) {
        // Linux before 5.19 has no such flag: a signal then makes the call start again, and the recorder sees it twice.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && can_continue() => {
            listen(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
        }
        result => result,
    };
    result.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => RecorderError::Busy,
        Some(libc::EINVAL | libc::ENOSYS) => RecorderError::Kernel,
        _ => RecorderError::Failed(error),
    })
}

/// Whether the kernel is at least 5.5, the first that can let a call go on after a look at it.
#[allow(unsafe_code)]
fn can_continue() -> bool {
    // SAFETY: all zeroes are a valid value, and the pointer is valid for the call.
    let name = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut name);
        name
    };
    let mut numbers = [0_u32; 2];
    let mut index = 0;
    for byte in name.release.map(|byte| byte as u8) {
        match (byte, numbers.get_mut(index)) {
            (b'0'..=b'9', Some(number)) => *number = number.saturating_mul(10) + u32::from(byte - b'0'),
            (b'.', Some(_)) => index += 1,
            _ => break,
        }
    }
    numbers >= [5, 5]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_fits_and_its_jumps_stay_inside() {
        let program = Program::new(1);
        assert!(program.length <= MAX_LENGTH);
        for (at, code) in program.code[..program.length].iter().enumerate() {
            let furthest = at + 1 + usize::from(code.jt.max(code.jf));
            assert!(code.code == RETURN || furthest < program.length, "instruction {at}");
        }
    }
}
