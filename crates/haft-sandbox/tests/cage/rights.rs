//! What a command reaches, and what it may do.

use haft_sandbox::cage::{Network, Policy};

use crate::{Rig, Test, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![there_is_no_network, no_rights_are_gained,];

fn there_is_no_network(rig: &Rig) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    assert!(!rig.bash(&connect).succeeded());
    let udp = format!("echo x > /dev/udp/127.0.0.1/{port}");
    assert!(!rig.bash(&udp).succeeded());
    let socket = rig.path("outside/socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let unix = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
        socket.display()
    );
    assert!(!rig.bash(&unix).succeeded());
    let open = Policy { network: Network::On, ..rig.policy.clone() };
    let done = rig.with(&open, &connect);
    assert!(done.succeeded(), "{}", done.err);
}

fn no_rights_are_gained(rig: &Rig) {
    for script in [
        "unshare -Ur true",
        "mount -t tmpfs none .",
        "chmod u+s $(cp /bin/true . && echo true)",
        "mknod disk b 8 0",
        "python3 -c 'import ctypes,os; libc=ctypes.CDLL(None,use_errno=True); os._exit(0 if libc.ptrace(16,1,0,0)==0 else 1)'",
    ] {
        let done = rig.bash(script);
        assert!(!done.succeeded(), "{script}: {} {}", done.out, done.err);
    }
    let status = rig.bash("cat /proc/self/status").out;
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
}
