//! What git does to a repository, taken back: `.git` included, but for new objects, which are left alone.

use haft_testing::{Need, require};

use super::common::{Rig, differences, restore, tree};

const PREPARE: &str = r#"
set -e
export GIT_CONFIG_GLOBAL=/dev/null
git init -q -b main . && git config user.name n && git config user.email e
mkdir -p src/deep docs
for i in $(seq 80); do echo "line $i" > src/f$i; echo "text $i" > src/deep/g$i; done
echo doc > docs/read; git add . && git commit -qm one
git checkout -q -b other; for i in $(seq 1 2 80); do echo "other $i" >> src/f$i; done; git rm -q -r docs
git mv src/deep src/moved; git commit -qam two
git checkout -q main; echo main >> src/f2; git commit -qam three
git checkout -q -b topic HEAD~1; echo topic > topic; git add topic; git commit -qm four; echo five >> topic; git commit -qam five
git checkout -q main; echo dirty >> src/f4; echo note > untracked; echo staged > staged; git add staged
"#;

const SCRIPT: &str = r#"
export GIT_CONFIG_GLOBAL=/dev/null
git stash -q -u && git checkout -q other && git checkout -q main && git merge -q other -m merged
git stash pop -q; git commit -qam stashed; git commit -q --amend -m amended
git checkout -q topic && git rebase -q main
git branch -d other; git tag t; git reset -q --hard HEAD~1
git reflog expire --expire=now --all; git gc -q --prune=now --aggressive
git mv src/moved src/again; rm -rf src/again; git clean -qfd; echo end > end; git add end; git status > /dev/null
"#;

#[test]
fn what_git_did_is_taken_back() {
    if !require(Need::Git) || !require(Need::Bash) {
        return;
    }
    let rig = Rig::new();
    let mut prepare = rig.bash(PREPARE);
    assert!(prepare.current_dir(rig.ws()).status().unwrap().success());
    let before = tree(&rig.ws());
    let (status, effects) = rig.start(rig.bash(SCRIPT)).finish_with_status();
    assert!(status.success());
    let after = tree(&rig.ws());
    let changed = differences(&before, &after).len();
    assert!(changed > 300, "the script changed only {changed} entries");
    restore(&effects);
    let mut restored = tree(&rig.ws());
    restored
        .retain(|path, _| before.contains_key(path) || !path.to_string_lossy().contains("/.git/objects/"));
    assert_eq!(differences(&before, &restored), Vec::<String>::new());
    assert_eq!((effects.not_kept, effects.unrecorded), (Vec::new(), Vec::new()));
    let script = "git -c core.fsmonitor=false fsck --strict 2>&1 && git status --porcelain";
    let checked = rig.bash(script).current_dir(rig.ws()).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
