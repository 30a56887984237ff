//! What commands are for: they say what they say, and programs work.

use haft_sandbox::Exit;
use haft_sandbox::cage::{Cage, Ended, Happened, Output, Report, Stream, Task, Wall};

use crate::{Rig, Test, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![
    a_command_says_what_it_says,
    streams_come_apart_or_as_one,
    a_missing_program_is_told,
    much_output_comes_whole,
    git_works_in_a_cage,
];

fn a_command_says_what_it_says(rig: &Rig) {
    let done = rig.bash("echo out; echo err >&2; pwd; exit 3");
    assert_eq!(
        (done.out.as_str(), done.err.as_str()),
        (&*format!("out\n{}\n", rig.path("ws").display()), "err\n")
    );
    assert_eq!(done.ended, Ended { dir: Some(rig.path("ws")), ..Ended::of(Exit::Code(3)) });
    let wanted: &[Wall] = match rig.has_view() {
        true => &[Wall::Processes, Wall::View, Wall::Network, Wall::Paths, Wall::Calls],
        false => &[Wall::Paths, Wall::Calls],
    };
    let mut report = done.report;
    // Whether there are control groups is told by another test.
    report.standing.retain(|wall| *wall != Wall::Amounts);
    report.missing.retain(|(wall, _)| *wall != Wall::Amounts);
    assert_eq!(report, Report { standing: wanted.to_vec(), missing: Vec::new() });
    assert_eq!(rig.bash("cd /usr && cd lib; false").ended.dir, Some("/usr/lib".into()));
    assert_eq!(rig.bash("cd /usr; exec true").ended.dir, None);
    assert_eq!(rig.bash("kill -TERM $$").ended.exit, Exit::Signal(15));
    assert_eq!(rig.bash("cat; read line || echo closed").out, "closed\n", "nothing can be read");
}

fn streams_come_apart_or_as_one(rig: &Rig) {
    rig.runtime.block_on(async {
        let cage = Cage::new(&rig.policy, Output::Joined).await.unwrap();
        let script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done";
        let mut running = cage.run(rig.task(script)).await.unwrap();
        let mut all = Vec::new();
        while let Happened::Output(stream, bytes) = running.next().await.unwrap() {
            assert_eq!(stream, Stream::Out);
            all.extend_from_slice(bytes);
        }
        assert_eq!(String::from_utf8(all).unwrap(), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    });
}

fn a_missing_program_is_told(rig: &Rig) {
    rig.runtime.block_on(async {
        let cage = Cage::new(&rig.policy, Output::Joined).await.unwrap();
        let task = Task { program: "haft-no-such-program".into(), ..rig.task("") };
        let mut running = cage.run(task).await.unwrap();
        let mut all = Vec::new();
        let ended = loop {
            match running.next().await.unwrap() {
                Happened::Output(_, bytes) => all.extend_from_slice(bytes),
                Happened::Ended(ended) => break ended,
            }
        };
        assert_eq!(ended.exit, Exit::Code(127));
        assert!(String::from_utf8(all).unwrap().contains("`haft-no-such-program` cannot be started"));
    });
}

fn much_output_comes_whole(rig: &Rig) {
    let done = rig.bash("head -c 20000000 /dev/zero | tr '\\0' x");
    assert_eq!(done.out.len(), 20_000_000);
}

fn git_works_in_a_cage(rig: &Rig) {
    let done = rig.bash(
        "git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add f && \
         git commit -qm one && git worktree add -q ../ws/tree && git log --oneline | wc -l",
    );
    assert_eq!(done.out.trim(), "1", "{}", done.err);
}
