//! Commands of one session share a sandbox, and those of two sessions nothing.

use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Network, Output, Policy, RunEvent, Sandbox, Stream};
use haft_testing::{Need, require};
use tokio::io::AsyncWriteExt as _;

use crate::{Rig, Test, tests};

pub(crate) const TESTS: &[(&str, Test)] =
    tests![a_sandbox_that_was_lost_is_made_anew, a_program_is_talked_to];

/// Those that are about the namespaces.
pub(crate) const VIEW_TESTS: &[(&str, Test)] = tests![
    commands_of_a_session_share_temporary_files,
    a_server_in_the_background_is_reached,
    a_command_ends_without_the_others,
    a_slot_that_its_command_kills_leaves_nothing,
];

fn commands_of_a_session_share_temporary_files(rig: &Rig) {
    let session = Sandbox::default();
    let other = Sandbox::default();
    let run = |session: &Sandbox, policy: &Policy, script: &str| {
        rig.within(session, policy, rig.task(script)).unwrap()
    };
    let read_only = Policy { write: Vec::new(), read: rig.policy.write.clone(), ..rig.policy.clone() };
    let with_network = Policy { network: Network::On, ..rig.policy.clone() };
    assert!(
        run(&session, &rig.policy, "for f in /tmp /var/tmp /dev/shm; do echo x > $f/kept; done").succeeded()
    );
    for policy in [&rig.policy, &read_only, &with_network] {
        let done = run(&session, policy, "cat /tmp/kept /var/tmp/kept /dev/shm/kept");
        assert_eq!(done.out, "x\nx\nx\n", "{}", done.err);
    }
    assert!(!run(&other, &rig.policy, "cat /tmp/kept").succeeded(), "another session's");
}

fn a_server_in_the_background_is_reached(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let session = Sandbox::default();
    rig.runtime.block_on(async {
        let slot = session.slot(&rig.policy, Output::Joined).await.unwrap();
        let script = "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); \
                      print(s.getsockname()[1], flush=True); s.accept()[0].sendall(b\"hello\")'";
        let mut server = slot.run(rig.task(script)).await.unwrap();
        let RunEvent::Output(_, port) = server.next().await.unwrap() else { panic!("it has ended") };
        let port = String::from_utf8_lossy(port).trim().to_owned();
        let slot = session.slot(&rig.policy, Output::Joined).await.unwrap();
        let client = format!("ps ax | grep -q create_server && exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3");
        let mut client = slot.run(rig.task(&client)).await.unwrap();
        let RunEvent::Output(_, said) = client.next().await.unwrap() else { panic!("nothing was said") };
        assert_eq!(String::from_utf8_lossy(said), "hello");
    });
}

fn a_command_ends_without_the_others(rig: &Rig) {
    let session = Sandbox::default();
    rig.runtime.block_on(async {
        let start = async |script: &str| {
            let slot = session.slot(&rig.policy, Output::Joined).await.unwrap();
            let mut running = slot.run(rig.task(script)).await.unwrap();
            assert!(matches!(running.next().await.unwrap(), RunEvent::Output(_, b"started\n")));
            running
        };
        let mut stays = start("echo started; read -t 100 <> <(:); echo ended").await;
        let mut killed = start("(setsid sleep 200 &); echo started; sleep 200").await;
        killed.kill();
        while !matches!(killed.next().await.unwrap(), RunEvent::Ended(_)) {}
        let dropped = start("(setsid sleep 200 &); echo started; sleep 200").await;
        drop(dropped);
        // A command can end what another one of its session has started.
        let mut last =
            start("echo started; until pkill -x sleep; [ $? = 1 ]; do :; done; pkill -f 'read -t 10[0]'")
                .await;
        while !matches!(last.next().await.unwrap(), RunEvent::Ended(_)) {}
        loop {
            if let RunEvent::Ended(ended) = stays.next().await.unwrap() {
                assert_eq!(ended.exit, Exit::Signal(15));
                break;
            }
        }
    });
}

fn a_slot_that_its_command_kills_leaves_nothing(rig: &Rig) {
    let session = Sandbox::default();
    let mark = format!("{}77", std::process::id());
    let script = format!("setsid sleep 100.{mark} & kill -9 $PPID; sleep 100.{mark}");
    let done = rig.within(&session, &rig.policy, rig.task(&script)).unwrap();
    assert_eq!(done.ended.exit, Exit::Signal(9));
    assert!(crate::ends_soon(&format!("100.{mark}")));
    assert_eq!(rig.within(&session, &rig.policy, rig.task("echo x")).unwrap().out, "x\n");
}

fn a_sandbox_that_was_lost_is_made_anew(rig: &Rig) {
    let session = Sandbox::default();
    let mark = format!("{}88", std::process::id());
    rig.runtime.block_on(async {
        let slot = session.slot(&rig.policy, Output::Joined).await.unwrap();
        assert!(!slot.is_renewed());
        let temporary = if rig.has_view() { "echo x > /tmp/x; " } else { "" };
        let script = format!("{temporary}echo started; sleep 100.{mark}");
        let mut running = slot.run(rig.task(&script)).await.unwrap();
        assert!(matches!(running.next().await.unwrap(), RunEvent::Output(..)));
        let command = crate::pid_of(&mark).unwrap();
        let supervisor = std::iter::successors(Some(command), |pid| parent_of(*pid))
            // Between it and this process is the launcher.
            .find(|pid| parent_of(*pid).and_then(parent_of) == Some(std::process::id()))
            .unwrap();
        let killed = std::process::Command::new("kill").args(["-9", &supervisor.to_string()]).status();
        assert!(killed.unwrap().success());
        let ended = loop {
            if let RunEvent::Ended(ended) = running.next().await.unwrap() {
                break ended;
            }
        };
        assert_eq!(ended.exit, Exit::Signal(9));
        assert!(crate::ends_soon(&mark));
        let slot = session.slot(&rig.policy, Output::Joined).await.unwrap();
        assert!(slot.is_renewed());
        let mut running = slot.run(rig.task("[ -e /tmp/x ] || echo gone")).await.unwrap();
        assert!(matches!(running.next().await.unwrap(), RunEvent::Output(_, b"gone\n")));
        drop(running);
        assert!(!session.slot(&rig.policy, Output::Joined).await.unwrap().is_renewed());
    });
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.split_whitespace().nth(1)?.parse().ok()
}

fn a_program_is_talked_to(rig: &Rig) {
    rig.runtime.block_on(async {
        let slot = Sandbox::default().slot(&rig.policy, Output::Apart).await.unwrap();
        let (mut running, mut input) =
            slot.talk(rig.task("while read -r line; do echo \"got $line\"; done; echo done")).await.unwrap();
        for line in ["one", "two"] {
            input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let RunEvent::Output(Stream::Out, said) = running.next().await.unwrap() else {
                panic!("no answer")
            };
            assert_eq!(String::from_utf8_lossy(said), format!("got {line}\n"));
        }
        drop(input);
        assert!(matches!(running.next().await.unwrap(), RunEvent::Output(_, b"done\n")));
        assert!(
            matches!(running.next().await.unwrap(), RunEvent::Ended(ended) if ended.exit == Exit::Code(0))
        );
    });
}
