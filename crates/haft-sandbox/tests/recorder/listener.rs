//! What a listener must bear: death at any moment, a second one, other ABIs, and a recorder that is gone.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use haft_sandbox::sandbox::recorder::{IsBuildFolder, Options, Recorder, is_build_folder, recover};
use haft_testing::{Need, require};

use super::common::{Namespaces, Rig, differences, restore, spawn, tree};

#[test]
fn a_call_that_waits_can_be_killed() {
    if !require(Need::Bash) {
        return;
    }
    let rig = Rig::new();
    let mut command = rig.bash("echo x > f");
    command.current_dir(rig.ws());
    // Nobody serves the listener.
    let (mut child, listener) = spawn(command, Namespaces::Shared).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    let effects = Recorder::start(listener, rig.options()).unwrap().finish().unwrap();
    assert!(effects.is_empty());
}

#[test]
fn a_command_that_is_killed_in_the_middle_is_taken_back() {
    if !require(Need::Bash) {
        return;
    }
    for delay in [1, 5, 20, 60] {
        let rig = Rig::new();
        for number in 0..200 {
            rig.write(&format!("d{}/{number}", number % 7), "content");
        }
        let before = tree(&rig.ws());
        let script = "for f in */*; do echo more >> $f; mv $f $f.new; rm -f ${f%/*}/3*; done";
        let mut running = rig.start(rig.bash(script));
        std::thread::sleep(Duration::from_millis(delay));
        running.child.kill().unwrap();
        let effects = running.finish();
        restore(&effects);
        assert_eq!(differences(&before, &tree(&rig.ws())), Vec::<String>::new());
    }
}

#[test]
fn without_a_recorder_calls_fail_and_nothing_hangs() {
    if !require(Need::Bash) {
        return;
    }
    let rig = Rig::new();
    let mut command = rig.bash("echo x > f; exit 7");
    command.current_dir(rig.ws()).stderr(std::process::Stdio::null());
    let (mut child, listener) = spawn(command, Namespaces::Shared).unwrap();
    drop(listener);
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(fs::symlink_metadata(rig.ws().join("f")).is_err());
}

#[test]
fn processes_that_outlive_the_recording_go_on() {
    if !require(Need::Bash) {
        return;
    }
    let rig = Rig::new();
    let running = rig.start(rig.bash("echo 1 > f; (sleep 0.3; echo 2 > g; echo done > h) & exit 0"));
    let effects = running.finish();
    assert_eq!(effects.list.len(), 1, "{effects:?}");
    let start = Instant::now();
    while fs::read_to_string(rig.ws().join("h")).unwrap_or_default() != "done\n" {
        assert!(start.elapsed() < Duration::from_secs(20), "its calls no longer go on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_second_listener_is_refused_by_name() {
    if !require(Need::Bash) {
        return;
    }
    let rig = Rig::new();
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(own);
    command.args(["--exact", "listener::nested", "--ignored", "--nocapture"]);
    let (status, _) = rig.start(command).finish_with_status();
    assert!(status.success());
}

/// Runs in a process that has a recorder already.
#[test]
#[ignore = "started by another test"]
fn nested() {
    rustix::thread::set_no_new_privs(true).unwrap();
    let error = haft_sandbox::sandbox::recorder::install().unwrap_err();
    assert!(matches!(error, haft_sandbox::sandbox::recorder::RecorderError::Busy), "{error}");
}

#[test]
fn calls_of_another_abi_end_the_process() {
    let rig = Rig::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "listener::foreign", "--ignored", "-q"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let (status, _) = rig.start(command).finish_with_status();
    use std::os::unix::process::ExitStatusExt as _;
    // Without the other ABI in the kernel the instruction itself is a fault.
    assert!(matches!(status.signal(), Some(libc::SIGSYS | libc::SIGSEGV)), "{status}");
}

/// Makes a 32-bit call.
#[test]
#[ignore = "started by another test"]
#[allow(unsafe_code)]
fn foreign() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `getpid` changes nothing; the filter ends the process before it is made.
    unsafe {
        std::arch::asm!("int 0x80", inout("eax") 20 => _);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: it ends this process, as the test expects.
    unsafe {
        libc::raise(libc::SIGSYS);
    }
}

#[test]
fn a_recorder_that_died_is_settled_from_its_log() {
    if !require(Need::Bash) {
        return;
    }
    let rig = Rig::new();
    for name in ["a", "b", "d/x", "d/e/y"] {
        rig.write(name, name);
    }
    let before = tree(&rig.ws());
    let options = rig.options();
    let store = options.store.clone();
    let running = rig.start_with(rig.bash("rm -r d; echo more >> a; mv b c; mkdir n; echo 1 > n/f"), options);
    let is_build: IsBuildFolder = std::sync::Arc::new(is_build_folder);
    let expected = running.finish();
    assert!(recover(&store, &is_build).unwrap().is_none(), "a recording in use is left alone");
    let list = expected.list.clone();
    drop(expected);
    // The model is read from the log alone, as after the death of the process.
    let effects = recover(&store, &is_build).unwrap().unwrap();
    assert_eq!(effects.list, list);
    restore(&effects);
    assert_eq!(differences(&before, &tree(&rig.ws())), Vec::<String>::new());
    assert!(recover(&rig.ws().join("none"), &is_build).unwrap().is_none());
}

#[test]
fn many_processes_at_once_are_served() {
    if !require(Need::Bash) {
        return;
    }
    let rig = Rig::new();
    let script = "for i in $(seq 60); do (for j in 1 2 3 4 5 6; do echo $j > f$i-$j; mv f$i-$j g$i-$j; done) & done; wait";
    let before = tree(&rig.ws());
    let effects = rig.run(script);
    assert_eq!(effects.list.len(), 360);
    restore(&effects);
    assert_eq!(differences(&before, &tree(&rig.ws())), Vec::<String>::new());
}

#[test]
fn a_store_that_cannot_be_made_is_told_and_the_command_goes_on() {
    if !require(Need::Bash) {
        return;
    }
    let rig = Rig::new();
    rig.write("a", "one");
    let store = rig.ws().join("missing\0name");
    let running = rig.start_with(rig.bash("echo more >> a"), Options { store, ..rig.options() });
    let (status, effects) = running.finish_with_status();
    assert!(status.success());
    assert!(effects.not_kept.iter().any(|(_, why)| why.contains("could not be written")), "{effects:?}");
}
