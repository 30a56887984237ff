//! A command that sees only what is listed.

use haft_sandbox::sandbox::{Layer, Policy, Sandbox, Visibility};

use haft_testing::{Need, require};

use crate::{Rig, Test, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![
    only_what_is_listed_is_seen,
    what_is_listed_is_seen,
    a_listed_file_takes_no_layer_away,
    a_sandbox_that_cannot_be_made_runs_nothing,
    programs_work_in_a_closed_view,
];

/// Those that are about the view, which is one of the layers.
pub(crate) const VIEW_TESTS: &[(&str, Test)] = tests![a_closed_view_holds];

/// Only the workspace, and the programs of the system.
fn closed(rig: &Rig) -> Policy {
    Policy { sees: Visibility::Listed, read: Vec::new(), hidden: Vec::new(), ..rig.policy.clone() }
}

/// Without programs that are only in the home folder of the user who runs the tests.
const PATH: &str = "PATH=/usr/local/bin:/usr/bin:/bin";

fn only_what_is_listed_is_seen(rig: &Rig) {
    let policy = closed(rig);
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    for path in [
        &*rig.path("outside/file").display().to_string(),
        &*rig.path("secret/key").display().to_string(),
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/hostname",
        "/etc/ssl/private",
        "/var/lib",
        "/sys/kernel",
        "/boot",
        "/home",
        "/root",
        &home,
    ] {
        let done = rig.with(&policy, &format!("cat {path} || ls {path}/"));
        assert!(!done.succeeded() && done.out.is_empty(), "{path}: {} {}", done.out, done.err);
    }
    let escapes = [
        format!("ln -s {} link && cat link", rig.path("outside/file").display()),
        format!("cat /proc/self/root{}", rig.path("outside/file").display()),
        format!("cat /proc/1/root{}", rig.path("outside/file").display()),
        format!("cat /proc/{}/environ", std::process::id()),
        "cat ../outside/file".to_owned(),
    ];
    for script in escapes {
        let done = rig.with(&policy, &script);
        assert!(!done.succeeded() && done.out.is_empty(), "{script}: {} {}", done.out, done.err);
    }
    if rig.has_view() {
        let done =
            rig.with(&policy, "ls -d /etc/* | wc -l; ls /dev/sd* /dev/vd* /dev/mem /dev/kmsg; ls /sys");
        assert!(done.out.trim().parse::<u32>().unwrap() < 30, "{}", done.out);
    }
}

fn what_is_listed_is_seen(rig: &Rig) {
    let policy = Policy { read: vec![rig.path("outside")], ..closed(rig) };
    let file = rig.path("outside/file").display().to_string();
    assert_eq!(rig.with(&policy, &format!("cat {file}")).out, "outside");
    assert!(!rig.with(&policy, &format!("echo x >> {file}")).succeeded());
    assert_eq!(std::fs::read(rig.path("outside/file")).unwrap(), b"outside");
    assert!(rig.with(&policy, "echo x > here").succeeded());
    assert!(rig.path("ws/here").exists());
}

fn a_listed_file_takes_no_layer_away(rig: &Rig) {
    // A view with listed paths has no folder yet to mount the file in.
    let policy = Policy { read: vec![rig.path("outside/file")], ..closed(rig) };
    let done = rig.with(&policy, &format!("cat {}", rig.path("outside/file").display()));
    assert_eq!((done.out.as_str(), done.err.as_str()), ("outside", ""));
    assert_eq!(done.report.has(Layer::View), rig.has_view(), "{:?}", done.report);
    assert_eq!(done.report.has(Layer::Processes), rig.has_view(), "{:?}", done.report);
    assert_eq!(done.report.has(Layer::Network), rig.has_view(), "{:?}", done.report);
}

fn a_sandbox_that_cannot_be_made_runs_nothing(rig: &Rig) {
    // The view has no such file, and there is nowhere to put it.
    let policy = Policy { read: vec!["/proc/version".into()], ..closed(rig) };
    let outcome = rig.within(&Sandbox::default(), &policy, rig.task("touch ran"));
    match outcome {
        Ok(done) => assert!(!rig.has_view(), "{:?}", done.report),
        Err(error) => {
            assert!(rig.has_view(), "{error}");
            assert!(error.to_string().contains("could not be made"), "{error}");
            assert!(!rig.path("ws/ran").exists());
        }
    }
}

fn programs_work_in_a_closed_view(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let policy = closed(rig);
    let lock = "from multiprocessing import Lock, Pool; Lock().acquire(); print(Pool(2).map(abs, [-1, -2]))";
    for (script, printed, needs_view) in [
        ("bash -c 'echo $((6 * 7))'", "42", false),
        ("python3 -c 'print(6 * 7)'", "42", false),
        (
            "python3 -c 'import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b\"x\"); print(42)'",
            "42",
            false,
        ),
        (
            "python3 -c 'import os, pwd; print(pwd.getpwuid(os.getuid()).pw_uid == os.getuid())'",
            "True",
            false,
        ),
        ("python3 -c 'import ssl, json, sqlite3, ctypes; print(42)'", "42", false),
        ("seq 3 | sort -r | head -n 1; cat < /dev/null; echo x > /dev/null", "3", false),
        ("cat <(echo 42)", "42", false),
        (&format!("python3 -c '{lock}'"), "[1, 2]", true),
        ("echo 42 > /tmp/x && cat /tmp/x && cat /proc/self/comm | wc -l", "42\n1", true),
    ] {
        if needs_view && !rig.has_view() {
            continue;
        }
        let done = rig.with(&policy, &format!("export {PATH}; {script}"));
        assert_eq!(done.out.trim(), printed, "{script}: {}", done.err);
    }
}

fn a_closed_view_holds(rig: &Rig) {
    let policy = closed(rig);
    for script in [
        "mkdir /new",
        "echo x > /etc/passwd",
        "echo x > /usr/x",
        "rm /bin",
        "touch /dev/x",
        "umount /usr",
        "cat /proc/kallsyms",
        "cat /proc/sys/kernel/core_pattern",
    ] {
        let done = rig.with(&policy, script);
        assert!(!done.succeeded(), "{script}: {}", done.out);
    }
    assert_eq!(std::fs::read_dir(rig.path("ws")).unwrap().count(), 0);
}
