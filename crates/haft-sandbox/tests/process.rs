//! Real processes: whatever they do, the call ends, memory is bounded and nothing is left behind.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a test looks from outside

use std::future::pending;
use std::path::Path;
use std::time::{Duration, Instant};

use haft_sandbox::{Exit, Finished, Partner, Run, Start, run};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

/// Long enough never to be waited for.
const LONG: Duration = Duration::from_secs(600);

fn sh(script: &str) -> Run {
    Run {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        dir: "/".into(),
        env: Vec::new(),
        stdin: Vec::new(),
        timeout: LONG,
        max_output: 1 << 20,
    }
}

async fn finish(run: Run) -> Finished {
    haft_sandbox::run(run, pending()).await.unwrap()
}

fn is_running(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // A zombie does not run.
        Ok(stat) => !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'),
        Err(_) => false,
    }
}

/// Waits for the system to carry out a kill that has been sent.
#[track_caller]
fn assert_ends(pid: &str) {
    assert!(!pid.is_empty());
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_running(pid) {
        assert!(Instant::now() < deadline, "{pid} is still running");
        std::thread::yield_now();
    }
}

/// Completes when the file holds a whole line, and gives it.
async fn line_in(path: &Path) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(line) if line.ends_with('\n') => return line.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim()
}

#[tokio::test]
async fn codes_and_signals_are_told_exactly() {
    assert_eq!(finish(sh("exit 0")).await.exit, Exit::Code(0));
    assert_eq!(finish(sh("exit 3")).await.exit, Exit::Code(3));
    assert_eq!(finish(sh("kill -9 $$")).await.exit, Exit::Signal(9));
    assert_eq!(finish(sh("kill -SEGV $$")).await.exit, Exit::Signal(11));
    assert_eq!(finish(sh("exec nosuchcommand")).await.exit, Exit::Code(127));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let missing = Run { program: "/no/such/program".into(), ..sh("") };
    let error = run(missing, pending()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[tokio::test]
async fn folder_environment_and_input_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let canonical = dir.path().canonicalize().unwrap();
    let done = finish(Run {
        dir: canonical.clone(),
        env: vec![("GREETING".into(), "hello".into())],
        stdin: b"input".to_vec(),
        ..sh("pwd; echo $GREETING; cat; echo problem >&2")
    })
    .await;
    assert_eq!(text(&done.stdout), format!("{}\nhello\ninput", canonical.display()));
    assert_eq!(text(&done.stderr), "problem");
    assert_eq!((done.exit, done.dropped), (Exit::Code(0), 0));
}

#[tokio::test]
async fn without_input_a_reader_ends_at_once() {
    assert_eq!(finish(sh("cat; read x; exit 7")).await.exit, Exit::Code(7));
}

#[tokio::test]
async fn a_hanging_process_dies_with_its_whole_tree() {
    let script = "sh -c 'echo $$; exec sleep 600' &
        setsid sh -c 'echo $$; sleep 600' &
        setsid sh -c 'setsid sh -c \"echo \\$\\$; sleep 600; :\" & echo $$; wait' &
        echo $$; wait";
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let script = format!("{{ {script}\n }} | tee {}", report.display());
    // Ended as soon as all five have reported, so that the test depends on no length of time.
    let all_there = async {
        while std::fs::read_to_string(&report).unwrap_or_default().lines().count() < 5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let done = run(sh(&script), all_there).await.unwrap();
    assert_eq!(done.exit, Exit::Cancelled);
    let reported = std::fs::read_to_string(&report).unwrap();
    assert_eq!(reported.lines().count(), 5);
    reported.lines().for_each(assert_ends);
}

#[tokio::test]
async fn what_was_printed_before_the_time_was_over_is_kept() {
    // On a busy machine a shell may need a while until it prints.
    for seconds in [1, 5, 25, 125] {
        let limit = Duration::from_secs(seconds);
        let done = finish(Run { timeout: limit, ..sh("echo a; echo $$ >&2; exec sleep 600") }).await;
        assert_eq!(done.exit, Exit::TimedOut);
        assert!(done.duration >= limit);
        if !done.stderr.is_empty() {
            assert_eq!(text(&done.stdout), "a");
            return assert_ends(text(&done.stderr));
        }
    }
    panic!("what it printed was never kept");
}

#[tokio::test]
async fn a_process_that_ignores_the_request_to_end_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let script = format!("trap '' TERM INT HUP; echo $$ > {}; while :; do sleep 600; done", report.display());
    let ready = async { drop(line_in(&report).await) };
    let done = run(sh(&script), ready).await.unwrap();
    assert_eq!(done.exit, Exit::Cancelled);
    assert_ends(&line_in(&report).await);
}

#[tokio::test]
async fn a_process_that_heeds_the_request_can_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let script = format!(
        "trap 'echo cleaned; exit 0' TERM; echo $$ > {}; while :; do sleep 600 & wait; done",
        report.display()
    );
    let ready = async { drop(line_in(&report).await) };
    let done = run(sh(&script), ready).await.unwrap();
    assert_eq!((done.exit, text(&done.stdout)), (Exit::Cancelled, "cleaned"));
}

#[tokio::test]
async fn dropping_the_future_ends_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let script = format!("setsid sh -c 'echo $$ > {}; sleep 600' & wait", report.display());
    let pid = tokio::select! {
        _ = finish(sh(&script)) => panic!("it ended by itself"),
        pid = line_in(&report) => pid,
    };
    assert_ends(&pid);
}

#[tokio::test]
async fn endless_output_is_counted_and_not_kept() {
    let size = 64 << 20;
    let script = format!("head -c {size} /dev/zero; head -c {size} /dev/zero >&2");
    let done = finish(Run { max_output: 1000, ..sh(&script) }).await;
    assert_eq!((done.stdout.len(), done.stderr.len()), (1000, 1000));
    assert_eq!(done.dropped, 2 * size - 2000);
    assert_eq!(done.exit, Exit::Code(0));
}

#[tokio::test]
async fn input_that_is_not_read_does_no_harm() {
    let stdin = vec![b'x'; 1 << 20];
    for script in ["exit 5", "exec <&-; exit 5", "head -c 1 >/dev/null; exit 5"] {
        let done = finish(Run { stdin: stdin.clone(), ..sh(script) }).await;
        assert_eq!(done.exit, Exit::Code(5), "{script}");
    }
    // Reading and writing at the same time, more than any pipe holds.
    let done = finish(Run { stdin: stdin.clone(), ..sh("cat; cat >/dev/null") }).await;
    assert_eq!(done.stdout, stdin);
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_is_not_waited_for() {
    let done = finish(sh("sleep 600 & echo $!; echo hi")).await;
    let (pid, hi) = text(&done.stdout).split_once('\n').unwrap();
    assert_eq!((done.exit, hi), (Exit::Code(0), "hi"));
    assert!(done.duration < LONG / 2);
    assert_ends(pid);
}

#[tokio::test]
async fn the_last_output_of_a_process_is_not_lost() {
    for _ in 0..10 {
        let done = finish(sh("head -c 60000 /dev/zero; sleep 600 & exit 0")).await;
        assert_eq!(done.stdout.len(), 60000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_run_at_once() {
    let runs: Vec<_> =
        (0..50).map(|n| tokio::spawn(async move { finish(sh(&format!("echo {n}"))).await })).collect();
    for (n, run) in runs.into_iter().enumerate() {
        assert_eq!(text(&run.await.unwrap().stdout), n.to_string());
    }
}

fn partner(script: &str) -> Start {
    Start {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        dir: "/".into(),
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        max_stderr: 100,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partner_is_talked_to_until_its_input_ends() {
    let (partner, mut pipes) = Partner::start(&partner("echo said >&2; cat; exit 5")).unwrap();
    pipes.input.write_all(b"hello\n").await.unwrap();
    let mut line = String::new();
    BufReader::new(&mut pipes.output).read_line(&mut line).await.unwrap();
    assert_eq!(line, "hello\n");
    assert_eq!(partner.exit(), None);
    drop(pipes.input);
    assert_eq!(partner.ended().await, Exit::Code(5));
    assert_eq!(partner.stderr_tail(), "said\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_a_partner_says_the_end_is_kept() {
    let (partner, _pipes) = Partner::start(&partner("seq 100000 >&2")).unwrap();
    partner.ended().await;
    assert_eq!(partner.stderr_tail().len(), 100);
    assert!(partner.stderr_tail().ends_with("\n99999\n100000\n"), "{}", partner.stderr_tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partner_has_only_the_variables_that_it_is_given() {
    let (partner, mut pipes) = Partner::start(&partner("env")).unwrap();
    let mut printed = String::new();
    pipes.output.read_to_string(&mut printed).await.unwrap();
    partner.ended().await;
    let names: Vec<&str> = printed.lines().filter_map(|line| line.split('=').next()).collect();
    // The shell sets some itself.
    let own = |name: &&str| {
        ["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name) || name.starts_with("HAFT_PARTNER_")
    };
    assert!(names.iter().all(own), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_partner_has_started_ends_with_it_wherever_it_went() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, outer) = (folder.path().join("inner"), folder.path().join("outer"));
    // Twice removed, and in a session of its own.
    let script = format!(
        "(setsid sh -c 'echo $$ > {}; exec sleep 600' >/dev/null 2>&1 &); echo $$ > {}; trap '' TERM; cat; sleep 600",
        inner.display(),
        outer.display()
    );
    for ends in ["end", "drop"] {
        let (partner, pipes) = Partner::start(&partner(&script)).unwrap();
        let (inner, outer) = (line_in(&inner).await, line_in(&outer).await);
        assert!(is_running(&inner) && is_running(&outer));
        drop(pipes);
        match ends {
            "end" => drop(partner.end().await),
            _ => drop(partner),
        }
        assert_ends(&outer);
        assert_ends(&inner);
        std::fs::remove_file(folder.path().join("inner")).unwrap();
        std::fs::remove_file(folder.path().join("outer")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_becoming_another_program_ends_as_well() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let (again, pid) = (folder.path().join("again"), folder.path().join("pid"));
        let (shown, told) = (again.display(), pid.display());
        std::fs::write(&again, format!("[ -e {told} ] || echo $$ > {told}; exec sh {shown}")).unwrap();
        let script = format!("(setsid sh {shown} >/dev/null 2>&1 &); cat");
        let (partner, _pipes) = Partner::start(&partner(&script)).unwrap();
        let pid = line_in(&pid).await;
        drop(partner);
        let deadline = Instant::now() + Duration::from_secs(10);
        while is_running(&pid) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let ended = !is_running(&pid);
        if !ended {
            let _ = std::process::Command::new("kill").args(["-9", &pid]).status();
        }
        assert!(ended, "round {round}");
    }
}
