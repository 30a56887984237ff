//! The benchmark itself.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_sandbox::sandbox::trial::{Options, Trial};
use haft_sandbox::sandbox::{self, Layers, Output, Policy, RunEvent, Sandbox, Task, recorder};

const ROUNDS: usize = 200;
/// Most that a view may cost a command.
const LIMIT: Duration = Duration::from_millis(1);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

pub(super) fn main() {
    sandbox::arm();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for files in [0, 10_000, 100_000] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = root.join("ws");
        populate(&workspace, files);
        let policy = Policy { layers: Layers::All, write: vec![workspace.clone()], ..Policy::default() };
        let session = Sandbox::default();
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS + 1 {
            let start = Instant::now();
            runtime.block_on(run(&session, &policy, task(&workspace)));
            let alone = start.elapsed();
            let start = Instant::now();
            tried(&runtime, &session, &policy, &root.join(format!("state/{round}")));
            // The first one makes the sandbox.
            if round > 0 {
                without.push(alone);
                with.push(start.elapsed());
            }
        }
        let (without, with) = (median(without), median(with));
        let cost = with.saturating_sub(without);
        let verdict = if cost <= LIMIT { "ok" } else { "OVER" };
        println!(
            "view, {files:6} files {:6.2} of the limit {verdict}; {cost:.2?} a command, at most {LIMIT:?}; {with:.2?} against {without:.2?}",
            cost.as_secs_f64() / LIMIT.as_secs_f64(),
        );
    }
}

fn populate(workspace: &Path, files: usize) {
    std::fs::create_dir_all(workspace).unwrap();
    for number in 0..files {
        let folder = workspace.join(format!("d{}", number / 100));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("f{number}")), "x").unwrap();
    }
}

fn task(workspace: &Path) -> Task {
    let path = ("PATH".into(), std::env::var_os("PATH").unwrap());
    Task {
        program: "/bin/bash".into(),
        args: vec!["-c".into(), "true".into()],
        dir: workspace.into(),
        env: vec![path],
        input: Vec::new(),
        reports_dir: false,
        record: None,
        view: None,
    }
}

async fn run(session: &Sandbox, policy: &Policy, task: Task) {
    let slot = session.slot(policy, Output::Joined).await.unwrap();
    let mut running = slot.run(task).await.unwrap();
    while !matches!(running.next().await.unwrap(), RunEvent::Ended(_)) {}
}

/// All that a trial takes: its layers are made, its changes listed, and it is discarded.
fn tried(runtime: &tokio::runtime::Runtime, session: &Sandbox, policy: &Policy, store: &Path) {
    let workspace = &policy.write[0];
    let options = Options {
        roots: vec![workspace.clone()],
        dir: workspace.clone(),
        store: store.to_owned(),
        is_build_folder: Arc::new(recorder::is_build_folder),
        guarded: Vec::new(),
    };
    let trial = Trial::new(&options).unwrap();
    let task = Task { view: Some(trial.mounts()), ..task(workspace) };
    runtime.block_on(run(session, policy, task));
    assert!(trial.list().unwrap().changes.is_empty());
}
