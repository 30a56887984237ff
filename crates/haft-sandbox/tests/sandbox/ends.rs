//! Nothing outlives a command, however it ends.

use haft_sandbox::sandbox::{Output, RunEvent, Sandbox};

use crate::{HOLD, ONCE, Rig, Test, ends_soon, groups_of, is_running, soon, strays, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![
    nothing_outlives_a_command,
    nothing_outlives_a_command_that_is_killed,
    nothing_outlives_haft,
    processes_left_running_are_reported,
];

fn nothing_outlives_a_command(rig: &Rig) {
    let mark = format!("{}{}", std::process::id(), rig.has_view() as u8 + 10);
    let done = rig.bash(&format!("{}; echo done", strays(&mark)));
    assert_eq!(done.out, "done\n");
    assert!(ends_soon(&format!("100.{mark}")));
}

fn nothing_outlives_a_command_that_is_killed(rig: &Rig) {
    let mark = format!("{}{}", std::process::id(), rig.has_view() as u8 + 20);
    rig.runtime.block_on(async {
        let sandbox = Sandbox::default().slot(&rig.policy, Output::Joined).await.unwrap();
        let mut running =
            sandbox.run(rig.task(&format!("{}; echo started; sleep 200", strays(&mark)))).await.unwrap();
        assert!(matches!(running.next().await.unwrap(), RunEvent::Output(_, b"started\n")));
        assert!(is_running(&format!("100.{mark}")));
        drop(running);
    });
    assert!(ends_soon(&format!("100.{mark}")));
}

fn nothing_outlives_haft(rig: &Rig) {
    for (number, signal) in ["KILL", "TERM", "INT", "HUP"].into_iter().enumerate() {
        nothing_outlives_haft_after(rig, signal, number);
    }
}

fn nothing_outlives_haft_after(rig: &Rig, signal: &str, number: usize) {
    let mark = format!("{}{}{number}", if rig.has_view() { 1 } else { 2 }, std::process::id());
    if rustix::process::getuid().is_root() {
        number_processes_from_the_end();
    }
    // The caller of the tests may ignore signals, as shells do for background jobs.
    let mut haft = std::process::Command::new("env");
    haft.arg("--default-signal=INT,HUP,TERM").arg(std::env::current_exe().unwrap());
    let mut haft = haft.arg(format!("{HOLD}{mark}")).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut told = [0; 8];
    std::io::Read::read_exact(haft.stdout.as_mut().unwrap(), &mut told).unwrap();
    assert_eq!(&told, b"started\n");
    assert!(is_running(&format!("100.{mark}")));
    let sent = std::process::Command::new("kill").args(["-s", signal, &haft.id().to_string()]).status();
    assert!(sent.unwrap().success());
    haft.wait().unwrap();
    assert!(ends_soon(&format!("100.{mark}")), "{signal}");
    // The next process removes the groups of one that was killed, and leaves none itself.
    let next = || {
        let mut next =
            std::process::Command::new(std::env::current_exe().unwrap()).arg(ONCE).spawn().unwrap();
        assert!(next.wait().unwrap().success());
        assert_eq!(groups_of(next.id()), Vec::<std::path::PathBuf>::new());
        groups_of(haft.id()).is_empty()
    };
    assert!(soon(next));
}

/// Lets process numbers start anew among the next few processes, so that some are lower than those of their parents. A
/// listing in the order of numbers then has a child before its parent.
fn number_processes_from_the_end() {
    let max = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let last = max.trim().parse::<u32>().unwrap() - 16;
    std::fs::write("/proc/sys/kernel/ns_last_pid", last.to_string()).unwrap();
}

fn processes_left_running_are_reported(rig: &Rig) {
    let done = rig.bash("sleep 300 & until grep -q sleep /proc/$!/comm; do :; done; echo started");
    assert_eq!(done.out, "started\n");
    assert_eq!(done.ended.left, ["sleep 300"]);
}
