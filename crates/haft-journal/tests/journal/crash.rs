//! Processes that are killed in the middle of changes. The test binary starts itself as the process that
//! dies; strace, where there is one, kills it at one system call after the other or makes that call fail.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use haft_journal::{Change, Content, Depth, EntryState, Journal, Limits, Merged, Overwrite, Replaced, Side};
use haft_sandbox::{AbsPath, Expect, Hash, Store, Workspace};
use haft_testing::{Need, missing, require};

use crate::common::{FAST, FULL, leftovers, snapshot};

const BASE: &str = "HAFT_TEST_CRASH_BASE";
const SEED: &str = "HAFT_TEST_CRASH_SEED";
const FILES: [&str; 6] = ["a", "b", "d/a", "d/e/b", "x/y/z", "big"];

/// Numbers that look random and can be had again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn open(base: &Path) -> (Workspace, Journal) {
    let workspace = Workspace::open(&base.join("ws")).unwrap();
    let journal = Journal::open(Store::at(base.join("state")), &workspace, Limits::default()).unwrap();
    (workspace, journal)
}

fn place(workspace: &Workspace, name: &str) -> AbsPath {
    AbsPath::lexical(&workspace.root().as_path().join(name))
}

/// Content that shows whether it is whole. Of large content there is little to choose from, so that some of
/// it comes where it is already.
fn whole(dice: &mut Dice) -> Vec<u8> {
    let (size, choice) = if dice.roll(8) == 0 { (300_000, 2) } else { (dice.roll(3000), 26) };
    let byte = u8::try_from(b'a' as u64 + dice.roll(choice)).unwrap();
    let body = vec![byte; usize::try_from(size).unwrap()];
    [Hash::of(&body).to_string().as_bytes(), &body].concat()
}

fn is_whole(content: &[u8]) -> bool {
    content.len() >= 64 && content[..64] == *Hash::of(&content[64..]).to_string().as_bytes()
}

fn random_change(workspace: &Workspace, dice: &mut Dice) -> Vec<Change> {
    let file = |dice: &mut Dice| place(workspace, FILES[usize::try_from(dice.roll(6)).unwrap()]);
    let path = file(dice);
    match dice.roll(10) {
        0..5 => vec![Change::Write {
            path,
            content: whole(dice).into(),
            expect: Expect::Anything,
            replaced: None,
        }],
        5 => vec![Change::Delete { path, expect: Expect::Anything, depth: Depth::Tree }],
        6 => {
            vec![Change::Delete { path: place(workspace, "d"), expect: Expect::Anything, depth: Depth::Tree }]
        }
        7 => {
            let overwrite = Overwrite::Replace(Expect::Anything);
            vec![Change::Move { from: path, to: file(dice), overwrite }]
        }
        8 => vec![Change::Mode { path, mode: 0o600 | u32::try_from(dice.roll(64)).unwrap() }],
        _ => {
            let write = |name, dice: &mut Dice| {
                let path = place(workspace, name);
                Change::Write { path, content: whole(dice).into(), expect: Expect::Anything, replaced: None }
            };
            vec![write("group/1", dice), write("a", dice), write("group/2", dice)]
        }
    }
}

/// What the process does that is killed: changes at random until the end.
fn change_at_random(base: &Path) -> ! {
    let mut dice = Dice(std::env::var(SEED).unwrap().parse().unwrap());
    let (workspace, journal) = open(base);
    println!("ready");
    loop {
        let label = if dice.roll(4) == 0 { FULL } else { FAST };
        let _ = match dice.roll(8) {
            0 => match journal.latest(1, None).unwrap().first().copied() {
                Some(number) => journal.undo(&workspace, &[number], label).map(drop),
                None => Ok(()),
            },
            _ => journal.change_all(&workspace, random_change(&workspace, &mut dice), label).map(drop),
        };
    }
}

/// Starts this program anew, for one test, which finds by [`BASE`] that it is the process to be killed.
fn start(test: &str, base: &Path, seed: u64, wrapper: &[String]) -> Child {
    let binary = std::env::current_exe().unwrap();
    let mut command = match wrapper.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(binary);
            command
        }
        None => Command::new(binary),
    };
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(BASE, base).env(SEED, seed.to_string()).env("RUST_BACKTRACE", "0");
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn fresh() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    std::fs::create_dir(base.path().join("ws")).unwrap();
    base
}

/// Everything that must hold after a crash.
fn check(base: &Path, context: &str) {
    let root = base.join("ws");
    let (workspace, journal) = open(base);
    assert_eq!(leftovers(&root), Vec::<PathBuf>::new(), "{context}");
    let files = || -> BTreeMap<PathBuf, Vec<u8>> {
        let paths = snapshot(&root).into_keys().map(|path| root.join(path)).filter(|path| path.is_file());
        paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    };
    for (path, content) in files() {
        assert!(is_whole(&content), "{context}: {} is neither old nor new", path.display());
    }
    let history = journal.history(usize::MAX).unwrap();
    let unsettled = |state| matches!(state, EntryState::Open | EntryState::External);
    assert!(history.iter().all(|entry| !unsettled(entry.state)), "{context}: {history:?}");
    // What the latest change of each place left is there.
    let mut seen = std::collections::BTreeSet::new();
    for entry in history.iter().filter(|entry| entry.state != EntryState::NotApplied) {
        let places: Vec<PathBuf> = entry.touched.iter().map(|touched| touched.path.clone()).collect();
        let after = journal.content(&workspace, entry.number, Side::After).unwrap();
        for (path, content) in after {
            if !seen.iter().any(|other: &PathBuf| other.starts_with(&path) || path.starts_with(other)) {
                assert_eq!(
                    std::fs::read(&path).ok(),
                    content,
                    "{context}: {} after {}",
                    path.display(),
                    entry.number
                );
            }
        }
        seen.extend(places);
    }
    // The latest change can be undone and redone.
    if let Some(number) = journal.latest(1, None).unwrap().first().copied() {
        let before = snapshot(&root);
        journal.undo(&workspace, &[number], FAST).unwrap_or_else(|error| panic!("{context}: {error}"));
        journal.redo(&workspace, &[number], FAST).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(snapshot(&root), before, "{context}");
    }
    assert!(journal.take_notes().iter().all(|note| !note.contains("damaged") || note.contains("cut off")));
}

#[test]
fn killed_at_any_moment_every_file_is_old_or_new() {
    if let Some(base) = std::env::var_os(BASE) {
        change_at_random(Path::new(&base));
    }
    let mut dice = Dice(0x5eed);
    for folder in 0..10 {
        let base = fresh();
        for round in 0..32 {
            let seed = dice.roll(u64::from(u32::MAX));
            let mut child =
                start("crash::killed_at_any_moment_every_file_is_old_or_new", base.path(), seed, &[]);
            let output = BufReader::new(child.stdout.take().unwrap());
            assert!(output.lines().any(|line| line.unwrap().contains("ready")));
            std::thread::sleep(Duration::from_micros(dice.roll(12_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            check(base.path(), &format!("folder {folder}, round {round}, seed {seed}"));
        }
    }
}

const HUGE: usize = 50 << 20;
/// Where a number stands in the huge file: in all of these places the same one.
const MARKS: [usize; 5] = [0, 1 << 20, HUGE / 2, HUGE - (3 << 20), HUGE - 8];

/// Files of more than a megabyte are kept as what differs.
fn open_huge(base: &Path) -> (Workspace, Journal) {
    let limits = Limits { file: 1 << 20, ..Limits::default() };
    let workspace = Workspace::open(&base.join("ws")).unwrap();
    let journal = Journal::open(Store::at(base.join("state")), &workspace, limits).unwrap();
    (workspace, journal)
}

/// Edits the huge file, and takes edits back, until the end.
fn edit_at_random(base: &Path) -> ! {
    let mut dice = Dice(std::env::var(SEED).unwrap().parse().unwrap());
    let (workspace, journal) = open_huge(base);
    let path = place(&workspace, "huge");
    let mut before = Bytes::from(std::fs::read(&path).unwrap());
    let mut hash = Hash::of(&before);
    println!("ready");
    loop {
        let undone = match dice.roll(4) {
            0 => journal.latest(1, None).unwrap().first().copied(),
            _ => None,
        };
        if let Some(number) = undone {
            journal.undo(&workspace, &[number], FAST).unwrap();
            before = std::fs::read(&path).unwrap().into();
            hash = Hash::of(&before);
            continue;
        }
        let mark = Bytes::copy_from_slice(format!("{:08}", dice.roll(99_999_999)).as_bytes());
        let splices = MARKS.map(|at| (at..at + 8, mark.clone()));
        let content = Content::spliced(&before, splices.into());
        let (after, expect) = (content.clone(), Expect::Content(hash));
        let replaced =
            Replaced { content: before, stamp: workspace.stat(&path).unwrap().stamp, settled: false };
        let label = if dice.roll(8) == 0 { FULL } else { FAST };
        let write = Change::Write { path: path.clone(), content, expect, replaced: Some(replaced) };
        journal.change(&workspace, write, label).unwrap();
        (before, hash) = (after.whole(), after.hash());
    }
}

#[test]
fn a_huge_file_is_old_or_new_whenever_its_writer_is_killed() {
    if let Some(base) = std::env::var_os(BASE) {
        edit_at_random(Path::new(&base));
    }
    // Two at a time, each with a file of its own.
    std::thread::scope(|scope| {
        for seed in [50, 51] {
            scope.spawn(move || kill_writers(Dice(seed), 50));
        }
    });
}

fn kill_writers(mut dice: Dice, rounds: u32) {
    // Being killed is the same in memory, where as many bytes are written sooner.
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    std::fs::create_dir(base.path().join("ws")).unwrap();
    let huge = base.path().join("ws/huge");
    let mut plain = vec![b'.'; HUGE];
    MARKS.iter().for_each(|at| plain[*at..at + 8].fill(b'0'));
    std::fs::write(&huge, &plain).unwrap();
    for round in 0..rounds {
        let seed = dice.roll(u64::from(u32::MAX));
        let name = "crash::a_huge_file_is_old_or_new_whenever_its_writer_is_killed";
        let mut child = start(name, base.path(), seed, &[]);
        let output = BufReader::new(child.stdout.take().unwrap());
        assert!(output.lines().any(|line| line.unwrap().contains("ready")), "round {round}, seed {seed}");
        std::thread::sleep(Duration::from_micros(dice.roll(150_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let context = format!("round {round}, seed {seed}");
        let (workspace, journal) = open_huge(base.path());
        assert_eq!(std::fs::read_dir(base.path().join("ws")).unwrap().count(), 1, "{context}");
        let now = std::fs::read(&huge).unwrap();
        assert!(MARKS.iter().all(|at| now[*at..at + 8] == now[..8]), "{context}: half of it is new");
        let ends = MARKS[1..].iter().copied().chain([HUGE]);
        let same = |(at, end): (&usize, usize)| now[at + 8..end] == plain[at + 8..end];
        assert!(
            now.len() == HUGE && MARKS.iter().zip(ends).all(same),
            "{context}: it is neither old nor new"
        );
        let history = journal.history(40).unwrap();
        let unsettled = |state| matches!(state, EntryState::Open | EntryState::External);
        assert!(history.iter().all(|entry| !unsettled(entry.state)), "{context}: {history:?}");
        let Some(last) = history.iter().find(|entry| entry.state != EntryState::NotApplied) else { continue };
        let agrees = journal.dry_run(&workspace).undo(last.number, &Merged::new());
        assert!(agrees.is_ok(), "{context}: the journal says otherwise: {agrees:?}");
    }
    let (workspace, journal) = open_huge(base.path());
    let edits = journal.latest(3, None).unwrap();
    assert!(!edits.is_empty(), "the writer came to nothing");
    journal.undo(&workspace, &edits, FAST).unwrap();
    let now = std::fs::read(&huge).unwrap();
    assert!(MARKS.iter().all(|at| now[*at..at + 8] == now[..8]));
}

/// What the process does that is killed or made to fail at each system call in turn: one change of every kind.
fn change_step_by_step(base: &Path) {
    let (workspace, journal) = open(base);
    let mut dice = Dice(7);
    let mut write = |name: &str| {
        let content = whole(&mut dice);
        Change::Write {
            path: place(&workspace, name),
            content: content.into(),
            expect: Expect::Anything,
            replaced: None,
        }
    };
    let moved = |from: &str, to: &str, overwrite| Change::Move {
        from: place(&workspace, from),
        to: place(&workspace, to),
        overwrite,
    };
    let delete = |name: &str| Change::Delete {
        path: place(&workspace, name),
        expect: Expect::Anything,
        depth: Depth::Tree,
    };
    let groups = vec![
        vec![write("a")],
        vec![write("t/u/b")],
        vec![write("a"), write("g/1"), write("t/u/b")],
        vec![moved("a", "t/u/b", Overwrite::Replace(Expect::Anything))],
        vec![moved("t", "s", Overwrite::Refuse)],
        vec![Change::Mode { path: place(&workspace, "g/1"), mode: 0o640 }],
        vec![delete("s")],
        vec![delete("g/1")],
    ];
    println!("ready");
    for group in groups {
        let number = journal.change_all(&workspace, group, FULL).map(|recorded| recorded.number);
        if let Ok(number) = number {
            let _ = journal.undo(&workspace, &[number], FULL);
            let _ = journal.redo(&workspace, &[number], FULL);
        }
    }
    println!("finished");
}

/// Runs the worker with something done to it at the n-th call of a kind; gives whether that call came.
fn run_step(call: &str, when: u32, what: &str) -> Option<bool> {
    let base = fresh();
    let log = base.path().join("strace");
    let inject = format!("inject={call}:{what}:when={when}");
    let wrapper =
        ["strace", "-f", "-qq", "-o", log.to_str().unwrap(), "-e", &format!("trace={call}"), "-e", &inject];
    let wrapper: Vec<String> = wrapper.into_iter().map(str::to_owned).collect();
    let mut child =
        start("crash::killed_at_each_call_that_changes_a_name_the_rest_is_settled", base.path(), 0, &wrapper);
    let output = BufReader::new(child.stdout.take().unwrap());
    let lines: Vec<String> = output.lines().map_while(Result::ok).collect();
    child.wait().unwrap();
    let trace = std::fs::read_to_string(&log).unwrap_or_default();
    if !trace.contains(call) && lines.is_empty() {
        return None;
    }
    if lines.iter().any(|line| line.contains("ready")) {
        check(base.path(), &inject);
    }
    Some(trace.contains("INJECTED") || trace.contains("killed by"))
}

/// Whether strace is installed and this user may trace a process.
fn has_strace() -> bool {
    if !require(Need::Strace) {
        return false;
    }
    let mut strace = Command::new("strace");
    let works =
        strace.args(["-f", "-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success());
    if !works {
        missing(Need::Strace, "`strace` may not trace processes");
    }
    works
}

/// Does something at every so many calls; at each one if the environment asks for that.
fn at_each_call(calls: &[&str], what: &str, step: usize) {
    if let Some(base) = std::env::var_os(BASE) {
        return change_step_by_step(Path::new(&base));
    }
    if !has_strace() {
        return;
    }
    let step = if std::env::var_os("HAFT_TEST_EACH_CALL").is_some() { 1 } else { step };
    for call in calls {
        let mut hits = 0;
        for when in (1..400).step_by(step) {
            match run_step(call, when, what) {
                Some(true) => hits += 1,
                _ => break,
            }
        }
        assert!(hits > 0, "{call} was never reached");
    }
}

#[test]
fn killed_at_each_call_that_changes_a_name_the_rest_is_settled() {
    at_each_call(&["renameat2", "unlinkat", "mkdirat"], "signal=KILL", 2);
}

#[test]
fn killed_at_each_write_or_sync_the_rest_is_settled() {
    at_each_call(&["fsync", "fdatasync", "sync_file_range", "pwrite64", "write"], "signal=KILL", 9);
}

#[test]
fn a_call_that_fails_leaves_everything_old_or_new() {
    at_each_call(&["fsync", "fdatasync", "sync_file_range", "renameat2"], "error=EIO", 5);
    at_each_call(&["pwrite64", "write", "mkdirat"], "error=ENOSPC", 11);
}

/// However slow the disk: the record and the new file are durable before the rename, and the rename is durable before the
/// change is reported.
#[test]
fn nothing_takes_its_place_before_it_and_its_record_are_on_disk() {
    const CHANGES: u8 = 40;
    if let Some(base) = std::env::var_os(BASE) {
        let (workspace, journal) = open(Path::new(&base));
        for change in 0..CHANGES {
            let (path, content) = (place(&workspace, "a"), vec![change; 3000].into());
            let write = Change::Write { path, content, expect: Expect::Anything, replaced: None };
            journal.change(&workspace, write, FULL).unwrap();
        }
        return;
    }
    if !has_strace() {
        return;
    }
    let base = fresh();
    let log = base.path().join("strace");
    let wrapper = ["strace", "-f", "--seccomp-bpf", "-o", log.to_str().unwrap()].map(str::to_owned);
    let wrapper = [
        &wrapper[..],
        &["-e".to_owned(), "trace=fsync,fdatasync,sync_file_range,renameat2,unlinkat".to_owned()],
    ]
    .concat();
    let test = "crash::nothing_takes_its_place_before_it_and_its_record_are_on_disk";
    assert!(start(test, base.path(), 0, &wrapper).wait().unwrap().success());
    let mut seen = String::new();
    for line in std::fs::read_to_string(&log).unwrap().lines() {
        let is_done = line.ends_with("= 0");
        if line.contains("RENAME_EXCHANGE") {
            seen.push('|');
        } else if line.contains("unlinkat") {
            seen.push('u');
        } else if is_done && (line.contains("fdatasync") || line.contains("SYNC_FILE_RANGE_WAIT_AFTER")) {
            seen.push(if line.contains("fdatasync") { 'r' } else { 'h' });
        } else if is_done && line.contains("fsync") {
            seen.push('f');
        }
    }
    // The first change makes the file.
    let between: Vec<&str> = seen.split('|').skip(1).collect();
    let (last, between) = between.split_last().unwrap();
    assert_eq!(between.len(), usize::from(CHANGES) - 2, "{seen}");
    // A record that is only handed to the device is there when the file is that is synced after it.
    assert!(between.iter().all(|calls| ["ufrf", "ufhf"].contains(calls)), "{seen}");
    let is_ext = rustix::fs::statfs(base.path()).unwrap().f_type == 0xef53;
    assert_eq!(
        between.iter().filter(|calls| **calls == "ufhf").count(),
        if is_ext { between.len() } else { 0 }
    );
    assert_eq!(*last, "uf", "{seen}");
}
