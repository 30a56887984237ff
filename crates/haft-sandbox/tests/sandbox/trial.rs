//! Commands that are tried: on a view of the workspace, whose changes are listed and committed or discarded.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haft_sandbox::Durability;
use haft_sandbox::sandbox::recorder;
use haft_sandbox::sandbox::trial::{
    self, ChangeKind, CommitError, Committed, Listing, Obstacle, Options, Recovered, Trial, obstacle,
};
use haft_sandbox::sandbox::{Policy, Sandbox, Task};
use haft_testing::{Need, require};

use crate::{Done, Rig, Test, ends_soon, soon, tests};

pub(crate) const VIEW_TESTS: &[(&str, Test)] = tests![
    nothing_counts_until_it_is_committed,
    every_kind_of_change_is_listed_and_committed,
    what_is_not_chosen_is_not_committed,
    copies_and_directories_made_anew_are_no_changes,
    a_new_time_is_a_change,
    nothing_of_the_overlay_is_left_in_files,
    kinds_that_replace_each_other,
    directories_cannot_be_renamed,
    guards_hold_in_the_view,
    a_new_repository_is_disarmed,
    build_folders_are_shared,
    changes_of_others_are_conflicts,
    a_change_just_before_is_no_conflict,
    a_commit_that_fails_is_taken_back,
    odd_names_and_long_paths,
    directories_without_rights,
    links_are_listed_with_their_targets,
    a_database_is_tried,
    a_git_script_is_tried_and_committed_as_if_it_had_run,
    killed_at_each_call_a_commit_is_whole_or_not_at_all,
    killed_in_the_view_nothing_is_left,
    layers_on_another_mount_lie_in_the_workspace,
    mounts_below_are_known_beforehand,
    a_full_disk_in_the_view_changes_nothing,
    many_files_are_committed,
];

struct Tried {
    trial: Trial,
    listing: Listing,
    done: Done,
}

impl Tried {
    fn summary(&self) -> Vec<String> {
        summary(&self.listing)
    }

    fn commit(self) -> Result<Committed, CommitError> {
        let all: Vec<usize> = (0..self.listing.changes.len()).collect();
        self.trial.commit(&self.listing, &all, Durability::Fast)
    }

    fn choose(self, wanted: impl Fn(&Path) -> bool) -> Result<Committed, CommitError> {
        let changes = self.listing.changes.iter().enumerate();
        let chosen: Vec<usize> =
            changes.filter(|(_, change)| wanted(&change.path)).map(|(number, _)| number).collect();
        self.trial.commit(&self.listing, &chosen, Durability::Full)
    }
}

fn summary(listing: &Listing) -> Vec<String> {
    let line = |change: &trial::Change| {
        let name = change.path.file_name().unwrap().to_string_lossy().into_owned();
        format!("{:?} {name}", change.kind)
    };
    listing.changes.iter().map(line).collect()
}

fn options(rig: &Rig, store: PathBuf) -> Options {
    Options {
        roots: vec![rig.path("ws")],
        dir: rig.path("ws"),
        store,
        is_build_folder: Arc::new(recorder::is_build_folder),
        guarded: rig.policy.guarded.clone(),
    }
}

fn store(rig: &Rig) -> PathBuf {
    (0..).map(|number| rig.path("").join(format!("state/{number}"))).find(|path| !path.exists()).unwrap()
}

fn tried_with(rig: &Rig, policy: &Policy, script: &str) -> Tried {
    let options = Options { guarded: policy.guarded.clone(), ..options(rig, store(rig)) };
    let trial = Trial::new(&options).unwrap();
    let task = Task { view: Some(trial.mounts()), ..rig.task(script) };
    let done = rig.within(&Sandbox::default(), policy, task).unwrap();
    let listing = trial.list().unwrap();
    Tried { trial, listing, done }
}

fn tried(rig: &Rig, script: &str) -> Tried {
    let tried = tried_with(rig, &rig.policy, script);
    assert!(tried.done.succeeded(), "{script}: {}{}", tried.done.out, tried.done.err);
    tried
}

fn write(rig: &Rig, name: &str, content: &str) {
    let path = rig.path("ws").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    // Changes of the same moment would be taken for those of another program.
    settle();
}

/// Lets the clock of files advance.
fn settle() {
    std::thread::sleep(Duration::from_millis(10));
}

/// A tree with kinds, modes and content.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let text = if meta.is_symlink() {
                format!("link {:?}", fs::read_link(&path).unwrap())
            } else if meta.is_dir() {
                folders.push(path.clone());
                format!("dir {:o}", meta.mode() & 0o7777)
            } else {
                format!("file {:o} {:?}", meta.mode() & 0o7777, fs::read(&path).unwrap_or_default())
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), text);
        }
    }
    found
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

fn nothing_counts_until_it_is_committed(rig: &Rig) {
    write(rig, "a", "old");
    let before = tree(&rig.path("ws"));
    let tried = tried(rig, "echo new > a; echo b > b; cat a b");
    assert_eq!(tried.done.out, "new\nb\n", "it sees what it did");
    assert_eq!(tried.summary(), ["Changed a", "Created b"]);
    assert_eq!(tree(&rig.path("ws")), before);
    drop(tried);
    haft_sandbox::sandbox::settle(Duration::from_secs(10));
    assert_eq!(tree(&rig.path("ws")), before);
    assert!(is_empty(&rig.path("").join("state")), "nothing is left behind");
}

const EVERYTHING: &str = "echo more >> changed; rm gone; rm -r dir; chmod 700 mode; echo new > new; mkdir -p n/e/w empty; \
    echo 1 > n/e/w/f; ln -s f n/e/w/l; touch -d 2001-01-01 touched; mv moved renamed; sed -i s/x/y/ sed; ln -sfn b link; \
    rm -r again; mkdir again; echo 2 > again/two";

fn everything(rig: &Rig) {
    for name in ["changed", "gone", "dir/a", "dir/b/c", "mode", "touched", "moved", "again/one"] {
        write(rig, name, name);
    }
    write(rig, "sed", "x");
    symlink("a", rig.path("ws").join("link")).unwrap();
    settle();
}

fn every_kind_of_change_is_listed_and_committed(rig: &Rig) {
    everything(rig);
    let before = tree(&rig.path("ws"));
    let tried = tried(rig, EVERYTHING);
    let summary = tried.summary();
    assert_eq!(
        summary,
        [
            "Deleted one",
            "Deleted dir",
            "Deleted gone",
            "Deleted moved",
            "Attributes mode",
            "Changed changed",
            "Changed link",
            "Changed sed",
            "Created two",
            "Created empty",
            "Created f",
            "Created l",
            "Created new",
            "Created renamed",
            "Touched touched",
        ]
    );
    let find = |name: &str| tried.listing.changes.iter().find(|change| change.path.ends_with(name)).unwrap();
    assert_eq!(
        (find("dir").files, find("renamed").moved_from.clone()),
        (2, Some(rig.path("ws").join("moved")))
    );
    assert_eq!(find("link").target.as_deref(), Some("b".as_ref()));
    let committed = tried.commit().unwrap();
    let after = tree(&rig.path("ws"));
    // The same, run directly.
    let other = Rig::new(rig.policy.layers).unwrap();
    everything(&other);
    assert!(other.bash(EVERYTHING).succeeded());
    assert_eq!(after, tree(&other.path("ws")));
    let modified = |rig: &Rig| fs::metadata(rig.path("ws").join("touched")).unwrap().mtime();
    assert_eq!(modified(rig), modified(&other));
    assert_ne!(after, before);
    assert_eq!(committed.effects.not_kept, []);
    assert_eq!(committed.effects.list.len(), summary.len() - 1, "a new directory is one step");
}

fn what_is_not_chosen_is_not_committed(rig: &Rig) {
    for name in ["a", "b", "c"] {
        write(rig, name, "old");
    }
    let tried = tried(
        rig,
        "rm a; echo new > b; echo new > c; mkdir -p n/m n/x; echo 1 > n/m/1; echo 2 > n/m/2; echo 3 > n/x/3",
    );
    tried.choose(|path| path.ends_with("c") || path.ends_with("n/m/2")).unwrap();
    let ws = rig.path("ws");
    assert_eq!(
        ["a", "b", "c"].map(|name| fs::read_to_string(ws.join(name)).unwrap()),
        ["old", "old", "new\n"]
    );
    assert_eq!(fs::read_to_string(ws.join("n/m/2")).unwrap(), "2\n");
    assert!(!ws.join("n/m/1").exists() && !ws.join("n/x").exists());
}

fn copies_and_directories_made_anew_are_no_changes(rig: &Rig) {
    for name in ["a", "d/1", "d/e/2"] {
        write(rig, name, name);
    }
    // A file that is opened for writing, and a directory that is removed and made again as it was.
    let tried = tried(rig, "exec 3<>a 3>&-; cp -a d t; rm -r d; mv t d; chmod 600 d/1; chmod 644 d/1");
    assert_eq!(tried.summary(), Vec::<String>::new());
    assert_eq!(tried.commit().unwrap().effects.list, []);
}

fn a_new_time_is_a_change(rig: &Rig) {
    write(rig, "a", "same");
    fs::hard_link(rig.path("ws").join("a"), rig.path("ws").join("b")).unwrap();
    settle();
    let tried = tried(rig, "echo -n same > a");
    assert_eq!(tried.summary(), ["Touched a"]);
    let before = fs::metadata(rig.path("ws").join("a")).unwrap();
    tried.commit().unwrap();
    let after = fs::metadata(rig.path("ws").join("b")).unwrap();
    assert!(after.modified().unwrap() > before.modified().unwrap());
    assert_eq!(after.ino(), fs::metadata(rig.path("ws").join("a")).unwrap().ino(), "the hard link stays");
}

fn overlay_attributes(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for below in tree(root).keys() {
        let path = root.join(below);
        let mut names = vec![0; 4096];
        let length = rustix::fs::llistxattr(&path, &mut names).unwrap_or(0);
        if names[..length].windows(12).any(|part| part == b"user.overlay") {
            found.push(path);
        }
    }
    found
}

fn nothing_of_the_overlay_is_left_in_files(rig: &Rig) {
    for name in ["a", "b", "d/1"] {
        write(rig, name, name);
    }
    let script =
        "echo x >> a; mv b c; rm -r d; mkdir d; echo 2 > d/2; mkdir n; mv d/2 n/2; mv a n/a; cp n/a a";
    tried(rig, script).commit().unwrap();
    assert_eq!(overlay_attributes(&rig.path("ws")), Vec::<PathBuf>::new());
    if !require(Need::Python) {
        return;
    }
    write(rig, "own", "own");
    let set =
        "import os; os.setxattr('own', 'user.overlay.mine', b'1'); os.setxattr('own', 'user.plain', b'2')";
    let tried = tried(rig, &format!("python3 -c \"{set}\""));
    assert_eq!(tried.summary(), ["Attributes own"]);
    tried.commit().unwrap();
    let mut value = [0; 8];
    let own = rig.path("ws").join("own");
    assert_eq!(rustix::fs::getxattr(&own, "user.plain", &mut value).unwrap(), 1);
    assert_eq!(
        rustix::fs::getxattr(&own, "user.overlay.mine", &mut value).unwrap(),
        1,
        "its own, under its own name"
    );
}

fn kinds_that_replace_each_other(rig: &Rig) {
    write(rig, "file", "f");
    write(rig, "dir/a", "a");
    symlink("file", rig.path("ws").join("link")).unwrap();
    settle();
    let script = "rm file; mkdir file; echo 1 > file/1; rm -r dir; echo d > dir; rm link; mkdir link; echo 2 > link/2; \
                  rm -r file; ln -s x file";
    let tried = tried(rig, script);
    assert_eq!(tried.summary(), ["Changed dir", "Changed file", "Changed link"]);
    tried.commit().unwrap();
    let ws = rig.path("ws");
    assert_eq!(fs::read_to_string(ws.join("dir")).unwrap(), "d\n");
    assert_eq!(fs::read_link(ws.join("file")).unwrap(), Path::new("x"));
    assert_eq!(fs::read_to_string(ws.join("link/2")).unwrap(), "2\n");
}

fn directories_cannot_be_renamed(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    write(rig, "d/1", "1");
    let tried = tried_with(rig, &rig.policy, "python3 -c 'import os; os.rename(\"d\", \"e\")'");
    assert!(!tried.done.succeeded());
    assert!(tried.done.err.contains("Invalid cross-device link"), "{}", tried.done.err);
    assert_eq!(tried.summary(), Vec::<String>::new());
}

fn guards_hold_in_the_view(rig: &Rig) {
    write(rig, ".git/hooks/pre-commit", "#!/bin/sh\n");
    let guarded = [".git/hooks", ".vscode"].map(|name| rig.path("ws").join(name)).to_vec();
    let policy = Policy { guarded, ..rig.policy.clone() };
    let script = "echo bad >> .git/hooks/pre-commit; mv .git gone; rm -rf .git; mkdir -p .vscode; echo 1 > .vscode/tasks.json; echo 2 > b";
    let tried = tried_with(rig, &policy, script);
    assert_eq!(tried.listing.refused, [rig.path("ws").join(".vscode")]);
    tried.choose(|_| true).unwrap();
    let ws = rig.path("ws");
    assert_eq!(fs::read_to_string(ws.join(".git/hooks/pre-commit")).unwrap(), "#!/bin/sh\n");
    assert!(!ws.join(".vscode").exists() && ws.join("b").exists());
}

fn a_new_repository_is_disarmed(rig: &Rig) {
    let guarded = [".git/hooks", ".git/config"].map(|name| rig.path("ws").join(name)).to_vec();
    let policy = Policy { guarded, ..rig.policy.clone() };
    let script = "mkdir -p .git/hooks; echo '[core]\n\tbare = false\n\tfsmonitor = evil' | sed 's/\\\\n/\\n/g; s/\\\\t/\\t/g' > .git/config; \
                  echo evil > .git/hooks/post-checkout; echo ref > .git/HEAD";
    let tried = tried_with(rig, &policy, script);
    tried.choose(|_| true).unwrap();
    let git = rig.path("ws").join(".git");
    let config = fs::read_to_string(git.join("config")).unwrap();
    assert!(config.contains("bare") && !config.contains("fsmonitor"), "{config}");
    assert!(!git.join("hooks/post-checkout").exists() && git.join("HEAD").exists());
}

fn build_folders_are_shared(rig: &Rig) {
    write(rig, "target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55");
    write(rig, "src/main", "x");
    let tried = tried(rig, "echo built > target/out; echo y > src/main");
    assert_eq!(tried.summary(), ["Changed main"]);
    assert_eq!(tried.listing.shared, [rig.path("ws").join("target")]);
    assert_eq!(
        fs::read_to_string(rig.path("ws").join("target/out")).unwrap(),
        "built\n",
        "it counts at once"
    );
}

fn changes_of_others_are_conflicts(rig: &Rig) {
    type Interference = (&'static str, fn(&Path));
    let others: [Interference; 4] = [
        ("rewritten", |path| fs::write(path, "theirs").unwrap()),
        ("deleted", |path| fs::remove_file(path).unwrap()),
        ("replaced by a directory", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("replaced by another file", |path| {
            fs::write(path.with_extension("new"), "mine").unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
    ];
    for (how, change) in others {
        for script in ["echo more >> a", "rm a", "chmod 700 a"] {
            let _ = fs::remove_dir_all(rig.path("ws"));
            fs::create_dir(rig.path("ws")).unwrap();
            write(rig, "a", "mine");
            write(rig, "b", "mine");
            let tried = tried(rig, &format!("{script}; echo new > c; echo more > b"));
            // While somebody is asked.
            change(&rig.path("ws").join("a"));
            let before = tree(&rig.path("ws"));
            match tried.commit() {
                Err(CommitError::Conflicts(conflicts)) => {
                    assert_eq!(conflicts.len(), 1, "{how}, {script}: {conflicts:?}");
                    assert_eq!(conflicts[0].0, rig.path("ws").join("a"));
                }
                other => panic!("{how}, {script}: {other:?}"),
            }
            assert_eq!(tree(&rig.path("ws")), before, "{how}, {script}: nothing is committed");
        }
    }
    // Something in a directory that is deleted, and a file where a new one is to be.
    write(rig, "d/1", "1");
    let deleted = tried(rig, "rm -r d");
    fs::write(rig.path("ws").join("d/2"), "2").unwrap();
    assert!(matches!(deleted.commit(), Err(CommitError::Conflicts(_))));
    let made = tried(rig, "echo n > n; mkdir m; echo 1 > m/1");
    fs::create_dir(rig.path("ws").join("m")).unwrap();
    assert!(matches!(made.commit(), Err(CommitError::Conflicts(_))));
    // While the command runs: the view still has the old file.
    write(rig, "slow", "mine");
    let path = rig.path("ws").join("slow");
    let during = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        fs::write(path.with_extension("new"), "theirs").unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    });
    let slow = tried(rig, "cat slow; sleep 0.8; echo more >> slow");
    during.join().unwrap();
    assert!(slow.listing.changes.iter().any(|change| change.conflict.is_some()));
    assert!(matches!(slow.commit(), Err(CommitError::Conflicts(_))));
}

fn a_change_just_before_is_no_conflict(rig: &Rig) {
    // Before that, files of the same tick have the same time.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    if (numbers.next(), numbers.next()) < (Some(6), Some(13)) {
        return;
    }
    for round in 0..20 {
        fs::write(rig.path("ws").join("a"), format!("{round}")).unwrap();
        tried(rig, "echo more >> a").commit().unwrap();
    }
}

fn a_commit_that_fails_is_taken_back(rig: &Rig) {
    for name in ["a", "b", "d/1"] {
        write(rig, name, name);
    }
    let tried = tried(rig, "echo x > a; rm b; echo 2 > d/2");
    let before = tree(&rig.path("ws"));
    // A directory that cannot be written to: as an ordinary user by its mode, as root not at all.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        return;
    }
    fs::set_permissions(rig.path("ws").join("d"), fs::Permissions::from_mode(0o555)).unwrap();
    let failed = tried.commit();
    fs::set_permissions(rig.path("ws").join("d"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(failed, Err(CommitError::Failed { .. })), "{failed:?}");
    assert_eq!(tree(&rig.path("ws")), before);
}

fn odd_names_and_long_paths(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    write(rig, "a", "a");
    let script = "import os\n\
        open(b'n' * 255, 'w').write('1')\n\
        open(b'line\\nbreak', 'w').write('2')\n\
        open(b'not \\xff utf-8', 'w').write('3')\n\
        for n in range(30):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n\
        open('deep', 'w').write('4')\n";
    let tried = tried(rig, &format!("python3 - <<'END'\n{script}END"));
    assert_eq!(tried.listing.changes.len(), 4);
    tried.commit().unwrap();
    let names: Vec<_> =
        fs::read_dir(rig.path("ws")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().any(|name| name.as_bytes() == b"not \xff utf-8"), "{names:?}");
    assert!(names.iter().any(|name| name.len() == 255), "{names:?}");
    let deep = rig.bash("for n in $(seq 30); do cd d*; done; cat deep");
    assert_eq!(deep.out, "4", "{}", deep.err);
    assert!(rig.bash("rm -r d*").succeeded());
}

fn directories_without_rights(rig: &Rig) {
    write(rig, "d/1", "1");
    write(rig, "e/1", "1");
    write(rig, "ro", "old");
    fs::set_permissions(rig.path("ws").join("ro"), fs::Permissions::from_mode(0o444)).unwrap();
    settle();
    let script = "echo new > d/2; chmod 000 d; mkdir n; echo x > n/x; chmod 000 n/x; chmod 000 n; rm -r e; sed -i s/old/new/ ro";
    tried(rig, script).commit().unwrap();
    let mode = |name: &str| fs::metadata(rig.path("ws").join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("d"), mode("n"), mode("ro")), (0, 0, 0o444));
    for name in ["d", "n"] {
        fs::set_permissions(rig.path("ws").join(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(mode("n/x"), 0);
    assert_eq!(fs::read_to_string(rig.path("ws").join("d/2")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(rig.path("ws").join("ro")).unwrap(), "new");
    assert!(!rig.path("ws").join("e").exists());
}

fn links_are_listed_with_their_targets(rig: &Rig) {
    write(rig, "a", "a");
    symlink(rig.path("outside/file"), rig.path("ws").join("out")).unwrap();
    symlink("not-there", rig.path("ws").join("dangling")).unwrap();
    settle();
    let tried = tried_with(rig, &rig.policy, "echo x > out; echo made > dangling; ln -s /etc new");
    assert_eq!(tried.summary(), ["Created new", "Created not-there"], "{}", tried.done.err);
    assert_eq!(tried.listing.changes[0].target.as_deref(), Some("/etc".as_ref()));
    assert_eq!(fs::read_to_string(rig.path("outside/file")).unwrap(), "outside");
}

fn a_database_is_tried(rig: &Rig) {
    if !require(Need::Python) {
        return;
    }
    let make = "import sqlite3; c = sqlite3.connect('db'); c.execute('pragma journal_mode=wal'); \
                c.execute('create table t (n)'); c.execute('insert into t values (1)'); c.commit()";
    assert!(rig.bash(&format!("python3 -c \"{make}\"")).succeeded());
    settle();
    let insert =
        "import sqlite3; c = sqlite3.connect('db'); c.execute('insert into t values (2)'); c.commit()";
    let tried = tried(rig, &format!("python3 -c \"{insert}\""));
    let count =
        "import sqlite3; print(sqlite3.connect('db').execute('select count(*) from t').fetchone()[0])";
    assert_eq!(rig.bash(&format!("python3 -c \"{count}\"")).out, "1\n");
    // The reader above opened the database, which is no change of its content.
    match tried.commit() {
        Ok(_) | Err(CommitError::Conflicts(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

const PREPARE_GIT: &str = r#"
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main . && git config user.name n && git config user.email e && git config gc.auto 0
mkdir -p src/deep docs
for i in $(seq 40); do echo "line $i" > src/f$i; echo "text $i" > src/deep/g$i; done
echo doc > docs/read; git add . && git commit -qm one
git checkout -q -b other; for i in $(seq 1 2 40); do echo "other $i" >> src/f$i; done; git rm -q -r docs; git commit -qam two
git checkout -q main; echo main >> src/f2; git commit -qam three; echo dirty >> src/f4; echo note > untracked
"#;

const GIT: &str = r#"
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git stash -q && git checkout -q other && git checkout -q main && git merge -q other -m merged && git stash pop -q
git commit -qam stashed; git commit -q --amend -m amended; git checkout -q -b topic HEAD~1; echo topic > topic
git add topic; git commit -qm four; git rebase -q main; git branch -D other; git tag t
git reflog expire --expire=now --all; git gc -q --prune=now
rm -rf src/deep; mkdir src/deep; echo 1 > src/deep/one; mv untracked renamed; rm src/f9; ln -s f1 src/f9
"#;

fn a_git_script_is_tried_and_committed_as_if_it_had_run(rig: &Rig) {
    if !require(Need::Git) {
        return;
    }
    let direct = Rig::new(rig.policy.layers).unwrap();
    for rig in [rig, &direct] {
        let prepared = rig.bash(PREPARE_GIT);
        assert!(prepared.succeeded(), "{}", prepared.err);
    }
    settle();
    let tried = tried(rig, GIT);
    assert!(tried.listing.changes.iter().filter(|change| change.kind == ChangeKind::Deleted).count() > 30);
    tried.commit().unwrap();
    let ran = direct.bash(GIT);
    assert!(ran.succeeded(), "{}", ran.err);
    let compared = |rig: &Rig| {
        let mut found = tree(&rig.path("ws"));
        // These have times and inodes in them.
        found.retain(|path, _| !path.ends_with(".git/index") && !path.starts_with(".git/objects/pack"));
        found
    };
    assert_eq!(compared(rig), compared(&direct));
    let show = "git -c core.fsmonitor=false fsck --strict 2>&1; git status --porcelain; git log --oneline --all; git stash list";
    let (one, other) = (rig.bash(show), direct.bash(show));
    assert_eq!((one.out, one.ended.exit), (other.out, other.ended.exit));
    assert_eq!(overlay_attributes(&rig.path("ws")), Vec::<PathBuf>::new());
}

/// Option that makes this program try a command and commit it, in a workspace that is there.
pub(crate) const COMMIT: &str = "--commit=";

/// Variable with the command, instead of the usual one.
const SCRIPT: &str = "HAFT_TEST_SCRIPT";

#[allow(clippy::print_stdout)] // the test that kills this process reads how far it came
pub(crate) fn commit_at(base: &str) {
    let rig = Rig::existing(Path::new(base));
    let trial = Trial::new(&options(&rig, rig.path("").join("state/killed"))).unwrap();
    let script = std::env::var(SCRIPT).unwrap_or_else(|_| EVERYTHING.to_owned());
    let task = Task { view: Some(trial.mounts()), ..rig.task(&script) };
    assert!(rig.within(&Sandbox::default(), &rig.policy, task).unwrap().succeeded());
    let listing = trial.list().unwrap();
    println!("listed");
    let all: Vec<usize> = (0..listing.changes.len()).collect();
    trial.commit(&listing, &all, Durability::Full).unwrap();
    println!("committed");
}

fn killed_at_each_call_a_commit_is_whole_or_not_at_all(rig: &Rig) {
    if !require(Need::Strace) {
        return;
    }
    let expected = {
        let other = Rig::new(rig.policy.layers).unwrap();
        everything(&other);
        assert!(other.bash(EVERYTHING).succeeded());
        tree(&other.path("ws"))
    };
    let mut seen = (0, 0);
    for calls in
        ["renameat2", "rename", "unlinkat", "unlink", "mkdir", "fsync", "syncfs", "fchmodat", "utimensat"]
    {
        for when in 1..200 {
            let rig = Rig::new(rig.policy.layers).unwrap();
            everything(&rig);
            let before = tree(&rig.path("ws"));
            let inject = format!("inject={calls}:signal=KILL:when={when}");
            // Without -f: only what haft itself does, and in its main thread.
            let output = std::process::Command::new("strace")
                .args(["-qq", "-o", "/dev/null", "-e", &format!("trace={calls}"), "-e", &inject])
                .arg(std::env::current_exe().unwrap())
                .arg(format!("{COMMIT}{}", rig.path("").display()))
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            let store = rig.path("").join("state/killed");
            let recovered =
                if store.exists() { trial::recover(&store).unwrap() } else { Recovered::NotATrial };
            let now = tree(&rig.path("ws"));
            match recovered {
                Recovered::Committed(_) => {
                    assert_eq!(now, expected, "{inject}: {output}");
                    seen.0 += 1;
                }
                Recovered::Discarded | Recovered::NotATrial => {
                    assert_eq!(now, before, "{inject}: {output}");
                    assert!(!store.join("upper-0").exists(), "{inject}");
                    seen.1 += 1;
                }
                Recovered::InUse => panic!("{inject}: it is in use"),
            }
            if output.contains("committed") {
                break;
            }
        }
    }
    assert!(seen.0 > 10 && seen.1 > 5, "{seen:?}");
}

fn killed_in_the_view_nothing_is_left(rig: &Rig) {
    write(rig, "a", "old");
    let store = rig.path("").join("state/killed");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .arg(format!("{COMMIT}{}", rig.path("").display()))
        .env(SCRIPT, "echo x > a; mkdir -m 000 n; sleep 100.271828")
        .spawn()
        .unwrap();
    assert!(soon(|| store.join("upper-0/n").exists()));
    assert!(matches!(trial::recover(&store).unwrap(), Recovered::InUse));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ends_soon("100.271828"));
    assert!(matches!(trial::recover(&store).unwrap(), Recovered::Discarded));
    assert!(is_empty(&rig.path("").join("state")), "not even the kernel's directory without rights");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("upperdir="), "{mounts}");
    assert_eq!(fs::read_to_string(rig.path("ws").join("a")).unwrap(), "old");
}

fn layers_on_another_mount_lie_in_the_workspace(rig: &Rig) {
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(other.path()) == device(&rig.path("ws")) {
        return;
    }
    write(rig, "a", "old");
    write(rig, "d/1", "1");
    let run = |keep: bool| {
        let trial = Trial::new(&options(rig, other.path().join(format!("{keep}")))).unwrap();
        let task = Task {
            view: Some(trial.mounts()),
            ..rig.task("ls .haft/trials/*; echo new > a; rm -r d; echo b > b")
        };
        let done = rig.within(&Sandbox::default(), &rig.policy, task).unwrap();
        assert!(done.succeeded() && !done.out.contains("upper"), "{}{}", done.out, done.err);
        let listing = trial.list().unwrap();
        assert_eq!(summary(&listing), ["Deleted d", "Changed a", "Created b"]);
        if !keep {
            return;
        }
        let committed = trial.commit(&listing, &[0, 1, 2], Durability::Full).unwrap();
        assert_eq!(committed.effects.list.len(), 3);
        trial::release(committed.store()).unwrap();
    };
    run(false);
    haft_sandbox::sandbox::settle(Duration::from_secs(10));
    assert_eq!(fs::read_to_string(rig.path("ws").join("a")).unwrap(), "old");
    assert!(!rig.path("ws").join(".haft").exists(), "it is gone");
    run(true);
    assert_eq!(fs::read_to_string(rig.path("ws").join("a")).unwrap(), "new\n");
    assert!(!rig.path("ws").join("d").exists() && !rig.path("ws").join(".haft").exists());
}

fn mounts_below_are_known_beforehand(rig: &Rig) {
    assert_eq!(obstacle(&[rig.path("ws")]), None);
    assert!(matches!(
        obstacle(&[PathBuf::from("/")]),
        Some(Obstacle::MountBelow(_) | Obstacle::ForeignOwner(_))
    ));
}

fn a_full_disk_in_the_view_changes_nothing(rig: &Rig) {
    write(rig, "a", "old");
    let mut policy = rig.policy.clone();
    policy.limits.file_size = Some(1 << 20);
    let tried = tried_with(rig, &policy, "head -c 5000000 /dev/zero > big; echo new > a");
    assert!(tried.summary().contains(&"Created big".to_owned()), "{:?}", tried.summary());
    tried.choose(|path| path.ends_with("a")).unwrap();
    assert!(!rig.path("ws").join("big").exists());
    assert_eq!(fs::read_to_string(rig.path("ws").join("a")).unwrap(), "new\n");
}

fn many_files_are_committed(rig: &Rig) {
    let prepare = "mkdir d; for n in $(seq 2000); do echo $n > d/$n; done";
    assert!(rig.bash(prepare).succeeded());
    settle();
    let tried = tried(
        rig,
        "for n in $(seq 2000); do echo new $n > d/$n; done; mkdir e; for n in $(seq 500); do echo $n > e/$n; done",
    );
    assert_eq!(tried.listing.changes.len(), 2500);
    let committed = tried.commit().unwrap();
    assert_eq!(committed.effects.list.len(), 2001);
    assert_eq!(fs::read_to_string(rig.path("ws").join("d/777")).unwrap(), "new 777\n");
    assert_eq!(fs::read_to_string(rig.path("ws").join("e/444")).unwrap(), "444\n");
}
