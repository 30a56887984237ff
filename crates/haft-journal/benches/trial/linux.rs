//! The benchmark itself. It puts files into the upper layer by itself, as a command in the view would.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_journal::{Command, Journal, Label, Limits};
use haft_sandbox::sandbox::recorder;
use haft_sandbox::sandbox::trial::{Options, Trial};
use haft_sandbox::{Durability, Store, Workspace};

/// Numbers of changed files, and the most that committing them may take without the flushes.
const LIMITS: [(usize, Duration, usize); 3] = [
    (1, Duration::from_millis(10), 30),
    (100, Duration::from_millis(15), 15),
    (10_000, Duration::from_millis(400), 3),
];

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn fill(folder: &Path, files: usize, content: &str) {
    for number in 0..files {
        let folder = folder.join(format!("d{}", number / 100));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("f{number}")), format!("{content} {number}\n")).unwrap();
    }
}

pub(super) fn main() {
    // Kept until the end: some file systems are slow at making files just after others were deleted.
    let mut folders = Vec::new();
    for (files, limit, rounds) in LIMITS {
        let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            let taken = commit(files, Durability::Fast, &mut folders);
            for (times, taken) in times.iter_mut().zip(taken) {
                times.push(taken);
            }
            times[3].push(commit(files, Durability::Full, &mut folders).into_iter().skip(1).sum());
        }
        let [list, exchange, record, durable] = times.map(median);
        let whole = exchange + record;
        let verdict = if whole <= limit { "ok" } else { "OVER" };
        println!(
            "commit of {files:5} files {:5.2} of the limit {verdict}; {whole:.2?}, at most {limit:?}: {exchange:.2?} to exchange, \
             {record:.2?} to record; {durable:.2?} with flushes; {list:.2?} to list",
            whole.as_secs_f64() / limit.as_secs_f64(),
        );
    }
}

/// How long it takes to list, to exchange and to record.
fn commit(files: usize, durability: Durability, folders: &mut Vec<tempfile::TempDir>) -> [Duration; 3] {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = root.join("ws");
    std::fs::create_dir(&path).unwrap();
    fill(&path, files, "old");
    let workspace = Workspace::open(&path).unwrap();
    let journal = Journal::open(Store::at(root.join("state")), &workspace, Limits::default()).unwrap();
    // What was written just now is not to be flushed with the commit.
    rustix::fs::syncfs(std::fs::File::open(&root).unwrap()).unwrap();
    let options = Options {
        roots: vec![path.clone()],
        dir: path,
        store: journal.new_recording(),
        is_build_folder: Arc::new(recorder::is_build_folder),
        guarded: Vec::new(),
    };
    let trial = Trial::new(&options).unwrap();
    fill(&options.store.join("upper-0"), files, "new");
    let start = Instant::now();
    let listing = trial.list().unwrap();
    let listed = start.elapsed();
    let all: Vec<usize> = (0..listing.changes.len()).collect();
    assert_eq!(all.len(), files);
    let start = Instant::now();
    let committed = trial.commit(&listing, &all, durability).unwrap();
    let exchanged = start.elapsed();
    let id = committed.store().file_name().unwrap().to_str().unwrap();
    let command = Command { recording: id, text: "a command" };
    let label = Label { tool: "Bash", session: "bench", durability };
    let start = Instant::now();
    journal.adopt(&workspace, command, &committed.effects, label).unwrap().unwrap();
    let recorded = start.elapsed();
    folders.push(folder);
    [listed, exchanged, recorded]
}
