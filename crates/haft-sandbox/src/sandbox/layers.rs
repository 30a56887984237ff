//! The layers of the sandbox as Linux provides them: namespaces, capabilities, Landlock and seccomp. The supervisor sets
//! each of them up for itself, and commands inherit them. Control groups are in `cgroups`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, UnshareFlags};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::layer_error::LayerError;
use super::policy::{Network, Policy, Visibility};

mod view;

pub(super) use view::{make_session_root, make_view, probe_view, temporary_bytes};

/// Devices that every command may write to.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Devices that a command may write to where the view has its own: elsewhere they are terminals of the machine's users.
const PSEUDOTERMINALS: [&str; 2] = ["/dev/ptmx", "/dev/pts"];

/// Which users are mapped into a user namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Users {
    /// The one who made it.
    Own,
    /// All: haft has to write the maps from outside.
    All,
}

/// Enters the session's namespaces. The next process that is started is process 1 of the new process namespace. The network
/// stays the machine's, since some commands may use it; all others enter [`own_network`].
pub(super) fn enter_namespaces() -> Result<Users, LayerError> {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    unshare(flags).map_err(|error| LayerError::probed("namespaces", error))?;
    if uid.is_root() {
        return Ok(Users::All);
    }
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    for (name, text) in maps {
        // Some systems let every user make a user namespace, and then allow nothing in it.
        fs::write(format!("/proc/self/{name}"), text)
            .map_err(|error| LayerError::probed("a user namespace", error))?;
    }
    Ok(Users::Own)
}

/// Enters a new mount namespace, a copy of this process's.
pub(super) fn copy_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)
}

/// Enters a new network namespace, in which only loopback works, and returns a handle to it.
pub(super) fn own_network() -> Result<OwnedFd, LayerError> {
    let lacks = |error: io::Error| LayerError::probed("a network namespace", error);
    unshare(UnshareFlags::NEWNET).map_err(lacks)?;
    // Without loopback some programs fail, but the sandbox is no weaker.
    let _ = start_loopback();
    network_is_empty()?;
    Ok(fs::File::open("/proc/self/ns/net").map_err(lacks)?.into())
}

/// Enters the network namespace that a handle leads to.
pub(super) fn enter_network(network: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(network, Some(rustix::thread::LinkNameSpaceType::Network))?)
}

#[allow(unsafe_code)]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the supervisor has one thread, and shares no memory or files with another process.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Brings the loopback device up, so that programs reach those that listen in the same sandbox.
#[allow(unsafe_code)]
fn start_loopback() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all zeroes are a valid value of every field.
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

/// Checks that the network namespace has no device but loopback, which leads nowhere else.
fn network_is_empty() -> Result<(), LayerError> {
    let devices = fs::read_to_string("/proc/self/net/dev")?;
    match devices.lines().skip(2).all(|line| line.trim_start().starts_with("lo:")) {
        true => Ok(()),
        // Some kernel modules add a device to every new network namespace.
        false => Err(LayerError::Unsupported("there are other network devices".to_owned())),
    }
}

/// Capabilities that root keeps in a sandbox: what it takes to work on files of other users.
const ROOT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL);

/// Drops all other capabilities for good: from the bounding set too, so that no program brings them back.
pub(super) fn drop_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let is_root = rustix::process::getuid().is_root();
    let kept = if is_root { ROOT_CAPABILITIES } else { CapabilitySet::empty() };
    let sets = rustix::thread::CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    if !is_root {
        return Ok(rustix::thread::set_capabilities(None, sets)?);
    }
    for capability in CapabilitySet::all().iter() {
        if !ROOT_CAPABILITIES.contains(capability) {
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Restricts this process by Landlock to writing below the policy's folders and reading files that are not hidden.
pub(super) fn restrict_paths(policy: &Policy, has_view: bool, has_network: bool) -> Result<(), LayerError> {
    let abi = ABI::V6;
    let failed = |error: landlock::RulesetError| io::Error::other(error);
    let read = AccessFs::from_read(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .map_err(failed)?
        .scope(Scope::AbstractUnixSocket)
        .map_err(failed)?;
    // A command may end what another command of its session has started: a process namespace has no others. Without one,
    // it could end haft and the supervisor.
    if !has_view {
        ruleset = ruleset.scope(Scope::Signal).map_err(failed)?;
    }
    // In a network namespace a command may listen and connect; without one, Landlock refuses both.
    if policy.network == Network::Off && !has_network {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(failed)?;
    }
    let mut ruleset = ruleset.create().map_err(failed)?;
    let mut allow = |path: &Path, access: landlock::BitFlags<AccessFs>| -> io::Result<()> {
        // A path that does not exist needs no rule.
        let Ok(fd) = PathFd::new(path) else { return Ok(()) };
        // Where there is a view, what was mounted has been compared; in a trial it is another file system.
        if !has_view {
            policy.require_opened(path, &fd)?;
        }
        let is_file = path.metadata().is_ok_and(|found| !found.is_dir());
        // The kernel refuses rights for folders in a rule about a file.
        let access = if is_file { access & AccessFs::from_file(abi) } else { access };
        (&mut ruleset).add_rule(PathBeneath::new(fd, access)).map_err(failed)?;
        Ok(())
    };
    // The view, where there is one, lacks hidden files already; otherwise they get no rule here.
    let devices = PathBuf::from("/dev");
    let hidden: Vec<PathBuf> = policy.hidden.iter().cloned().chain([devices]).filter(|_| !has_view).collect();
    let seen = match policy.sees {
        Visibility::Listed if !has_view => view::listed(policy),
        Visibility::Listed | Visibility::Everything => vec![PathBuf::from("/")],
    };
    for path in readable(seen, &hidden) {
        allow(&path, read)?;
    }
    // What may be read in a hidden folder, without what is hidden in that.
    for folder in policy.read.iter().filter(|folder| hidden.iter().any(|hidden| folder.starts_with(hidden))) {
        let inside: Vec<PathBuf> =
            hidden.iter().filter(|hidden| hidden.starts_with(folder)).cloned().collect();
        for path in readable(vec![folder.clone()], &inside) {
            allow(&path, read)?;
        }
    }
    let make_device = AccessFs::MakeChar | AccessFs::MakeBlock;
    let write = AccessFs::from_all(abi) & !make_device;
    let temporary = view::TEMPORARY.iter().filter(|_| has_view).map(PathBuf::from);
    for path in policy.write.iter().cloned().chain(temporary) {
        allow(&path, write)?;
    }
    let pseudoterminals = PSEUDOTERMINALS.iter().filter(|_| has_view);
    for device in DEVICES.iter().chain(pseudoterminals) {
        allow(Path::new(device), read | AccessFs::WriteFile | AccessFs::IoctlDev | AccessFs::Truncate)?;
    }
    let status = ruleset.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => {
            Err(LayerError::Unsupported("this kernel has no Landlock, or it is switched off".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Expands folders into the paths that may be read. Landlock can only allow, never deny, so a folder with something hidden
/// below it is replaced by its entries.
fn readable(mut folders: Vec<PathBuf>, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut allowed = Vec::new();
    while let Some(folder) = folders.pop() {
        if hidden.iter().any(|hidden| folder.starts_with(hidden)) {
            continue;
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&folder)) {
            allowed.push(folder);
            continue;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        folders.extend(entries.flatten().map(|entry| entry.path()));
    }
    allowed
}

/// Installs a seccomp filter against system calls that no command needs, and those that could break out of the sandbox.
pub(super) fn restrict_calls(policy: &Policy, has_view: bool, has_network: bool) -> Result<(), LayerError> {
    let failed = |error: seccompiler::BackendError| io::Error::other(error);
    let arch = std::env::consts::ARCH.try_into();
    let arch = arch.map_err(|error: seccompiler::BackendError| LayerError::Unsupported(error.to_string()))?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in REFUSED {
        rules.insert(*call, Vec::new());
    }
    let is = |index: u8, value: u64| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).map_err(failed)
    };
    let has = |index: u8, mask: u64| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), mask)
            .map_err(failed)
    };
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map_err(failed);
    let without = |index: u8, value: u64| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value).map_err(failed)
    };
    let of = |value: i32| u64::try_from(value).unwrap_or(0);
    // An empty network namespace leads nowhere, and programs that only open a socket keep working.
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let families = families.into_iter().filter(|_| policy.network == Network::On || has_network);
    let other_family = families.map(|family| without(0, of(family))).collect::<io::Result<Vec<_>>>()?;
    let others = if other_family.is_empty() { Vec::new() } else { vec![rule(other_family)?] };
    rules.insert(libc::SYS_socket, others);
    // A pair of sockets for datagrams can send to any other socket of its family: those of services, by their paths.
    let datagrams = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(|kind| {
        let kind =
            SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(SOCKET_KINDS), of(kind));
        rule(vec![kind.map_err(failed)?])
    });
    rules.insert(libc::SYS_socketpair, datagrams.into_iter().collect::<io::Result<_>>()?);
    // These push input into the terminal that haft itself may have.
    let terminal = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| rule(vec![is(1, request)?]));
    rules.insert(libc::SYS_ioctl, terminal.into_iter().collect::<io::Result<_>>()?);
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let namespaces = namespaces.map(|flag| rule(vec![has(0, u64::try_from(flag).unwrap_or(0))?]));
    rules.insert(libc::SYS_clone, namespaces.into_iter().collect::<io::Result<_>>()?);
    // No set-user-ID or set-group-ID programs: others would run them with the owner's rights.
    let special = [u64::from(libc::S_ISUID), u64::from(libc::S_ISGID)];
    for (call, mode) in MODE_CALLS {
        let special = special.map(|bit| rule(vec![has(*mode, bit)?]));
        rules.insert(*call, special.into_iter().collect::<io::Result<_>>()?);
    }
    for (call, flags, mode) in OPEN_CALLS {
        // Without these flags the mode is not used, and may be any number.
        let making = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
        let pairs = making.into_iter().flat_map(|flag| special.map(|bit| (of(flag), bit)));
        let pairs = pairs.map(|(flag, bit)| rule(vec![has(*flags, flag)?, has(*mode, bit)?]));
        rules.insert(*call, pairs.collect::<io::Result<_>>()?);
    }
    // Landlock does not cover owners: without a view, those of every file of this user could be changed.
    if !has_view {
        rules.extend(OWNER_CALLS.iter().map(|call| (*call, Vec::new())));
    }
    let eperm = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    install(rules, eperm, arch)?;
    // A filter cannot look into the structures that these calls take. With ENOSYS, programs fall back to the older calls.
    let enosys = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let unfilterable = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new()));
    install(unfilterable.into_iter().collect(), enosys, arch)?;
    #[cfg(target_arch = "x86_64")]
    refuse_x32()?;
    Ok(())
}

/// Refuses the calls of the x32 ABI. They count as calls of this architecture, but have other numbers than those that the
/// filters know.
#[cfg(target_arch = "x86_64")]
fn refuse_x32() -> Result<(), LayerError> {
    use seccompiler::sock_filter;
    const X32_BIT: u32 = 0x4000_0000;
    let statement = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let jump = |code: u32, k: u32, jt: u8, jf: u8| sock_filter { code: code as u16, jt, jf, k };
    apply(&vec![
        // The number of the call is the first field of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        jump(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, X32_BIT, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ])
}

fn install(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    action: SeccompAction,
    arch: seccompiler::TargetArch,
) -> Result<(), LayerError> {
    let failed = |error: seccompiler::BackendError| io::Error::other(error);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(failed)?;
    let program: BpfProgram = filter.try_into().map_err(failed)?;
    apply(&program)
}

fn apply(program: &BpfProgram) -> Result<(), LayerError> {
    seccompiler::apply_filter(program).map_err(|error| match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
            LayerError::probed("a seccomp filter", error)
        }
        error => io::Error::other(error).into(),
    })
}

/// System calls that set a file mode, and the index of that argument.
const MODE_CALLS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// System calls that open files, and the indices of their flags and of the mode of a file that they make.
const OPEN_CALLS: &[(i64, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// System calls that change the owner of a file.
const OWNER_CALLS: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
];

/// The bits of a socket's type that say its kind; the others are flags.
const SOCKET_KINDS: u64 = 0xf;

/// System calls that are refused whatever their arguments.
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
