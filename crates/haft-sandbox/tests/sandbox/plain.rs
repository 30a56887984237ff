//! What commands are for: they say what they say, and programs work.

use haft_sandbox::Exit;
use haft_sandbox::sandbox::{CommandEnd, Layer, Output, Report, RunEvent, Sandbox, Stream, Task};

use haft_testing::{Need, require};

use crate::{Rig, Test, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![
    a_command_says_what_it_says,
    streams_come_apart_or_as_one,
    a_missing_program_is_reported,
    large_output_is_complete,
    git_works_in_a_sandbox,
    exit_codes_and_signals_are_reported,
    standard_input_is_empty,
    what_was_printed_before_the_end_is_kept,
    programs_work,
    a_large_sort_uses_temporary_files,
];

fn a_command_says_what_it_says(rig: &Rig) {
    let done = rig.bash("echo out; echo err >&2; pwd; exit 3");
    assert_eq!(
        (done.out.as_str(), done.err.as_str()),
        (&*format!("out\n{}\n", rig.path("ws").display()), "err\n")
    );
    let ended = CommandEnd { cpu: None, ..done.ended };
    assert_eq!(ended, CommandEnd { dir: Some(rig.path("ws")), ..CommandEnd::of(Exit::Code(3)) });
    let wanted: &[Layer] = match rig.has_view() {
        true => &[Layer::Processes, Layer::View, Layer::Network, Layer::Paths, Layer::Calls],
        false => &[Layer::Paths, Layer::Calls],
    };
    let mut report = done.report;
    // Another test checks for control groups.
    report.active.retain(|layer| *layer != Layer::Quota);
    report.missing.retain(|(layer, _)| *layer != Layer::Quota);
    assert_eq!(report, Report { active: wanted.to_vec(), missing: Vec::new() });
    assert_eq!(rig.bash("cd /usr && cd lib; false").ended.dir, Some("/usr/lib".into()));
    assert_eq!(rig.bash("cd /usr; exec true").ended.dir, None);
    // Telling that takes nothing that a script could want.
    let done = rig.bash("exec 3>a 4>b 5>c 6>d 7>e; cd /usr");
    assert_eq!((done.ended.dir, std::fs::read(rig.path("ws/c")).unwrap()), (Some("/usr".into()), Vec::new()));
    let held = "import os; print([fd for fd in range(3, 200) if os.path.exists(f\"/proc/self/fd/{fd}\")])";
    assert_eq!(rig.bash(&format!("python3 -c '{held}'")).out, "[]\n");
    assert_eq!(rig.bash("kill -TERM $$").ended.exit, Exit::Signal(15));
    assert_eq!(rig.bash("cat; read line || echo closed").out, "closed\n", "nothing can be read");
}

fn streams_come_apart_or_as_one(rig: &Rig) {
    rig.runtime.block_on(async {
        let sandbox = Sandbox::default().slot(&rig.policy, Output::Joined).await.unwrap();
        let script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done";
        let mut running = sandbox.run(rig.task(script)).await.unwrap();
        let mut all = Vec::new();
        while let RunEvent::Output(stream, bytes) = running.next().await.unwrap() {
            assert_eq!(stream, Stream::Out);
            all.extend_from_slice(bytes);
        }
        assert_eq!(String::from_utf8(all).unwrap(), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    });
}

fn a_missing_program_is_reported(rig: &Rig) {
    rig.runtime.block_on(async {
        let sandbox = Sandbox::default().slot(&rig.policy, Output::Joined).await.unwrap();
        let task = Task { program: "haft-no-such-program".into(), ..rig.task("") };
        let mut running = sandbox.run(task).await.unwrap();
        let mut all = Vec::new();
        let ended = loop {
            match running.next().await.unwrap() {
                RunEvent::Output(_, bytes) => all.extend_from_slice(bytes),
                RunEvent::Ended(ended) => break *ended,
            }
        };
        assert_eq!(ended.exit, Exit::Code(127));
        assert!(String::from_utf8(all).unwrap().contains("`haft-no-such-program` cannot be started"));
    });
}

fn large_output_is_complete(rig: &Rig) {
    let done = rig.bash("head -c 20000000 /dev/zero | tr '\\0' x");
    assert_eq!(done.out.len(), 20_000_000);
}

fn git_works_in_a_sandbox(rig: &Rig) {
    if !require(Need::Git) {
        return;
    }
    let done = rig.bash(
        "git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add f && \
         git commit -qm one && git worktree add -q ../ws/tree && git log --oneline | wc -l",
    );
    assert_eq!(done.out.trim(), "1", "{}", done.err);
}

fn exit_codes_and_signals_are_reported(rig: &Rig) {
    for (script, exit) in [
        ("exit 3", Exit::Code(3)),
        ("kill -9 $$", Exit::Signal(9)),
        ("kill -SEGV $$", Exit::Signal(11)),
        ("exec haft-no-such-program", Exit::Code(127)),
        ("haft-no-such-program", Exit::Code(127)),
        ("exec /etc/passwd", Exit::Code(126)),
        ("if", Exit::Code(2)),
        ("bash -c 'kill -9 $$'; exit $?", Exit::Code(137)),
    ] {
        assert_eq!(rig.bash(script).ended.exit, exit, "{script}");
    }
}

fn standard_input_is_empty(rig: &Rig) {
    for script in [
        "cat",
        "read x",
        "python3 -c 'input()'",
        "git init -q . && git -c user.email=a@b -c user.name=n commit",
        "ssh-keygen",
        "passwd",
    ] {
        let done = rig.bash(&format!("{script}; echo ended"));
        assert!(done.out.ends_with("ended\n"), "{script}: {}", done.err);
    }
}

fn what_was_printed_before_the_end_is_kept(rig: &Rig) {
    rig.runtime.block_on(async {
        let sandbox = Sandbox::default().slot(&rig.policy, Output::Apart).await.unwrap();
        // Neither politeness nor what it has started keeps it from ending.
        let script = "trap '' TERM INT HUP; sleep 300 & echo a; echo b >&2; while :; do sleep 300; done";
        let mut running = sandbox.run(rig.task(script)).await.unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit = loop {
            match running.next().await.unwrap() {
                RunEvent::Output(Stream::Out, bytes) => out.extend_from_slice(bytes),
                RunEvent::Output(Stream::Err, bytes) => err.extend_from_slice(bytes),
                RunEvent::Ended(ended) => break ended.exit,
            }
            if !out.is_empty() && !err.is_empty() {
                running.terminate();
                running.kill();
            }
        };
        assert_eq!((&*out, &*err, exit), (&b"a\n"[..], &b"b\n"[..], Exit::Signal(9)));
    });
}

fn programs_work(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let lock = "from multiprocessing import Lock, Pool; Lock().acquire(); print(Pool(2).map(abs, [-1]))";
    for (script, printed, needs_view) in [
        (&*format!("python3 -c '{lock}'"), "[1]", true),
        (
            "python3 -c 'import os, pwd; print(pwd.getpwuid(os.getuid()).pw_uid == os.getuid())'",
            "True",
            false,
        ),
        ("python3 -c 'import tempfile; tempfile.TemporaryFile().write(b\"x\"); print(42)'", "42", false),
        (
            "python3 -c 'import subprocess; print(subprocess.check_output([\"echo\", \"42\"]))'",
            "b'42\\n'",
            false,
        ),
        ("cat <(echo 42) | tee copy; cat copy", "42\n42", false),
        ("mkfifo pipe && (echo 42 > pipe &) && cat pipe", "42", false),
        ("f=$(mktemp) && echo 42 > $f && cat $f", "42", true),
        ("tar cf t.tar /etc/passwd 2>/dev/null && tar tf t.tar", "etc/passwd", false),
    ] {
        if needs_view && !rig.has_view() {
            continue;
        }
        let done = rig.bash(script);
        assert_eq!(done.out.trim(), printed, "{script}: {}", done.err);
    }
}

fn a_large_sort_uses_temporary_files(rig: &Rig) {
    // With so little memory the rest goes to temporary files.
    let done = rig.bash(
        "seq 300000 | sort -S 1M -T . -r -n | head -n 1; seq 300000 | TMPDIR=$PWD sort -S 1M | tail -n 1",
    );
    assert_eq!(done.out, "300000\n99999\n", "{}", done.err);
}
