//! The walls of a cage, as Linux makes them. Each is put up by the process that goes in.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, UnshareFlags};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::layer::LayerError;
use super::policy::{Layer, Network, Policy, Sees};

mod view;

pub(super) use view::{give_back, guard, make_view, probe_view};

/// Devices that everybody may write to.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
/// Whose files there are in a namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Users {
    /// Those of the user who made it.
    Own,
    /// Those of everybody: haft has to see to that.
    All,
}

/// Leaves the namespaces of haft. The next process that is started is the first of a new process namespace.
pub(super) fn enter_namespaces(policy: &Policy) -> Result<Users, LayerError> {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let mut flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if policy.network == Network::Off && !policy.without.contains(&Layer::Network) {
        flags |= UnshareFlags::NEWNET;
    }
    unshare(flags).map_err(|error| LayerError::probed("namespaces", error))?;
    if flags.contains(UnshareFlags::NEWNET) {
        // Without it there is less to use, and nothing more to fear.
        let _ = start_loopback();
    }
    if uid.is_root() {
        return Ok(Users::All);
    }
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    for (name, text) in maps {
        // Some systems let everybody make a user namespace, and then allow nothing in it.
        fs::write(format!("/proc/self/{name}"), text)
            .map_err(|error| LayerError::probed("a user namespace", error))?;
    }
    Ok(Users::Own)
}

#[allow(unsafe_code)]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the keeper has one thread, and shares no memory or files with another process.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Lets programs reach those that listen in the same cage.
#[allow(unsafe_code)]
fn start_loopback() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: of zeros, all of it is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::try_from(*from).unwrap_or_default();
    }
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    // SAFETY: the socket is open, and the pointer is valid for the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether there is nothing but the loopback device, which leads nowhere else.
pub(super) fn network_is_empty() -> Result<(), LayerError> {
    let devices = fs::read_to_string("/proc/self/net/dev")?;
    match devices.lines().skip(2).all(|line| line.trim_start().starts_with("lo:")) {
        true => Ok(()),
        // Some kernel modules put a device into every new network namespace.
        false => Err(LayerError::Unsupported("there are other network devices".to_owned())),
    }
}

/// What root in a cage may still do to files that are not its own.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL);

/// Gives up all other rights, for good.
pub(super) fn drop_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let is_root = rustix::process::getuid().is_root();
    let kept = if is_root { KEPT } else { CapabilitySet::empty() };
    let sets = rustix::thread::CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    if !is_root {
        return Ok(rustix::thread::set_capabilities(None, sets)?);
    }
    for capability in CapabilitySet::all().iter() {
        if !KEPT.contains(capability) {
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Lets only what may be written be written, and what is not hidden be read.
pub(super) fn restrict_paths(policy: &Policy, has_view: bool, has_network: bool) -> Result<(), LayerError> {
    let abi = ABI::V6;
    let wrong = |error: landlock::RulesetError| io::Error::other(error);
    let read = AccessFs::from_read(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .map_err(wrong)?
        .scope(Scope::from_all(abi))
        .map_err(wrong)?;
    // In a network of its own a command may listen, and reach who does.
    if policy.network == Network::Off && !has_network {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(wrong)?;
    }
    let mut ruleset = ruleset.create().map_err(wrong)?;
    let mut allow = |path: &Path, access: landlock::BitFlags<AccessFs>| -> io::Result<()> {
        let Ok(fd) = PathFd::new(path) else { return Ok(()) };
        let is_file = path.metadata().is_ok_and(|found| !found.is_dir());
        let access = if is_file { access & AccessFs::from_file(abi) } else { access };
        (&mut ruleset).add_rule(PathBeneath::new(fd, access)).map_err(wrong)?;
        Ok(())
    };
    // In a view, what is hidden is not there; otherwise it is left out here.
    let hidden: &[PathBuf] = if has_view { &[] } else { &policy.hidden };
    let seen = match policy.sees {
        Sees::Listed if !has_view => view::listed(policy),
        Sees::Listed | Sees::Everything => vec![PathBuf::from("/")],
    };
    for path in readable(seen, hidden) {
        allow(&path, read)?;
    }
    // Neither devices nor sockets are made.
    let made = AccessFs::MakeChar | AccessFs::MakeBlock;
    let write = AccessFs::from_all(abi) & !made;
    let temporary = view::TEMPORARY.iter().filter(|_| has_view).map(PathBuf::from);
    for path in policy.write.iter().cloned().chain(temporary) {
        allow(&path, write)?;
    }
    for device in DEVICES {
        allow(Path::new(device), read | AccessFs::WriteFile | AccessFs::IoctlDev | AccessFs::Truncate)?;
    }
    let status = ruleset.restrict_self().map_err(wrong)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => {
            Err(LayerError::Unsupported("this kernel has no Landlock, or it is switched off".to_owned()))
        }
        _ => Ok(()),
    }
}

/// The folders that can be read without what is hidden: those that have something hidden in them are taken
/// apart.
fn readable(mut folders: Vec<PathBuf>, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        if hidden.iter().any(|hidden| folder.starts_with(hidden)) {
            continue;
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&folder)) {
            found.push(folder);
            continue;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        folders.extend(entries.flatten().map(|entry| entry.path()));
    }
    found
}

/// Refuses system calls that no command needs, and those by which one could get out.
pub(super) fn restrict_calls(policy: &Policy, has_namespace: bool) -> Result<(), LayerError> {
    let wrong = |error: seccompiler::BackendError| io::Error::other(error);
    let arch = std::env::consts::ARCH.try_into();
    let arch = arch.map_err(|error: seccompiler::BackendError| LayerError::Unsupported(error.to_string()))?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in REFUSED {
        rules.insert(*call, Vec::new());
    }
    let is = |index: u8, value: u64| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).map_err(wrong)
    };
    let has = |index: u8, mask: u64| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), mask)
            .map_err(wrong)
    };
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map_err(wrong);
    let mut families = vec![
        libc::AF_VSOCK,
        libc::AF_PACKET,
        libc::AF_ALG,
        libc::AF_KEY,
        libc::AF_XDP,
        libc::AF_TIPC,
        libc::AF_BLUETOOTH,
    ];
    if policy.network == Network::Off {
        families.push(libc::AF_UNIX);
        // In an empty network there is nobody to reach, and programs that only ask for a socket go on.
        if !has_namespace {
            families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
        }
    }
    let sockets: io::Result<Vec<SeccompRule>> =
        families.into_iter().map(|family| rule(vec![is(0, u64::try_from(family).unwrap_or(0))?])).collect();
    rules.insert(libc::SYS_socket, sockets?);
    // Input for the terminal that haft itself may have.
    let terminal = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| rule(vec![is(1, request)?]));
    rules.insert(libc::SYS_ioctl, terminal.into_iter().collect::<io::Result<_>>()?);
    let spaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let spaces = spaces.map(|space| rule(vec![has(0, u64::try_from(space).unwrap_or(0))?]));
    rules.insert(libc::SYS_clone, spaces.into_iter().collect::<io::Result<_>>()?);
    // A program that others would run with the rights of its owner.
    for (call, mode) in MODES {
        let special =
            [u64::from(libc::S_ISUID), u64::from(libc::S_ISGID)].map(|bit| rule(vec![has(*mode, bit)?]));
        rules.insert(*call, special.into_iter().collect::<io::Result<_>>()?);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    install(rules, refused, arch)?;
    // Programs take another way when these are not there.
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let unknown = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new()));
    install(unknown.into_iter().collect(), absent, arch)
}

fn install(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    action: SeccompAction,
    arch: seccompiler::TargetArch,
) -> Result<(), LayerError> {
    let wrong = |error: seccompiler::BackendError| io::Error::other(error);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(wrong)?;
    let program: BpfProgram = filter.try_into().map_err(wrong)?;
    seccompiler::apply_filter(&program).map_err(|error| match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
            LayerError::probed("a seccomp filter", error)
        }
        error => io::Error::other(error).into(),
    })
}

/// Calls that set a mode, and which argument that is.
const MODES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_openat, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

const REFUSED: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
];
