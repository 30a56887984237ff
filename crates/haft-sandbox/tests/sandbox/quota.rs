//! Limits and quotas.

use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Layer, LimitHit, Limits, Output, Policy, Quota, RunEvent, Sandbox};

use haft_testing::{Need, missing, require};

use crate::{Rig, Test, ends_soon, groups_of, is_running, soon, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![
    limits_hold,
    groups_are_there_where_the_kernel_has_them,
    a_fork_bomb_is_contained,
    busy_loops_are_ended,
    processes_are_counted_together,
    memory_is_counted_together,
    memory_is_counted_without_control_groups,
    a_quota_is_shared_by_a_session,
    a_session_has_limited_processor_time,
];

fn a_session_has_limited_processor_time(rig: &Rig) {
    let ready = Sandbox::new(Quota { cpu: Some(1), ..Quota::default() });
    let run = |script: &str| rig.within(&ready, &rig.policy, rig.task(script));
    assert!(run("sleep 1.5").unwrap().ended.cpu.unwrap().as_millis() < 1000, "waiting is free");
    // The time of child processes counts.
    let busy = "(end=$((SECONDS + 2)); while [ $SECONDS -lt $end ]; do :; done) & wait";
    let done = run(busy).unwrap();
    assert!(done.succeeded() && done.ended.cpu.unwrap().as_millis() > 0, "{:?}", done.ended);
    // How much processor time a busy second takes depends on the load of the machine.
    let refused = (0..60).find_map(|_| run(busy).err());
    assert!(refused.unwrap().to_string().contains("used up their 1 seconds of processor time"));
}

/// Whether sandboxes have control groups on this machine.
fn has_groups(rig: &Rig) -> bool {
    let report = rig.bash("true").report;
    let has = report.has(Layer::Quota);
    // A user without rights is not expected to have any, and root has tried them.
    if !has && std::env::var_os(crate::NOBODY).is_none() {
        let why = report.missing.iter().find(|(layer, _)| *layer == Layer::Quota);
        missing(Need::ControlGroups, why.map_or("no reason", |(_, why)| why));
    }
    has
}

fn memory_is_counted_without_control_groups(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let limits = Limits { total_memory: Some(256 << 20), ..Limits::default() };
    let policy = Policy { limits, without: vec![Layer::Quota], ..rig.policy.clone() };
    // Several processes, each of which keeps to what one may have.
    let script = "import os, time\nfor _ in range(4): os.fork() == 0 and bytearray(b\"x\" * (100 << 20)) and time.sleep(100)\ntime.sleep(100)";
    let done = rig.with(&policy, &format!("python3 -c '{script}'"));
    assert_eq!((done.ended.exit, done.ended.hit), (Exit::Signal(9), Some(LimitHit::Memory)));
    if rig.has_view() {
        let done = rig.with(&policy, "head -c 300M /dev/zero > /tmp/large; sleep 100");
        assert_eq!(done.ended.hit, Some(LimitHit::Memory), "{}", done.err);
    }
    // What processes share counts once.
    let script = "import os, time\nlarge = bytearray(b\"x\" * (100 << 20))\nfor _ in range(4): os.fork() == 0 and (time.sleep(1), os._exit(0))\ntime.sleep(1)";
    let done = rig.with(&policy, &format!("python3 -c '{script}'"));
    assert_eq!((done.ended.exit, done.ended.hit), (Exit::Code(0), None), "{}", done.err);
}

/// How many processes a program can start.
const FORK: &str = r"python3 -c '
import os, sys, time
count = 0
while count < 500:
    try:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
    except OSError:
        break
    count += 1
print(count)
'";

fn limits_hold(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let limits = Limits {
        file_size: Some(1 << 20),
        files: Some(64),
        cpu: Some(1),
        memory: Some(1 << 30),
        ..Limits::default()
    };
    let policy = Policy { limits, ..rig.policy.clone() };
    let done = rig.with(&policy, "head -c 10000000 /dev/zero > big");
    assert!(!done.succeeded());
    assert_eq!(done.ended.hit, Some(LimitHit::FileSize));
    assert!(std::fs::metadata(rig.path("ws/big")).unwrap().len() <= 1 << 20);
    assert!(!rig.with(&policy, "fallocate -l 1T huge").succeeded());
    assert_eq!(rig.with(&policy, "ulimit -n").out, "64\n");
    let done = rig.with(&policy, "while :; do :; done");
    assert_eq!((done.ended.exit, done.ended.hit), (Exit::Signal(24), Some(LimitHit::Cpu)), "SIGXCPU");
    assert_eq!(rig.with(&policy, "true").ended.hit, None);
    assert!(!rig.with(&policy, "python3 -c 'b = bytearray(3 << 30)'").succeeded());
}

fn groups_are_there_where_the_kernel_has_them(rig: &Rig) {
    let folders = ["pids", "memory"].map(|name| std::path::Path::new("/sys/fs/cgroup").join(name));
    let writable = |folder: &std::path::PathBuf| {
        let own = folder.join(format!("haft-0-test-{}", u8::from(rig.has_view())));
        std::fs::create_dir(&own).and_then(|()| std::fs::remove_dir(&own)).is_ok()
    };
    let report = rig.bash("true").report;
    if folders.iter().all(writable) {
        assert!(report.has(Layer::Quota), "{report:?}");
    }
    let missing: Vec<_> = report.missing.iter().filter(|(layer, _)| *layer == Layer::Quota).collect();
    assert_eq!(report.has(Layer::Quota), missing.is_empty(), "either it stands or it is said why not");
}

fn a_fork_bomb_is_contained(rig: &Rig) {
    let mark = format!("{}{}", std::process::id(), rig.has_view() as u8 + 30);
    let limits = Limits { processes: Some(60), ..Limits::default() };
    let policy = Policy { limits, ..rig.policy.clone() };
    rig.runtime.block_on(async {
        let sandbox = Sandbox::default().slot(&policy, Output::Joined).await.unwrap();
        let is_counted = sandbox.report().has(Layer::Quota);
        // What it is called in the list of processes is its mark.
        let script = format!(": {mark}; :(){{ :|:& }};:; read -t 100 < <(sleep 100.{mark})");
        let mut running = sandbox.run(rig.task(&script)).await.unwrap();
        let mut told = Vec::new();
        let full = b"Resource temporarily unavailable";
        while !told.windows(full.len()).any(|part| part == full) {
            match running.next().await.unwrap() {
                RunEvent::Output(_, bytes) => told.extend_from_slice(bytes),
                RunEvent::Ended(ended) => panic!("{ended:?} {}", String::from_utf8_lossy(&told)),
            }
        }
        running.kill();
        loop {
            if let RunEvent::Ended(ended) = running.next().await.unwrap() {
                assert_eq!(ended.hit, is_counted.then_some(LimitHit::Processes));
                break;
            }
        }
    });
    assert!(ends_soon(&mark));
}

fn processes_are_counted_together(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let limits = Limits { processes: Some(50), ..Limits::default() };
    let policy = Policy { limits, ..rig.policy.clone() };
    let done = rig.with(&policy, FORK);
    let count: usize = done.out.trim().parse().unwrap();
    // Where others of the same user come and go, the number is not exact.
    assert!((10..=100).contains(&count), "{count} {}", done.err);
    assert!(!is_running("time.sleep(1000)") || ends_soon("time.sleep(1000)"));
    assert_eq!(done.ended.hit, done.report.has(Layer::Quota).then_some(LimitHit::Processes));
}

fn memory_is_counted_together(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    if !has_groups(rig) {
        return;
    }
    let limits = Limits { total_memory: Some(96 << 20), ..Limits::default() };
    let policy = Policy { limits, ..rig.policy.clone() };
    for script in [
        "tail /dev/zero",
        "python3 -c 'b = bytearray(1 << 30)'",
        "for n in 1 2 3 4; do python3 -c 'import time; b = bytearray(40 << 20); time.sleep(1000)' & done; wait -n",
    ] {
        let done = rig.with(&policy, script);
        assert!(!done.succeeded(), "{script}");
        assert_eq!(done.ended.hit, Some(LimitHit::Memory), "{script}");
    }
    if rig.has_view() {
        let done = rig.with(&policy, "head -c 200M /dev/zero > /dev/shm/big");
        assert_eq!(done.ended.hit, Some(LimitHit::Memory), "files in memory are memory");
    }
    let done = rig.with(&policy, "python3 -c 'b = bytearray(20 << 20)'");
    assert!(done.succeeded() && done.ended.hit.is_none(), "{}", done.err);
}

fn a_quota_is_shared_by_a_session(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    if !has_groups(rig) {
        return;
    }
    let ready = Sandbox::new(Quota { processes: Some(100), ..Quota::default() });
    let limits = Limits { processes: Some(90), ..Limits::default() };
    let policy = Policy { limits, ..rig.policy.clone() };
    let before = groups_of(std::process::id());
    let counts: Vec<usize> = rig.runtime.block_on(async {
        let mut running = Vec::new();
        let mut counts = Vec::new();
        for _ in 0..2 {
            let sandbox = ready.slot(&policy, Output::Joined).await.unwrap();
            let mut one = sandbox.run(rig.task(&format!("{FORK}; read -t 1000 <> <(:)"))).await.unwrap();
            let RunEvent::Output(_, count) = one.next().await.unwrap() else { panic!("it has ended") };
            counts.push(String::from_utf8_lossy(count).lines().next().unwrap().parse().unwrap());
            running.push(one);
        }
        counts
    });
    assert!(counts[0] > 60 && counts[1] < 60, "{counts:?}");
    drop(ready);
    let is_new = |group: &std::path::PathBuf| !before.contains(group);
    let session = groups_of(std::process::id());
    let session: Vec<_> = session.into_iter().filter(is_new).collect();
    assert!(soon(|| session.iter().all(|group| !group.exists())));
}

fn busy_loops_are_ended(rig: &Rig) {
    let mark = format!("busy{}{}", std::process::id(), u8::from(rig.has_view()));
    rig.runtime.block_on(async {
        let sandbox = Sandbox::default().slot(&rig.policy, Output::Joined).await.unwrap();
        let script = format!(
            "for n in 1 2 3 4 5 6 7 8; do bash -c 'while :; do :; done' {mark} & done; echo started; wait"
        );
        let mut running = sandbox.run(rig.task(&script)).await.unwrap();
        assert!(matches!(running.next().await.unwrap(), RunEvent::Output(..)));
        running.kill();
        while !matches!(running.next().await.unwrap(), RunEvent::Ended(_)) {}
    });
    assert!(ends_soon(&mark));
}
