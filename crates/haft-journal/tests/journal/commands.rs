//! What commands did, undone and redone like any other change.

use std::path::Path;
use std::time::Duration;

use haft_journal::{Command, EntryState, Journal, JournalError, Limits, Merged, Recorded};
use haft_sandbox::sandbox::recorder::{self, Effects, IsBuildFolder, Options};
use haft_sandbox::{Store, Workspace};
use haft_testing::{Need, require};

use crate::common::{FAST, FULL};
use crate::operations::{Random, command, populate};
use crate::recorded::{Rig, differences, tree};

struct Fixture {
    rig: Rig,
    workspace: Workspace,
    journal: Journal,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let rig = Rig::new();
        let workspace = Workspace::open(&rig.ws()).unwrap();
        let journal = Journal::open(Store::at(rig.folder.path().join("state")), &workspace, limits).unwrap();
        Self { rig, workspace, journal }
    }

    fn usual() -> Self {
        let fixture = Self::new();
        for (name, content) in [("a", "one\n"), ("b", "two\n"), ("d/x", "in d\n"), ("d/e/y", "deep\n")] {
            fixture.rig.write(name, content);
        }
        fixture
    }

    fn reopen(&self) -> Journal {
        let store = Store::at(self.rig.folder.path().join("state"));
        Journal::open(store, &self.workspace, Limits::default()).unwrap()
    }

    /// Runs a command and lists its effects, without adopting them.
    fn record(&self, command: std::process::Command) -> (String, Effects) {
        let store = self.journal.new_recording();
        let id = store.file_name().unwrap().to_str().unwrap().to_owned();
        let options = Options::new(vec![self.rig.ws()], store);
        (id, self.rig.start_with(command, options).finish())
    }

    fn run_command(&self, command: std::process::Command) -> Option<Recorded> {
        let (id, effects) = self.record(command);
        assert_eq!(effects.not_kept, []);
        let command = Command { recording: &id, text: "a command" };
        self.journal.adopt(&self.workspace, command, &effects, FAST).unwrap()
    }

    fn run(&self, script: &str) -> Recorded {
        self.run_command(self.rig.bash(script)).unwrap_or_else(|| panic!("{script}: nothing to undo"))
    }

    /// No recording and no temporary file is left.
    fn require_clean(&self) {
        haft_sandbox::sandbox::settle(Duration::from_secs(10));
        let recordings = self.rig.folder.path().join("state/recordings");
        let left: Vec<_> = std::fs::read_dir(recordings).into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        let is_temporary = |path: &Path| path.to_string_lossy().contains(".haft-");
        let left: Vec<_> = tree(&self.rig.ws()).into_keys().filter(|path| is_temporary(path)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Without modification times, which directories get anew.
fn require_same(before: &crate::recorded::Tree, after: &crate::recorded::Tree, what: &str) {
    assert_eq!(differences(before, after), Vec::<String>::new(), "{what}");
}

#[test]
fn a_command_is_undone_and_redone() {
    if !require(Need::Bash) {
        return;
    }
    for script in [
        "echo more >> a; rm b",
        "rm -r d",
        "mv a c; mv d f; echo more >> f/x; rm f/e/y; echo new > f/e/z",
        "mkdir n && mv a n/ && mv d n/",
        "mv a t; mv b a; mv t b",
        "mv d t; mkdir d; mv t d/t",
        "rm -r d && mkdir d && echo other > d/x",
        "rm -r d && echo file > d; rm a && mkdir a && echo in > a/f",
        "chmod 700 a; chmod 711 d; chmod 500 d/e",
        "chmod 700 d/e; rm d/e/y; chmod 500 d/e",
        "mv d/e e; rm -r d; mv e/y a; rmdir e",
        "ln -s a l; mkdir -p p/q; echo 1 > p/q/r; head -c 3000000 /dev/zero > big",
        "mv d/e/y y; rm -r d; mkdir -p d/e; mv y d/e/z",
    ] {
        let fixture = Fixture::usual();
        let before = tree(&fixture.rig.ws());
        let number = fixture.run(script).number;
        let after = tree(&fixture.rig.ws());
        let mut dry_run = fixture.journal.dry_run(&fixture.workspace);
        dry_run.undo(number, &Merged::new()).unwrap_or_else(|error| panic!("{script}: {error}"));
        let undo = |journal: &Journal| {
            let undone = journal.undo(&fixture.workspace, &[number], FAST);
            undone.unwrap_or_else(|error| panic!("{script}: {error}"));
            require_same(&before, &tree(&fixture.rig.ws()), script);
        };
        let redo = |journal: &Journal| {
            let redone = journal.redo(&fixture.workspace, &[number], FULL);
            redone.unwrap_or_else(|error| panic!("{script}: {error}"));
            require_same(&after, &tree(&fixture.rig.ws()), script);
        };
        undo(&fixture.journal);
        redo(&fixture.journal);
        // The same in another process.
        undo(&fixture.reopen());
        redo(&fixture.reopen());
        undo(&fixture.journal);
        fixture.require_clean();
    }
}

#[test]
fn history_tells_the_command_and_what_it_changed() {
    if !require(Need::Bash) {
        return;
    }
    let fixture = Fixture::usual();
    let number = fixture.run("mkdir n; mv a n/a; echo more >> b").number;
    let entry = fixture.journal.entry(number).unwrap();
    assert_eq!((entry.command.as_deref(), entry.state), (Some("a command"), EntryState::Done));
    let mut touched: Vec<_> =
        entry.touched.iter().map(|touched| touched.path.strip_prefix(fixture.rig.ws()).unwrap()).collect();
    touched.sort();
    let expected: Vec<&Path> = ["a", "b", "n", "n/a"].map(Path::new).to_vec();
    assert_eq!(touched, expected, "{entry:#?}");
}

#[test]
fn a_command_that_changed_nothing_makes_no_entry() {
    if !require(Need::Bash) {
        return;
    }
    let fixture = Fixture::usual();
    assert!(fixture.run_command(fixture.rig.bash("cat a > /dev/null; echo x > t; rm t; touch a")).is_none());
    assert_eq!(fixture.journal.history(5).unwrap(), []);
    fixture.require_clean();
}

#[test]
fn what_changed_since_is_a_conflict_and_nothing_is_touched() {
    if !require(Need::Bash) {
        return;
    }
    for (script, then) in [
        ("echo more >> a; rm b; mv d f", "echo since >> a"),
        ("echo more >> a; rm b; mv d f", "echo since > b"),
        ("echo more >> a; rm b; mv d f", "mkdir d"),
        ("mkdir n; echo 1 > n/f; rm b", "echo since > n/g"),
        ("rm -r d; echo more >> a", "mkdir d"),
        ("mv d t; mkdir d; mv t d/t; rm a", "rm -r d/t"),
        ("chmod 700 a; rm b", "chmod 600 a"),
    ] {
        let fixture = Fixture::usual();
        let number = fixture.run(script).number;
        assert!(fixture.rig.bash(then).current_dir(fixture.rig.ws()).status().unwrap().success());
        let now = tree(&fixture.rig.ws());
        let error = fixture.journal.undo(&fixture.workspace, &[number], FAST).unwrap_err();
        assert!(matches!(error, JournalError::Conflict(_) | JournalError::Change(_)), "{script}: {error}");
        require_same(&now, &tree(&fixture.rig.ws()), script);
    }
}

#[test]
fn edits_and_commands_are_undone_together() {
    if !require(Need::Bash) {
        return;
    }
    let fixture = Fixture::usual();
    let before = tree(&fixture.rig.ws());
    let first = fixture.run("echo by command >> a").number;
    let second = fixture.run("mv a c; echo again >> c").number;
    let third = fixture.run("mkdir z; mv c z/c").number;
    fixture.journal.undo(&fixture.workspace, &[first, second, third], FAST).unwrap();
    require_same(&before, &tree(&fixture.rig.ws()), "three commands");
}

#[test]
fn hard_links_are_links_again_after_undo() {
    if !require(Need::Bash) {
        return;
    }
    for script in ["echo more >> a", "rm a", "rm a c", "echo more >> a; rm c", "echo new > t; mv t a"] {
        let fixture = Fixture::usual();
        std::fs::hard_link(fixture.rig.ws().join("a"), fixture.rig.ws().join("c")).unwrap();
        let before = tree(&fixture.rig.ws());
        let number = fixture.run(script).number;
        fixture.journal.undo(&fixture.workspace, &[number], FAST).unwrap();
        require_same(&before, &tree(&fixture.rig.ws()), script);
    }
}

#[test]
fn random_operations_are_undone_redone_and_undone() {
    for seed in 1..40 {
        let fixture = Fixture::new();
        populate(&fixture.rig.ws(), &mut Random((seed * 31) | 1));
        let before = tree(&fixture.rig.ws());
        let Some(recorded) = fixture.run_command(command(seed, 1, 50)) else { continue };
        let after = tree(&fixture.rig.ws());
        assert_eq!(recorded.notes, Vec::<String>::new(), "seed {seed}");
        let undo = |what: &str| {
            let undone = fixture.journal.undo(&fixture.workspace, &[recorded.number], FAST);
            undone.unwrap_or_else(|error| panic!("seed {seed} {what}: {error}"));
            require_same(&before, &tree(&fixture.rig.ws()), &format!("seed {seed} {what}"));
        };
        undo("undo");
        let redone = fixture.journal.redo(&fixture.workspace, &[recorded.number], FAST);
        redone.unwrap_or_else(|error| {
            panic!("seed {seed}: {error}\n{:#?}", fixture.journal.entry(recorded.number).unwrap().touched)
        });
        let strip = |tree: &crate::recorded::Tree| -> crate::recorded::Tree {
            // Hard links that the command made become files of their own.
            let text = |text: &String| text.split(" = ").next().unwrap_or_default().to_owned();
            tree.iter().map(|(path, entry)| (path.clone(), text(entry))).collect()
        };
        require_same(&strip(&after), &strip(&tree(&fixture.rig.ws())), &format!("seed {seed} redo"));
        undo("undo again");
        fixture.require_clean();
    }
}

#[test]
fn a_recording_whose_process_died_is_adopted_later() {
    if !require(Need::Bash) {
        return;
    }
    let fixture = Fixture::usual();
    let before = tree(&fixture.rig.ws());
    let (_, effects) = fixture.record(fixture.rig.bash("rm -r d; echo more >> a; mv b c"));
    assert_eq!(effects.list.len(), 3);
    let is_build: IsBuildFolder = std::sync::Arc::new(recorder::is_build_folder);
    let journal = fixture.reopen();
    let early = journal.adopt_interrupted(&fixture.workspace, &is_build, FULL).unwrap();
    assert!(early.is_empty(), "a recording in use is left alone");
    let list = effects.list.clone();
    drop(effects);
    let adopted = journal.adopt_interrupted(&fixture.workspace, &is_build, FULL).unwrap();
    assert_eq!(adopted.len(), 1);
    assert_eq!(adopted[0].1.list, list);
    assert!(journal.adopt_interrupted(&fixture.workspace, &is_build, FULL).unwrap().is_empty());
    journal.undo(&fixture.workspace, &[adopted[0].0.number], FULL).unwrap();
    require_same(&before, &tree(&fixture.rig.ws()), "interrupted");
    fixture.require_clean();
}

#[test]
fn a_recording_that_was_adopted_is_not_adopted_again() {
    if !require(Need::Bash) {
        return;
    }
    let fixture = Fixture::usual();
    let (id, effects) = fixture.record(fixture.rig.bash("rm a"));
    let command = Command { recording: &id, text: "rm a" };
    assert!(fixture.journal.adopt(&fixture.workspace, command, &effects, FAST).unwrap().is_some());
    assert!(fixture.journal.adopt(&fixture.workspace, command, &effects, FAST).unwrap().is_none());
    assert_eq!(fixture.journal.history(5).unwrap().len(), 1);
}

#[test]
fn many_files_are_undone() {
    if !require(Need::Bash) {
        return;
    }
    let fixture = Fixture::new();
    for number in 0..1000 {
        fixture.rig.write(&format!("d{}/f{number}", number % 20), &format!("content {number}\n"));
    }
    let before = tree(&fixture.rig.ws());
    let number = fixture.run("for f in d*/f*; do echo more >> $f; done; rm -r d1 d2; mkdir n; for i in {1..200}; do echo $i > n/$i; done").number;
    fixture.journal.undo(&fixture.workspace, &[number], FULL).unwrap();
    require_same(&before, &tree(&fixture.rig.ws()), "many");
}

#[test]
fn old_sides_count_towards_the_limits_of_the_journal() {
    if !require(Need::Bash) {
        return;
    }
    let limits = Limits { bytes: 8 << 20, ..Limits::default() };
    let fixture = Fixture::with(limits);
    for _ in 0..12 {
        fixture
            .rig
            .bash("head -c 1500000 /dev/urandom > big")
            .current_dir(fixture.rig.ws())
            .status()
            .unwrap();
        fixture.run("rm big");
    }
    let blobs = fixture.rig.folder.path().join("state/blobs");
    let kept: u64 =
        std::fs::read_dir(blobs).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!((1 << 20..12 << 20).contains(&kept), "{kept}");
    let entries = fixture.journal.history(20).unwrap();
    fixture.journal.undo(&fixture.workspace, &[entries[0].number], FAST).unwrap();
    assert_eq!(std::fs::metadata(fixture.rig.ws().join("big")).unwrap().len(), 1_500_000);
}

const BASE: &str = "HAFT_TEST_COMMAND_BASE";
const NESTED: &str =
    "mv d t; mkdir d; mv t d/t; rm a; echo more >> b; mkdir n; echo 1 > n/f; chmod 700 b; mv d/t/e n/e";

fn open_at(base: &Path) -> (Workspace, Journal) {
    let workspace = Workspace::open(&base.join("ws")).unwrap();
    let journal = Journal::open(Store::at(base.join("state")), &workspace, Limits::default()).unwrap();
    (workspace, journal)
}

/// What the process does that is killed at each system call in turn.
fn adopt_undo_redo(base: &Path) {
    let (workspace, journal) = open_at(base);
    let is_build: IsBuildFolder = std::sync::Arc::new(recorder::is_build_folder);
    println!("ready");
    let adopted = journal.adopt_interrupted(&workspace, &is_build, FULL).unwrap();
    let number = adopted[0].0.number;
    journal.undo(&workspace, &[number], FULL).unwrap();
    journal.redo(&workspace, &[number], FULL).unwrap();
    println!("finished");
}

/// A process of this test program that runs one test, by way of `wrapper`.
fn worker(test: &str, base: &Path, wrapper: &[&str]) -> std::process::Command {
    let own = std::env::current_exe().unwrap();
    let program = wrapper.first().map_or_else(|| own.clone().into_os_string(), |first| (*first).into());
    let mut command = std::process::Command::new(program);
    if !wrapper.is_empty() {
        command.args(&wrapper[1..]).arg(own);
    }
    command.args(["--exact", test, "--nocapture", "-q"]).env(BASE, base);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    command
}

#[test]
fn killed_at_each_call_a_command_is_adopted_once_and_whole() {
    const NAME: &str = "commands::killed_at_each_call_a_command_is_adopted_once_and_whole";
    if let Some(base) = std::env::var_os(BASE) {
        return adopt_undo_redo(Path::new(&base));
    }
    if !require(Need::Strace) || !require(Need::Bash) {
        return;
    }
    let each = std::env::var_os("HAFT_TEST_EACH_CALL").is_some();
    let is_build: IsBuildFolder = std::sync::Arc::new(recorder::is_build_folder);
    for (call, step) in [
        ("linkat,renameat2,unlinkat,unlink,mkdirat,link,rename", 3),
        ("pwrite64,write,fsync,fdatasync,syncfs", 7),
    ] {
        let mut hits = 0;
        for when in (1..400).step_by(if each { 1 } else { step }) {
            let fixture = Fixture::usual();
            let before = tree(&fixture.rig.ws());
            fixture.record(fixture.rig.bash(NESTED));
            let after = tree(&fixture.rig.ws());
            let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={when}"));
            let base = fixture.rig.folder.path();
            let log = base.join("strace");
            let wrapper = ["strace", "-f", "-qq", "-o", log.to_str().unwrap(), "-e", &trace, "-e", &inject];
            let output = worker(NAME, base, &wrapper).output().unwrap();
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            let context = format!("{inject}: {output}");
            let (workspace, journal) = open_at(base);
            journal.adopt_interrupted(&workspace, &is_build, FULL).unwrap();
            let entries = journal.history(20).unwrap();
            let adopted: Vec<_> = entries.iter().filter(|entry| entry.command.is_some()).collect();
            assert_eq!(adopted.len(), 1, "{context}");
            let number = adopted[0].number;
            let expected = match adopted[0].state {
                EntryState::Done => &after,
                EntryState::Undone(_) => &before,
                state => panic!("{context}: {state:?}"),
            };
            require_same(expected, &tree(&fixture.rig.ws()), &context);
            if adopted[0].state == EntryState::Done {
                journal
                    .undo(&workspace, &[number], FULL)
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
            }
            require_same(&before, &tree(&fixture.rig.ws()), &context);
            fixture.require_clean();
            if output.contains("finished") {
                break;
            }
            hits += 1;
        }
        assert!(hits > 3, "{call}");
    }
}

/// What the process does that is killed while a command runs.
fn record_for_long(base: &Path) {
    let (_, journal) = open_at(base);
    let script = "echo started; for i in {1..400}; do echo $i >> a; mv b c; mv c b; echo $i > d/$i; rm -f d/x; mv d/e d/f; mv d/f d/e; done 2>/dev/null";
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script]).current_dir(base.join("ws"));
    let (mut child, listener) = crate::recorded::spawn(command, crate::recorded::Namespaces::Shared).unwrap();
    let options = Options::new(vec![base.join("ws")], journal.new_recording());
    let _recorder = recorder::Recorder::start(listener, options).unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_while_a_command_runs_what_it_did_is_adopted_and_undone() {
    const NAME: &str = "commands::killed_while_a_command_runs_what_it_did_is_adopted_and_undone";
    if let Some(base) = std::env::var_os(BASE) {
        return record_for_long(Path::new(&base));
    }
    if !require(Need::Bash) {
        return;
    }
    for delay in [1, 4, 9, 20, 35, 60] {
        let fixture = Fixture::usual();
        let before = tree(&fixture.rig.ws());
        let base = fixture.rig.folder.path().canonicalize().unwrap();
        let mut child = worker(NAME, &base, &[]).spawn().unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("started") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0, "it never started");
        }
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        // At the end of its output the command has ended, too: without a recorder its calls fail.
        std::io::Read::read_to_string(&mut output, &mut line).unwrap();
        let journal = fixture.reopen();
        let is_build: IsBuildFolder = std::sync::Arc::new(recorder::is_build_folder);
        let adopted = journal.adopt_interrupted(&fixture.workspace, &is_build, FULL).unwrap();
        for (recorded, effects) in &adopted {
            assert_eq!(effects.not_kept, []);
            journal.undo(&fixture.workspace, &[recorded.number], FULL).unwrap();
        }
        require_same(&before, &tree(&fixture.rig.ws()), &format!("killed after {delay} ms"));
        fixture.require_clean();
    }
}
