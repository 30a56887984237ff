//! What a command reaches, and what it may do.

use haft_sandbox::sandbox::{Layer, Network, Policy, Sandbox};

use haft_testing::{Need, require};

use crate::{Rig, Test, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![
    there_is_no_network,
    services_of_the_machine_are_not_reached,
    no_rights_are_gained,
    no_call_makes_a_program_that_gives_rights,
    datagrams_reach_no_service,
    devices_of_the_machine_are_not_reached,
    a_folder_that_was_replaced_is_not_worked_in,
    few_rights_are_kept,
    haft_itself_is_not_looked_into,
    no_terminal_is_typed_into,
    nothing_is_passed_on,
    inherited_descriptors_are_closed_in_the_supervisor,
    a_layer_that_is_left_out_is_reported,
    without_any_layer_all_are_reported_missing,
];

/// Those that are about the view, which is one of the layers.
pub(crate) const VIEW_TESTS: &[(&str, Test)] = tests![
    servers_in_the_cage_are_reached,
    only_a_few_devices_are_there,
    pseudoterminals_are_the_sandboxs_own
];

fn there_is_no_network(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let python = |family: &str, address: &str| {
        format!(
            "python3 -c 'import socket; s = socket.socket(socket.{family}); s.settimeout(2); s.connect({address})'"
        )
    };
    for script in [
        connect.clone(),
        python("AF_INET", &format!("(\"127.0.0.1\", {port})")),
        python("AF_INET6", &format!("(\"::1\", {port})")),
        python("AF_INET", "(\"192.0.2.1\", 80)"),
        "getent ahostsv4 example.com".to_owned(),
        "python3 -c 'import socket; socket.socket(socket.AF_VSOCK)'".to_owned(),
        "python3 -c 'import socket; socket.socket(socket.AF_PACKET)'".to_owned(),
    ] {
        let done = rig.bash(&script);
        assert!(!done.succeeded(), "{script}: {}", done.out);
    }
    rig.bash(&format!("echo x > /dev/udp/127.0.0.1/{}", datagrams.local_addr().unwrap().port()));
    for socket in ["listener", "datagrams"] {
        listener.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let came =
            if socket == "listener" { listener.accept().is_ok() } else { datagrams.recv(&mut [0]).is_ok() };
        assert!(!came, "something came to the {socket}");
    }
    listener.set_nonblocking(false).unwrap();
    let open = Policy { network: Network::On, ..rig.policy.clone() };
    let done = rig.with(&open, &connect);
    assert!(done.succeeded(), "{}", done.err);
}

fn services_of_the_machine_are_not_reached(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let places = [rig.path("outside/socket"), rig.path("ws/socket"), "/run/haft-test.sock".into()];
    let listeners: Vec<_> =
        places.iter().map(|path| (path, std::os::unix::net::UnixListener::bind(path))).collect();
    for (path, listener) in &listeners {
        let script = format!(
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
            path.display()
        );
        assert!(!rig.bash(&script).succeeded(), "{script}");
        if let Ok(listener) = listener {
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "{}", path.display());
        }
    }
    let _ = std::fs::remove_file("/run/haft-test.sock");
}

fn servers_in_the_cage_are_reached(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let script = r#"python3 -c '
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://localhost:%d/page" % server.server_port).read().decode())
' 2>/dev/null"#;
    std::fs::write(rig.path("ws/page"), "served").unwrap();
    let done = rig.bash(script);
    assert_eq!(done.out, "served\n", "{}", done.err);
}

fn no_rights_are_gained(rig: &Rig) {
    for script in [
        "unshare -Ur true",
        "mount -t tmpfs none .",
        "umount /proc",
        "chroot . true",
        "sudo -n id",
        "su nobody -s /bin/true",
        "nsenter -t 1 -m true",
        "chmod u+s $(cp /bin/true . && echo true)",
        "chmod g+s $(cp /bin/true . && echo true)",
        "python3 -c 'import os; os.open(\"suid\", os.O_CREAT | os.O_WRONLY, 0o4755)'",
        "mknod disk b 8 0",
        "sysctl -w kernel.hostname=x",
        "hostname x",
        "date -s 2001-01-01",
        "dmesg",
        "python3 -c 'import ctypes,os; libc=ctypes.CDLL(None,use_errno=True); os._exit(0 if libc.ptrace(16,1,0,0)==0 else 1)'",
    ] {
        let done = rig.bash(script);
        assert!(!done.succeeded(), "{script}: {} {}", done.out, done.err);
    }
    let found =
        std::process::Command::new("find").arg(rig.path("ws")).args(["-perm", "/6000"]).output().unwrap();
    assert!(found.status.success() && found.stdout.is_empty());
}

/// Makes files with the bits for another user's rights by every call, flag and ABI, each in a process of its own.
const SPECIAL_FILES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define TRY(what) if (fork() == 0) { what; _exit(0); } else wait(0)
static void unnamed(int mode) {
    char name[64];
    int file = syscall(SYS_openat, AT_FDCWD, ".", O_TMPFILE | O_RDWR, mode);
    sprintf(name, "/proc/self/fd/%d", file);
    linkat(AT_FDCWD, name, AT_FDCWD, "unnamed", AT_SYMLINK_FOLLOW);
}
static void old_abi(void) {
#ifdef __x86_64__
    char *name = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    long done;
    strcpy(name, "old-abi");
    __asm__ volatile("int $0x80" : "=a"(done) : "a"(8), "b"(name), "c"(06755) : "memory");
#endif
}
int main(void) {
    TRY(syscall(SYS_openat, AT_FDCWD, "openat", O_CREAT | O_WRONLY, 04755));
    TRY(syscall(SYS_openat, AT_FDCWD, "group", O_CREAT | O_WRONLY, 02755));
    TRY(unnamed(04755));
    TRY(fchmod(open("fchmod", O_CREAT | O_WRONLY, 0755), 04755));
#ifdef __x86_64__
    TRY(syscall(SYS_open, "open", O_CREAT | O_WRONLY, 04755));
    TRY(syscall(SYS_creat, "creat", 04755));
    TRY(syscall(SYS_mknod, "mknod", 0104755, 0));
    TRY(syscall(0x40000000 + SYS_creat, "x32", 04755));
#endif
    TRY(old_abi());
    /* Without a flag that makes a file, the mode is not used. */
    return syscall(SYS_openat, AT_FDCWD, "usual", O_RDONLY, 04755) < 0;
}
"#;

fn no_call_makes_a_program_that_gives_rights(rig: &Rig) {
    std::fs::write(rig.path("special.c"), SPECIAL_FILES).unwrap();
    let (source, program) = (rig.path("special.c"), rig.path("ws/special"));
    let made = std::process::Command::new("cc").arg(source).arg("-o").arg(program).status().unwrap();
    assert!(made.success());
    let done = rig.bash("touch usual; ./special");
    assert!(done.succeeded(), "{}", done.err);
    let found = std::process::Command::new("find").arg(rig.path("ws")).args(["-perm", "/6000"]).output();
    assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), "");
}

fn datagrams_reach_no_service(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    for policy in [rig.policy.clone(), Policy { network: Network::On, ..rig.policy.clone() }] {
        for (kind, at) in [("SOCK_DGRAM", "outside/datagrams"), ("SOCK_RAW", "ws/datagrams")] {
            let path = rig.path(at);
            let service = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
            service.set_nonblocking(true).unwrap();
            let script = format!(
                "python3 -c 'import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.{kind}); \
                 a.sendto(b\"x\", \"{}\")'",
                path.display()
            );
            assert!(!rig.with(&policy, &script).succeeded(), "{script}");
            assert!(service.recv(&mut [0]).is_err(), "{script}");
            std::fs::remove_file(path).unwrap();
        }
    }
    let pair = "python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); print(b.recv(1))'";
    assert_eq!(rig.bash(pair).out, "b'x'\n");
}

fn devices_of_the_machine_are_not_reached(rig: &Rig) {
    use rustix::pty::OpenptFlags;
    // A terminal of the user, which the caller's own right to it would open.
    let terminal =
        rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    // Kept open, so that the name exists whatever a command does.
    let _own = std::fs::OpenOptions::new().read(true).write(true).open(&name).unwrap();
    for script in [
        format!("echo x > {name}"),
        format!("exec 3< {name}"),
        "for disk in /dev/loop0 /dev/vda /dev/sda /dev/nvme0n1 /dev/kvm /dev/console /dev/mem /dev/vcs; do \
         [ ! -e $disk ] || { exec 3< $disk && echo $disk && exit 0; }; done 2>/dev/null; exit 1"
            .to_owned(),
        "exec 3<> /dev/tty".to_owned(),
    ] {
        let done = rig.bash(&script);
        assert!(!done.succeeded(), "{script}: {}", done.out);
    }
    rustix::io::ioctl_fionbio(&terminal, true).unwrap();
    assert!(rustix::io::read(&terminal, &mut [0; 8]).is_err(), "something was written to the terminal");
    assert_eq!(
        rig.bash("head -c 3 /dev/zero | wc -c; echo x > /dev/null; head -c1 /dev/urandom | wc -c").out,
        "3\n1\n"
    );
}

fn only_a_few_devices_are_there(rig: &Rig) {
    let wanted = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero";
    assert_eq!(rig.bash("echo $(LC_ALL=C ls /dev)").out.trim(), wanted);
    let device = rig.path("ws/device");
    if !rustix::process::getuid().is_root() {
        return;
    }
    // A device that root has made in the workspace before is none in the view.
    let status = std::process::Command::new("mknod").arg(&device).args(["c", "1", "5"]).status().unwrap();
    assert!(status.success());
    assert!(!rig.bash("head -c1 device").succeeded());
    std::fs::remove_file(device).unwrap();
}

fn pseudoterminals_are_the_sandboxs_own(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let done = rig.bash("python3 -c 'import pty; pty.spawn([\"tty\"])'");
    assert!(done.out.starts_with("/dev/pts/"), "{} {}", done.out, done.err);
    let script = "import os\ntry:\n  while True: os.openpty()\nexcept OSError: pass\nprint(len(os.listdir(\"/dev/pts\")) < 300)";
    let done = rig.bash(&format!("ulimit -n 4096; python3 -c '{script}'"));
    assert_eq!(done.out, "True\n", "{}", done.err);
}

fn a_folder_that_was_replaced_is_not_worked_in(rig: &Rig) {
    use std::os::unix::fs::MetadataExt as _;
    let (ws, outside) = (rig.path("ws"), rig.path("outside"));
    let found = std::fs::metadata(&ws).unwrap();
    let opened = vec![(ws.clone(), (found.dev(), found.ino()))];
    let policy = Policy { opened, ..rig.policy.clone() };
    let session = Sandbox::default();
    let run = || rig.within(&session, &policy, rig.task("touch made"));
    assert!(run().unwrap().succeeded());
    std::fs::rename(&ws, rig.path("moved")).unwrap();
    std::os::unix::fs::symlink(&outside, &ws).unwrap();
    let error = run().err().unwrap().to_string();
    assert!(error.contains("is not the folder that this session opened"), "{error}");
    assert!(!outside.join("made").exists());
    std::fs::remove_file(&ws).unwrap();
    std::fs::rename(rig.path("moved"), &ws).unwrap();
    assert!(run().unwrap().succeeded());
}

fn few_rights_are_kept(rig: &Rig) {
    let status = rig.bash("cat /proc/self/status").out;
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
    let rights = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
        && std::env::var_os(crate::NOBODY).is_none();
    // Root may still own, read and end what is others': CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL.
    let kept = if is_root { 0b11_1011 } else { 0 };
    for name in ["CapEff:", "CapPrm:"] {
        assert_eq!(rights(name) & !kept, 0, "{status}");
    }
    assert_eq!(rights("CapInh:") | rights("CapAmb:"), 0, "{status}");
}

fn haft_itself_is_not_looked_into(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let own = std::process::id();
    for script in [
        format!("cat /proc/{own}/environ"),
        format!("cat /proc/{own}/maps"),
        format!("readlink /proc/{own}/fd/0"),
        format!("readlink /proc/{own}/cwd"),
        format!("head -c 1 /proc/{own}/mem"),
        format!("gdb -p {own} -batch"),
        format!("strace -p {own}"),
        format!("kill -9 {own}"),
        format!("python3 -c 'import os; os.pidfd_open({own})'"),
    ] {
        let done = rig.bash(&script);
        let is_few_pidfd = !rig.has_view() && script.contains("pidfd");
        assert!(is_few_pidfd || (!done.succeeded() && done.out.is_empty()), "{script}: {}", done.out);
    }
    // Nor can another program of the same user outside of a sandbox.
    if std::env::var_os(crate::NOBODY).is_some() {
        let read = std::process::Command::new("cat").arg(format!("/proc/{own}/environ")).output().unwrap();
        assert!(!read.status.success(), "{:?}", read.stdout);
    }
}

fn no_terminal_is_typed_into(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    for request in ["TIOCSTI", "0x541C"] {
        let request = if request == "TIOCSTI" { "termios.TIOCSTI" } else { request };
        let script = format!(
            "python3 -c '
import errno, fcntl, termios
try:
    fcntl.ioctl(0, {request}, b\"x\")
except OSError as error:
    print(errno.errorcode[error.errno])'"
        );
        assert_eq!(rig.bash(&script).out, "EPERM\n");
    }
    assert!(!rig.bash("echo x > /dev/tty").succeeded());
}

fn nothing_is_passed_on(rig: &Rig) {
    let mut task = rig.task("env | cut -d= -f1 | sort | tr '\\n' ' '; ls /proc/self/fd | tr '\\n' ' '");
    task.reports_dir = false;
    let done = rig.run(&rig.policy, task);
    let given = if std::env::var_os("USER").is_some() {
        "HOME PATH PWD SHLVL USER _"
    } else {
        "HOME PATH PWD SHLVL _"
    };
    // The last one is the folder that is being listed.
    assert_eq!(done.out, format!("{given} 0 1 2 3 "), "{}", done.err);
}

fn inherited_descriptors_are_closed_in_the_supervisor(rig: &Rig) {
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    let secret = std::fs::File::open(rig.path("secret")).unwrap();
    // A program that starts haft may leave a descriptor open, which is inherited.
    // SAFETY: it is a new descriptor with no other owner.
    #[allow(unsafe_code)]
    let left_open = unsafe { OwnedFd::from_raw_fd(libc::dup(secret.as_raw_fd())) };
    assert!(left_open.as_raw_fd() > 2);
    let done = rig.bash("cat /proc/[0-9]*/fd/*/key; true");
    assert!(!done.out.contains("hidden"), "{}", done.out);
    if rig.has_view() {
        let done = rig.bash("ls -l /proc/1/fd; ls -l /proc/1/fd | wc -l");
        assert!(!done.out.contains("/secret"), "{}", done.out);
    }
}

fn a_layer_that_is_left_out_is_reported(rig: &Rig) {
    let outside = rig.path("outside");
    for layer in Layer::ALL {
        let policy = Policy { without: vec![layer], ..rig.policy.clone() };
        let done = rig.with(&policy, &format!("echo x > {}/new", outside.display()));
        let is_wanted = rig.has_view() || [Layer::Paths, Layer::Calls, Layer::Quota].contains(&layer);
        assert!(!done.report.has(layer), "{layer:?}");
        assert_eq!(done.report.missing.iter().any(|(missing, _)| *missing == layer), is_wanted, "{layer:?}");
        // The other layers hold; some protections come from one layer only, and that one was left out.
        let is_held = rig.has_view() || layer != Layer::Paths;
        assert_eq!(!done.succeeded(), is_held, "{layer:?}");
        let _ = std::fs::remove_file(outside.join("new"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!rig.with(&policy, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).succeeded(), "{layer:?}");
        let status = rig.with(&policy, "cat /proc/self/status").out;
        assert!(layer == Layer::Calls || status.contains("Seccomp:\t2"), "{layer:?}: {status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{layer:?}: {status}");
    }
}

fn without_any_layer_all_are_reported_missing(rig: &Rig) {
    let policy = Policy { without: Layer::ALL.to_vec(), ..rig.policy.clone() };
    let report = rig.with(&policy, "true").report;
    assert!(report.active.is_empty(), "{report:?}");
    let missing: Vec<Layer> = report.missing.iter().map(|(layer, _)| *layer).collect();
    let wanted = if rig.has_view() { Layer::ALL.len() } else { 3 };
    assert_eq!(missing.len(), wanted, "{report:?}");
}
