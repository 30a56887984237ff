//! What a command reaches, and what it may do.

use haft_sandbox::sandbox::{Layer, Network, Policy};

use haft_testing::{Need, require};

use crate::{Rig, Test, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![
    there_is_no_network,
    services_of_the_machine_are_not_reached,
    no_rights_are_gained,
    few_rights_are_kept,
    haft_itself_is_not_looked_into,
    no_terminal_is_typed_into,
    nothing_is_passed_on,
    inherited_descriptors_are_closed_in_the_supervisor,
    a_layer_that_is_left_out_is_reported,
    without_any_layer_all_are_reported_missing,
];

/// Those that are about the view, which is one of the layers.
pub(crate) const VIEW_TESTS: &[(&str, Test)] = tests![servers_in_the_cage_are_reached];

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
