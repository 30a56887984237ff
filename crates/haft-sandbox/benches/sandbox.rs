//! The cost of a sandbox: `bash -c true` in one, compared with a plain start; leaks after ten thousand of them; and a
//! gigabyte of output, compared with a pipe to `wc`.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::time::{Duration, Instant};

use haft_sandbox::sandbox::{self, Layers, Limits, Output, Policy, RunEvent, Sandbox, Slot, Task};

const ROUNDS: usize = 200;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn task(folder: &Path) -> Task {
    let path = ("PATH".into(), std::env::var_os("PATH").unwrap());
    Task {
        program: "/bin/bash".into(),
        args: vec!["-c".into(), "true".into()],
        dir: folder.into(),
        env: vec![path],
        input: Vec::new(),
        reports_dir: false,
        record: None,
        view: None,
    }
}

async fn finish(slot: Slot, folder: &Path) {
    let mut running = slot.run(task(folder)).await.unwrap();
    while !matches!(running.next().await.unwrap(), RunEvent::Ended(_)) {}
}

fn main() {
    sandbox::arm();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    latency(&runtime, folder.path());
    starts(&runtime, folder.path());
    idle_sessions(&runtime, folder.path());
    large_output(&runtime, folder.path());
}

/// How long a command takes in the sandbox of a session, and the first one of a session.
fn latency(runtime: &tokio::runtime::Runtime, folder: &Path) {
    let bare = || {
        let mut command = std::process::Command::new("/bin/bash");
        command.args(["-c", "true"]).stdin(std::process::Stdio::null());
        assert!(command.status().unwrap().success());
    };
    for (name, layers, guarded, limit) in [
        ("no layers", Layers::None, &[][..], 1.25),
        ("Landlock, seccomp, limits", Layers::Few, &[], 1.5),
        ("all layers", Layers::All, &[], 2.0),
        (
            "all layers, and names guarded",
            Layers::All,
            &[".haft", ".mcp.json", ".vscode", ".idea", ".envrc"],
            2.0,
        ),
    ] {
        let guarded = guarded.iter().map(|name| folder.join(name)).collect();
        let policy = Policy { layers, guarded, write: vec![folder.to_owned()], ..Policy::default() };
        let session = Sandbox::default();
        runtime.block_on(async {
            finish(session.slot(&policy, Output::Joined).await.unwrap(), folder).await;
        });
        let (mut alone, mut warm, mut cold) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            bare();
            alone.push(start.elapsed());
            runtime.block_on(async {
                let start = Instant::now();
                finish(session.slot(&policy, Output::Joined).await.unwrap(), folder).await;
                warm.push(start.elapsed());
                let start = Instant::now();
                finish(Sandbox::default().slot(&policy, Output::Joined).await.unwrap(), folder).await;
                cold.push(start.elapsed());
            });
        }
        let (alone, warm, cold) = (median(alone), median(warm), median(cold));
        let ratio = |time: Duration| time.as_secs_f64() / alone.as_secs_f64();
        let verdict = if ratio(warm) <= limit { "ok" } else { "OVER" };
        println!(
            "{name:28} {:5.2} x (at most {limit}) {verdict}; {warm:.2?} against {alone:.2?}; {:.2} x for the first of a session",
            ratio(warm),
            ratio(cold)
        );
    }
}

/// Number of commands that are started and ended.
const STARTS: usize = 10_000;
/// Number of commands at a time.
const BATCH: usize = 20;

/// Counts of resources that must not leak.
#[derive(Debug, PartialEq, Eq)]
struct Resources {
    children: usize,
    files: usize,
    temporary: usize,
    groups: usize,
}

fn resources(folder: &Path) -> Resources {
    let entries = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let own = std::process::id();
    let mut folders = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    let mut groups = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            groups += usize::from(entry.file_name().to_string_lossy().starts_with(&format!("haft-{own}-")));
            folders.extend(entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path()));
        }
    }
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children =
        tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let children = children.map(|list| list.split_whitespace().count()).sum();
    Resources {
        children,
        files: entries("/proc/self/fd"),
        temporary: entries(&folder.to_string_lossy()),
        groups,
    }
}

/// Kilobytes of memory of this process, by a field of its status.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// Checks that many commands leak nothing.
fn starts(runtime: &tokio::runtime::Runtime, folder: &Path) {
    let policy = std::sync::Arc::new(Policy {
        write: vec![folder.to_owned()],
        guarded: [".envrc", ".vscode"].map(|name| folder.join(name)).to_vec(),
        limits: Limits::usual(),
        ..Policy::default()
    });
    let batch = |count: usize| {
        runtime.block_on(async {
            let one = |_| {
                let (policy, folder) = (policy.clone(), folder.to_owned());
                tokio::spawn(async move {
                    finish(Sandbox::default().slot(&policy, Output::Joined).await.unwrap(), &folder).await;
                })
            };
            for one in (0..count).map(one).collect::<Vec<_>>() {
                one.await.unwrap();
            }
        });
    };
    // Warm up: some resources are made once and kept.
    batch(BATCH);
    settle(folder);
    let (before, memory_before, start) = (resources(folder), memory("VmRSS"), Instant::now());
    for _ in 0..STARTS / BATCH {
        batch(BATCH);
    }
    let took = start.elapsed();
    settle(folder);
    let (after, memory_after) = (resources(folder), memory("VmRSS"));
    assert_eq!(before, after, "something is left");
    let grown = memory_after.saturating_sub(memory_before);
    let verdict = if grown <= 8 << 10 { "ok" } else { "OVER" };
    println!(
        "{STARTS} starts and ends        nothing left ({after:?}); {grown} KB more memory (at most 8192) {verdict}, \
         {memory_before} before; {:.2?} each",
        took / u32::try_from(STARTS).unwrap()
    );
}

/// Waits for the clean-up thread to remove control groups.
fn settle(folder: &Path) {
    for _ in 0..500 {
        if resources(folder).groups == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Number of sessions that wait.
const SESSIONS: usize = 1000;

/// Measures what sessions hold that have run a command and wait for another.
fn idle_sessions(runtime: &tokio::runtime::Runtime, folder: &Path) {
    let policy = Policy { write: vec![folder.to_owned()], limits: Limits::usual(), ..Policy::default() };
    let (memory_before, files_before) = (memory_of_all(), resources(folder).files);
    let sessions: Vec<Sandbox> = (0..SESSIONS).map(|_| Sandbox::default()).collect();
    runtime.block_on(async {
        for session in &sessions {
            finish(session.slot(&policy, Output::Joined).await.unwrap(), folder).await;
        }
        // Until the slots of the last one have ended, too.
        tokio::time::sleep(Duration::from_secs(32)).await;
    });
    let files = resources(folder).files.saturating_sub(files_before);
    let megabytes = memory_of_all().saturating_sub(memory_before) / 1024;
    let verdict = if megabytes <= 250 && files <= 1100 { "ok" } else { "OVER" };
    println!(
        "{SESSIONS} idle sessions         {megabytes} MB (at most 250), {files} descriptors (at most 1100) {verdict}"
    );
    drop(sessions);
    settle(folder);
}

/// Kilobytes of memory of this process and all below it, what they share divided among them.
fn memory_of_all() -> u64 {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parent = |pid: &u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.split_whitespace().nth(1)?.parse().ok()
    };
    let parents: std::collections::HashMap<u32, u32> =
        pids.iter().filter_map(|pid| Some((*pid, parent(pid)?))).collect();
    let is_own = |pid: &&u32| {
        std::iter::successors(Some(**pid), |pid| parents.get(pid).copied())
            .any(|pid| pid == std::process::id())
    };
    let share = |pid: &u32| -> Option<u64> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = maps.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").trim().parse().ok()
    };
    pids.iter().filter(is_own).filter_map(share).sum()
}

/// Measures the throughput of a gigabyte of output.
fn large_output(runtime: &tokio::runtime::Runtime, folder: &Path) {
    let sparse = folder.join("sparse");
    std::fs::File::create(&sparse).unwrap().set_len(1 << 30).unwrap();
    let real = std::path::PathBuf::from(format!("/dev/shm/haft-bench-{}", std::process::id()));
    std::io::copy(
        &mut std::io::Read::take(std::fs::File::open("/dev/urandom").unwrap(), 1 << 30),
        &mut std::fs::File::create(&real).unwrap(),
    )
    .unwrap();
    for (name, file) in [("a sparse gigabyte", &sparse), ("a gigabyte in memory", &real)] {
        let policy = Policy {
            read: vec![real.clone()],
            write: vec![folder.to_owned()],
            layers: if file == &real { Layers::Few } else { Layers::All },
            ..Policy::default()
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let memory_before = memory("VmRSS");
        for _ in 0..5 {
            let start = Instant::now();
            let piped = std::process::Command::new("/bin/bash")
                .args(["-c", &format!("cat {} | wc -c", file.display())])
                .output()
                .unwrap();
            assert_eq!(piped.stdout, format!("{}\n", 1 << 30).into_bytes());
            theirs.push(start.elapsed());
            let (total, took) = runtime.block_on(async {
                let sandbox = Sandbox::default().slot(&policy, Output::Joined).await.unwrap();
                let mut task = task(folder);
                task.args = vec!["-c".into(), format!("cat {}", file.display()).into()];
                let start = Instant::now();
                let mut running = sandbox.run(task).await.unwrap();
                let mut total = 0;
                while let RunEvent::Output(_, bytes) = running.next().await.unwrap() {
                    total += bytes.len();
                }
                (total, start.elapsed())
            });
            assert_eq!(total, 1 << 30);
            ours.push(took);
        }
        let grown = memory("VmHWM").saturating_sub(memory_before);
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        let verdict = if ratio <= 1.5 && grown <= 16 << 10 { "ok" } else { "OVER" };
        println!(
            "{name:28} {ratio:5.2} x (at most 1.5) {verdict}; {ours:.2?} against {theirs:.2?}; {grown} KB more memory \
             (at most 16384)"
        );
    }
    std::fs::remove_file(real).unwrap();
}
