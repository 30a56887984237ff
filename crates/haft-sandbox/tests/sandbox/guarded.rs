//! What makes other programs run something stays as it is, and does not come into being.

use std::path::{Path, PathBuf};

use haft_sandbox::sandbox::{Output, Policy, RunEvent, Sandbox, Task, recorder};

use haft_testing::{Need, require};

use crate::{Rig, Test, soon, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![
    what_is_missing_is_not_planted,
    guards_leave_nothing_to_see,
    what_a_command_that_nobody_waits_for_plants_is_renamed,
    what_haft_makes_while_a_command_runs_stays,
    a_new_repository_keeps_no_hooks,
    git_goes_on_working,
    hooks_of_repositories_further_down_stay_as_they_are,
    a_repository_that_cannot_be_read_hangs_nothing,
    haft_is_not_led_outside_by_a_link_that_comes_and_goes,
];

/// Those that are about the view, which is one of the layers.
pub(crate) const VIEW_TESTS: &[(&str, Test)] = tests![
    what_is_guarded_stays,
    what_came_before_the_command_is_guarded,
    a_repository_elsewhere_is_guarded,
    hooks_that_are_elsewhere_are_guarded,
];

/// The names that a session guards.
const NAMES: [&str; 10] = [
    ".haft",
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info/attributes",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".envrc",
];

/// A policy that guards what a session does.
fn guarding(rig: &Rig) -> Policy {
    let guarded = NAMES.map(|name| rig.path("ws").join(name)).to_vec();
    Policy { guarded, ..rig.policy.clone() }
}

fn entries(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn git(folder: &Path, args: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.email=a@b", "-c", "user.name=n", "-c", "init.defaultBranch=main"]).args(args);
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder).current_dir(folder);
    let done = git.output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn what_is_guarded_stays(rig: &Rig) {
    std::fs::create_dir_all(rig.path("ws/.git/hooks")).unwrap();
    std::fs::write(rig.path("ws/.git/config"), "mine").unwrap();
    let policy = Policy {
        guarded: vec![rig.path("ws/.git/hooks"), rig.path("ws/.git/config"), rig.path("ws/missing")],
        ..rig.policy.clone()
    };
    for script in [
        "echo x > .git/hooks/pre-commit",
        "echo x > .git/config",
        "mv .git/hooks .git/old",
        "mv .git .old",
        "rm -rf .git",
        "ln -sf /bin/sh .git/config",
    ] {
        assert!(!rig.with(&policy, script).succeeded(), "{script}");
    }
    assert_eq!(std::fs::read(rig.path("ws/.git/config")).unwrap(), b"mine");
    assert!(rig.with(&policy, "echo x > .git/HEAD && mkdir .git/objects").succeeded());
}

fn what_is_missing_is_not_planted(rig: &Rig) {
    let policy = guarding(rig);
    let ws = rig.path("ws");
    std::fs::create_dir_all(ws.join(".git/refs")).unwrap();
    for script in [
        "mkdir -p .vscode && echo x > .vscode/tasks.json",
        "mkdir -p .idea && echo x > .idea/workspace.xml",
        "mkdir -p .haft && echo x > .haft/config.toml",
        "echo x > .envrc",
        "echo x > .mcp.json",
        "echo x > y && mv y .mcp.json",
        "echo x > y; ln -sf y .envrc",
        "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
        "echo x > .git/config",
        "echo x > .git/config.worktree",
        "echo ../evil > .git/commondir",
        "mkdir -p .git/info; echo x > .git/info/attributes",
    ] {
        let done = rig.with(&policy, script);
        assert!(done.succeeded(), "{script}: {}", done.err);
        assert!(!done.ended.set_aside.is_empty(), "{script}");
        for aside in &done.ended.set_aside {
            assert!(aside.to_string_lossy().contains(".set-aside"), "{aside:?}");
        }
        for name in NAMES {
            let left = ws.join(name);
            let is_left = left.symlink_metadata().is_ok() && !left.is_dir();
            assert!(!is_left || name == ".git/config", "{script} left {name}");
        }
        assert!(!ws.join(".vscode").exists() && !ws.join(".haft").exists() && !ws.join(".idea").exists());
        assert!(!ws.join(".git/hooks/pre-commit").exists());
        assert!(std::fs::read(ws.join(".git/config")).unwrap_or_default().is_empty());
    }
}

/// Placeholders in a folder were copied by `cp -a .[a-z]* build/` and packed by `zip -r`.
fn guards_leave_nothing_to_see(rig: &Rig) {
    let policy = guarding(rig);
    let done = rig.with(&policy, "touch z && ls -A && cp -r . /tmp/copy && ls -A /tmp/copy");
    assert_eq!(done.out, if rig.has_view() { "z\nz\n" } else { "z\n" }, "{}", done.err);
    assert_eq!(entries(&rig.path("ws")), ["z"]);
}

fn what_a_command_that_nobody_waits_for_plants_is_renamed(rig: &Rig) {
    let policy = guarding(rig);
    rig.runtime.block_on(async {
        let slot = Sandbox::default().slot(&policy, Output::Joined).await.unwrap();
        let mut long = slot.run(rig.task("echo x > .mcp.json; echo started; sleep 100")).await.unwrap();
        assert!(matches!(long.next().await.unwrap(), RunEvent::Output(..)));
    });
    assert!(soon(|| rig.path("ws/.mcp.json").symlink_metadata().is_err()));
    assert!(soon(|| entries(&rig.path("ws")) == [".mcp.json.set-aside"]));
}

/// While a server runs in the background, the user may let haft make a file that commands must not make.
fn what_haft_makes_while_a_command_runs_stays(rig: &Rig) {
    let policy = guarding(rig);
    let workspace = haft_sandbox::Workspace::open(&rig.path("ws")).unwrap();
    let own = |name: &str| workspace.resolve(workspace.root(), name).unwrap().path;
    rig.runtime.block_on(async {
        let slot = Sandbox::default().slot(&policy, Output::Joined).await.unwrap();
        let script =
            "echo started; until [ -e go ]; do :; done; echo x > .envrc; echo x > .vscode/tasks.json";
        let mut long = slot.run(rig.task(script)).await.unwrap();
        assert!(matches!(long.next().await.unwrap(), RunEvent::Output(..)));
        for name in [".mcp.json", ".vscode/settings.json", "go"] {
            let temp = haft_sandbox::TempName::new("test").unwrap();
            let expect = &haft_sandbox::Expect::Missing;
            workspace.write(&own(name), b"mine", expect, &temp, haft_sandbox::Durability::Fast).unwrap();
        }
        let ended = loop {
            if let RunEvent::Ended(ended) = long.next().await.unwrap() {
                break ended;
            }
        };
        let mut aside = ended.set_aside;
        aside.sort();
        assert_eq!(
            aside,
            [".envrc.set-aside", ".vscode/tasks.json.set-aside"].map(|name| rig.path("ws").join(name))
        );
    });
    for name in [".mcp.json", ".vscode/settings.json"] {
        assert_eq!(std::fs::read(rig.path("ws").join(name)).unwrap(), b"mine", "{name}");
    }
}

fn what_came_before_the_command_is_guarded(rig: &Rig) {
    let policy = guarding(rig);
    std::fs::write(rig.path("ws/.mcp.json"), "old").unwrap();
    rig.runtime.block_on(async {
        let sandbox = Sandbox::default().slot(&policy, Output::Joined).await.unwrap();
        std::fs::write(rig.path("ws/.envrc"), "mine").unwrap();
        // As programs save files.
        std::fs::write(rig.path("ws/new"), "mine").unwrap();
        std::fs::rename(rig.path("ws/new"), rig.path("ws/.mcp.json")).unwrap();
        let script = "for f in .envrc .mcp.json; do echo x >> $f; rm -f $f; mv $f y; done";
        let mut running = sandbox.run(rig.task(script)).await.unwrap();
        while !matches!(running.next().await.unwrap(), RunEvent::Ended(_)) {}
    });
    for name in ["ws/.envrc", "ws/.mcp.json"] {
        assert_eq!(std::fs::read(rig.path(name)).unwrap(), b"mine", "{name}");
    }
}

fn a_new_repository_keeps_no_hooks(rig: &Rig) {
    if !require(Need::Git) {
        return;
    }
    let policy = guarding(rig);
    let script = "git init -q . && git config user.email a@b && git config user.name n && \
         git config core.fsmonitor 'touch /tmp/x' && git config alias.x '!true' && \
         mkdir -p .git/hooks && echo 'exit 1' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit";
    let done = rig.with(&policy, script);
    assert!(done.succeeded(), "{}", done.err);
    let names: Vec<PathBuf> = ["config.set-aside", "hooks/pre-commit.set-aside"]
        .map(|name| rig.path("ws/.git").join(name))
        .to_vec();
    let mut aside = done.ended.set_aside;
    aside.sort();
    assert_eq!(aside, names);
    let config = std::fs::read_to_string(rig.path("ws/.git/config")).unwrap();
    assert!(
        config.contains("email = a@b") && !config.contains("fsmonitor") && !config.contains("!true"),
        "{config}"
    );
    let done =
        rig.with(&policy, "echo x > f && git add f && git commit -qm one && git log --oneline | wc -l");
    assert_eq!(done.out.trim(), "1", "{}", done.err);
    assert!(done.ended.set_aside.is_empty());
    // A link in the place of a repository is not followed.
    let other = rig.path("outside/repo");
    std::fs::create_dir_all(other.join("hooks")).unwrap();
    std::fs::write(other.join("hooks/mine"), "").unwrap();
    std::fs::remove_dir_all(rig.path("ws/.git")).unwrap();
    let done = rig.with(&policy, &format!("ln -s {} .git", other.display()));
    assert_eq!(entries(&other.join("hooks")), ["mine"]);
    assert_eq!(done.ended.set_aside, [rig.path("ws/.git.set-aside")]);
    let done = rig.with(&policy, &format!("echo gitdir: {} > .git", other.display()));
    assert_eq!(entries(&other.join("hooks")), ["mine"]);
    assert_eq!(done.ended.set_aside, [rig.path("ws/.git.set-aside-1")]);
}

fn a_repository_elsewhere_is_guarded(rig: &Rig) {
    if !require(Need::Git) {
        return;
    }
    let (main, tree) = (rig.path("ws/main"), rig.path("ws/tree"));
    std::fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q", "."]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
    git(&main, &["worktree", "add", "-q", tree.to_str().unwrap()]);
    let guarded = NAMES.map(|name| tree.join(name)).to_vec();
    let policy = Policy { guarded, ..rig.policy.clone() };
    for script in [
        "echo x > main/.git/hooks/pre-commit",
        "echo x >> main/.git/config",
        "mv main/.git main/old",
        "echo gitdir: /tmp > tree/.git",
        "rm tree/.git",
    ] {
        assert!(!rig.with(&policy, script).succeeded(), "{script}");
    }
    let done = rig.with(
        &policy,
        "cd tree && echo x > f && git add f && git -c user.email=a@b -c user.name=n commit -qm two && git log --oneline | wc -l",
    );
    assert_eq!(done.out.trim(), "2", "{}", done.err);
    // A link in the place of the folder.
    let linked = rig.path("ws/linked");
    std::fs::create_dir(&linked).unwrap();
    std::os::unix::fs::symlink("../main/.git", linked.join(".git")).unwrap();
    let guarded = NAMES.map(|name| linked.join(name)).to_vec();
    let policy = Policy { guarded, ..rig.policy.clone() };
    assert!(!rig.with(&policy, "echo x > linked/.git/hooks/pre-commit").succeeded());
    assert!(!rig.with(&policy, "echo x > main/.git/hooks/pre-commit").succeeded());
    let done = rig.with(
        &policy,
        "rm linked/.git && mkdir -p linked/.git/hooks && echo x > linked/.git/hooks/pre-commit",
    );
    assert_eq!(done.ended.set_aside, [linked.join(".git.set-aside")]);
    assert_eq!(std::fs::read_link(linked.join(".git")).unwrap(), Path::new("../main/.git"));
}

fn git_goes_on_working(rig: &Rig) {
    if !require(Need::Git) {
        return;
    }
    let ws = rig.path("ws");
    git(&ws, &["init", "-q", "."]);
    git(&ws, &["config", "user.email", "a@b"]);
    git(&ws, &["config", "user.name", "n"]);
    let policy = guarding(rig);
    let done = rig.with(
        &policy,
        "set -e; echo x > f; git add -A; git commit -qm one; git checkout -q -b other; echo y >> f; git commit -qam two; \
         git stash list; git worktree add -q sub/tree; git tag t; git gc -q; git status --porcelain; git clean -nd; \
         git ls-files; git log --oneline --all | wc -l",
    );
    assert!(done.succeeded() && done.err.is_empty(), "{}{}", done.out, done.err);
    let lines: Vec<&str> = done.out.lines().collect();
    assert!(!done.out.contains(".envrc") && !done.out.contains(".mcp.json"), "{lines:?}");
    assert!(lines.contains(&"f") && lines.last() == Some(&"2"), "{lines:?}");
    let cloned = rig.with(&policy, "git clone -q . copy && ls copy");
    assert_eq!(cloned.out, "f\n", "{}", cloned.err);
}

fn hooks_that_are_elsewhere_are_guarded(rig: &Rig) {
    if !require(Need::Git) {
        return;
    }
    let ws = rig.path("ws");
    git(&ws, &["init", "-q"]);
    git(&ws, &["config", "core.hooksPath", ".githooks"]);
    std::fs::create_dir(ws.join(".githooks")).unwrap();
    std::fs::remove_dir_all(ws.join(".git/hooks")).unwrap();
    std::fs::create_dir(ws.join("linked")).unwrap();
    std::os::unix::fs::symlink("../linked", ws.join(".git/hooks")).unwrap();
    std::fs::create_dir_all(ws.join(".git/modules/lib/sub/hooks")).unwrap();
    std::fs::write(ws.join(".git/modules/lib/sub/HEAD"), "ref: refs/heads/main").unwrap();
    for folder in [".githooks", "linked", ".git/modules/lib/sub/hooks"] {
        let script = format!("echo x > {folder}/pre-commit");
        assert!(!rig.with(&guarding(rig), &script).succeeded(), "{script}");
        assert_eq!(entries(&ws.join(folder)), [""; 0]);
    }
}

fn hooks_of_repositories_further_down_stay_as_they_are(rig: &Rig) {
    use std::os::unix::fs::PermissionsExt;
    if !require(Need::Git) {
        return;
    }
    let sub = rig.path("ws/a/sub");
    std::fs::create_dir_all(&sub).unwrap();
    git(&sub, &["init", "-q"]);
    git(&sub, &["config", "core.hooksPath", ".more"]);
    git(&sub, &["config", "filter.x.clean", "cat"]);
    std::fs::create_dir(sub.join(".more")).unwrap();
    std::fs::write(sub.join(".git/hooks/pre-push"), "mine").unwrap();
    std::fs::set_permissions(sub.join(".git/hooks/pre-push"), PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(sub.join(".git/hooks/commit-msg"), "inert").unwrap();
    let before = std::fs::read_to_string(sub.join(".git/config")).unwrap();
    let state = || {
        let hooks = sub.join(".git/hooks");
        let live = entries(&hooks)
            .into_iter()
            .filter(|name| !name.contains("sample") && !name.contains("set-aside"));
        let bits = std::fs::metadata(hooks.join("pre-push")).unwrap().permissions().mode() & 0o777;
        (live.collect::<Vec<_>>(), std::fs::read_to_string(hooks.join("pre-push")).unwrap(), bits)
    };
    let wanted = state();
    let mut count = 0;
    let mut run = |script: &str| {
        count += 1;
        let store = rig.path(&format!("store-{count}"));
        let record = Some(recorder::Options::new(vec![rig.path("ws")], store));
        let done = rig.run(&guarding(rig), Task { record, ..rig.task(script) });
        assert!(done.succeeded(), "{script}: {}", done.err);
        assert_eq!(done.ended.not_recorded, None);
        done.ended
    };
    for script in [
        "echo x > a/sub/.git/hooks/post-commit",
        "echo x > y; mv y a/sub/.git/hooks/post-commit",
        "echo x > y; ln y a/sub/.git/hooks/post-commit",
        "cp -r a/sub/.git/hooks h; echo x > h/post-commit; rm -rf a/sub/.git/hooks; mv h a/sub/.git/hooks",
        "echo x >> a/sub/.git/hooks/pre-push",
        "echo x > y; mv y a/sub/.git/hooks/pre-push",
        "chmod +x a/sub/.git/hooks/pre-push",
        "echo x > a/sub/.more/post-commit",
    ] {
        run(script);
        assert_eq!(state(), wanted, "{script}");
    }
    assert!(!sub.join(".more/post-commit").exists());
    for script in ["git -C a/sub config core.fsmonitor evil", "git -C a/sub config core.hooksPath evil"] {
        run(script);
        assert_eq!(std::fs::read_to_string(sub.join(".git/config")).unwrap(), before, "{script}");
    }
    // Settings that run nothing are everyday work.
    let ended = run("git -C a/sub remote add origin ../other");
    assert_eq!(ended.set_aside, [""; 0].map(PathBuf::from));
    assert!(std::fs::read_to_string(sub.join(".git/config")).unwrap().contains("../other"));
    for script in [
        "git init -q n/new && echo x > n/new/.git/hooks/post-commit && git -C n/new config core.pager evil",
        "git init -q t/other && echo x > t/other/.git/hooks/post-commit && cp -r t/other n/copy && rm -r t",
    ] {
        run(script);
    }
    for repository in ["n/new", "n/copy"] {
        let git = rig.path("ws").join(repository).join(".git");
        assert!(!git.join("hooks/post-commit").exists(), "{repository}");
        assert!(!std::fs::read_to_string(git.join("config")).unwrap().contains("evil"), "{repository}");
    }
}

fn a_repository_that_cannot_be_read_hangs_nothing(rig: &Rig) {
    let ws = rig.path("ws");
    let fifo = |path: &str| {
        let made = std::process::Command::new("mkfifo").arg(ws.join(path)).status();
        assert!(made.unwrap().success());
    };
    std::fs::create_dir_all(ws.join("real")).unwrap();
    std::fs::write(ws.join(".git"), "gitdir: real\n").unwrap();
    fifo("real/commondir");
    assert_eq!(rig.with(&guarding(rig), "echo done").out, "done\n");
    std::fs::remove_file(ws.join(".git")).unwrap();
    std::fs::create_dir(ws.join(".git")).unwrap();
    fifo(".git/config");
    assert_eq!(rig.with(&guarding(rig), "echo done").out, "done\n");
    std::fs::remove_dir_all(ws.join(".git")).unwrap();
    fifo(".git");
    assert_eq!(rig.with(&guarding(rig), "echo done").out, "done\n");
    // One that a command makes does no harm to the next.
    std::fs::remove_file(ws.join(".git")).unwrap();
    rig.with(&guarding(rig), "mkfifo .git");
    assert_eq!(rig.with(&guarding(rig), "echo done").out, "done\n");
}

fn haft_is_not_led_outside_by_a_link_that_comes_and_goes(rig: &Rig) {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (ws, outside) = (rig.path("ws"), rig.path("outside/repository"));
    for folder in [outside.join("hooks"), ws.join(".git/refs")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(outside.join("hooks/pre-commit"), "mine").unwrap();
    std::fs::write(outside.join("config"), "[core]\n\tfsmonitor = mine\n").unwrap();
    std::os::unix::fs::symlink(&outside, ws.join("link")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let (from, to) = (ws.join("link"), ws.join(".git"));
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let _ = rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags);
            }
        });
        let session = Sandbox::default();
        for _ in 0..60 {
            let script =
                "mkdir -p .git/hooks; echo x > .git/hooks/post-commit; echo '[core] pager = x' > .git/config";
            // It may fail: what it names is a link half of the time.
            let _ = rig.within(&session, &guarding(rig), rig.task(script));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(entries(&outside), ["config", "hooks"]);
    assert_eq!(entries(&outside.join("hooks")), ["pre-commit"]);
    assert_eq!(std::fs::read(outside.join("config")).unwrap(), b"[core]\n\tfsmonitor = mine\n");
}
