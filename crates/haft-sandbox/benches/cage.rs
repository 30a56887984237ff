//! What a cage costs: `bash -c true` in one, beside the same started and waited for by itself.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use std::time::{Duration, Instant};

use haft_sandbox::cage::{self, Cage, Happened, Output, Policy, Ready, Task, Walls};

const ROUNDS: usize = 200;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn task(folder: &std::path::Path) -> Task {
    let path = ("PATH".into(), std::env::var_os("PATH").unwrap());
    Task {
        program: "/bin/bash".into(),
        args: vec!["-c".into(), "true".into()],
        dir: folder.into(),
        env: vec![path],
        tells_dir: false,
    }
}

async fn finish(cage: Cage, folder: &std::path::Path) {
    let mut running = cage.run(task(folder)).await.unwrap();
    while !matches!(running.next().await.unwrap(), Happened::Ended(_)) {}
}

fn main() {
    cage::arm();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bare = || {
        let mut command = std::process::Command::new("/bin/bash");
        command.args(["-c", "true"]).stdin(std::process::Stdio::null());
        assert!(command.status().unwrap().success());
    };
    for (name, walls, limit) in [
        ("no walls", Walls::None, 1.25),
        ("Landlock, seccomp, limits", Walls::Few, 1.5),
        ("all walls", Walls::All, 2.5),
    ] {
        let policy = Policy { walls, write: vec![folder.path().to_owned()], ..Policy::default() };
        let ready = Ready::default();
        let (mut alone, mut warm, mut cold) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            bare();
            alone.push(start.elapsed());
            runtime.block_on(async {
                ready.prepare(&policy, Output::Joined).await;
                let start = Instant::now();
                let cage = ready.take(&policy, Output::Joined).await.unwrap();
                finish(cage, folder.path()).await;
                warm.push(start.elapsed());
                let start = Instant::now();
                finish(Cage::new(&policy, Output::Joined).await.unwrap(), folder.path()).await;
                cold.push(start.elapsed());
            });
        }
        let (alone, warm, cold) = (median(alone), median(warm), median(cold));
        let ratio = |time: Duration| time.as_secs_f64() / alone.as_secs_f64();
        let verdict = if ratio(warm) <= limit { "ok" } else { "OVER" };
        println!(
            "{name:28} {:5.2} x (at most {limit}) {verdict}; {warm:.2?} against {alone:.2?}; {:.2} x when it is not ready",
            ratio(warm),
            ratio(cold)
        );
    }
}
