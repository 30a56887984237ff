//! Single commands, each with something that is easily got wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;

use haft_sandbox::sandbox::recorder::{Effect, KeepLimits, New, Old, Options};
use haft_testing::{Need, require};

use super::common::{Namespaces, Recorded, Rig, differences, restore, spawn, tree, undone};

fn usual() -> Rig {
    let rig = Rig::new();
    rig.write("a", "one\n");
    rig.write("b", "two\n");
    rig.write("d/x", "in d\n");
    rig.write("d/e/y", "deep\n");
    rig
}

#[test]
fn what_a_command_did_is_taken_back() {
    if !require(Need::Bash) {
        return;
    }
    for script in [
        "echo more >> a",
        "echo new > a",
        "rm a",
        "rm -r d",
        "mv a c",
        "mv a b",
        "mv d f",
        "mv d f; echo more >> f/x; rm f/e/y; echo new > f/e/z",
        "mkdir n && mv a n/ && mv d n/",
        "mv a t; mv b a; mv t b",
        "mv d t; mkdir d; mv t d/t",
        "mv a c; echo again > a",
        "rm -r d && mkdir d",
        "rm -r d && mkdir d && echo other > d/x && mkdir d/e && echo deep > d/e/y",
        "rm -r d && echo file > d",
        "rm -r d && ln -s a d",
        "rm a && mkdir a && echo in > a/f",
        "chmod 700 a; chmod 711 d",
        "chmod 000 a; chmod 500 d/e",
        "ln a c; echo more >> c",
        "ln -s nowhere l; echo made > l",
        "ln -s d/x l; echo more >> l",
        "cp a c; mv c a",
        "mkdir -p p/q/r; echo 1 > p/q/r/f; mv p/q s; mv s/r/f a",
        "mv d/e e; rm -r d; mv e/y a; rmdir e",
        "exec 3<a; echo more >> /proc/self/fd/3; echo more >> /dev/fd/3",
        "cd d/e && echo more >> ../../a && rm ../x && cd .. && rm -r e",
        ": > a; : >> b; truncate -s 100 d/x",
        "for i in 1 2 3 4 5; do mv a t$i; mv t$i a; done; echo more >> a",
        "(exec 3>>a; rm a; echo more >&3; echo new > a)",
        "set -C; echo more > a || true; touch a b; touch c",
    ] {
        undone(&usual(), script);
    }
}

#[test]
fn what_is_equal_in_the_end_is_no_effect() {
    if !require(Need::Bash) {
        return;
    }
    for script in [
        "true",
        "cat a b > /dev/null; ls -R . > /dev/null",
        "touch a; touch -d 2001-01-01 b",
        "echo tmp > t; rm t",
        "cp a t; echo x >> a; cat t > a; rm t",
        "mv a t; mv t a",
        "rm a; echo one > a",
        "mv d t; mv t d",
        "cp -r d t; rm -r d; mv t d",
        "mkdir -p n/m; rmdir n/m n",
        "rm nothing; rmdir d; mv d/e d/e/y; ln a b; mkdir d; echo x > d",
        "chmod 600 a; chmod 644 a",
        "ln -s x l; rm l",
        "echo x > /dev/null; echo x > /dev/stderr",
    ] {
        let rig = usual();
        fs::set_permissions(rig.ws().join("a"), fs::Permissions::from_mode(0o644)).unwrap();
        let script = format!("umask 022; {{ {script} ; }} 2>/dev/null; true");
        assert_eq!(undone(&rig, &script).list, [], "{script}");
    }
}

#[test]
fn hard_links_are_links_again() {
    if !require(Need::Bash) {
        return;
    }
    for script in [
        "echo more >> a",
        "rm a",
        "rm a c",
        "echo more >> a; rm c",
        "echo new > t; mv t a",
        "mv a z; echo more >> z",
        "rm a; cp c a",
        "chmod 600 a",
        "rm -r l",
        "echo more >> a; rm -r l; rm c",
    ] {
        let rig = usual();
        fs::create_dir(rig.ws().join("l")).unwrap();
        for name in ["c", "l/c"] {
            fs::hard_link(rig.ws().join("a"), rig.ws().join(name)).unwrap();
        }
        undone(&rig, script);
    }
}

#[test]
fn names_of_any_kind_are_kept() {
    if !require(Need::Bash) {
        return;
    }
    let rig = usual();
    let long = "n".repeat(255);
    let script = format!(
        "mv a $'new\\nline'; echo more >> $'new\\nline'; echo x > $'\\xff\\xfe'; echo x > {long}; rm {long}; mv b {long}"
    );
    undone(&rig, &script);
}

#[test]
fn what_is_outside_of_the_workspace_is_left_alone() {
    if !require(Need::Bash) {
        return;
    }
    let rig = usual();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), "outside").unwrap();
    std::os::unix::fs::symlink(outside.path().join("f"), rig.ws().join("out")).unwrap();
    std::os::unix::fs::symlink(rig.ws().join("a"), outside.path().join("in")).unwrap();
    let outside = outside.path().display();
    let effects = rig.run(&format!("echo more >> out; echo more >> {outside}/g; rm {outside}/f"));
    assert_eq!(effects.list, []);
    let effects = undone(&rig, &format!("echo more >> {outside}/in"));
    assert_eq!(effects.list.len(), 1, "{effects:?}");
}

#[test]
fn a_command_in_namespaces_of_its_own_is_recorded() {
    if !require(Need::Bash) {
        return;
    }
    let rig = usual();
    let before = tree(&rig.ws());
    let mut command = rig.bash("rm -r d; echo more >> a; mv b c; echo x > $PWD/new");
    command.current_dir(rig.ws());
    let Ok((child, listener)) = spawn(command, Namespaces::Own) else {
        return haft_testing::missing(Need::Mounts, "no user namespace can be made");
    };
    let recorder = haft_sandbox::sandbox::recorder::Recorder::start(listener, rig.options()).unwrap();
    let effects = Recorded { child, recorder }.finish();
    assert_eq!(effects.list.len(), 4, "{effects:?}");
    restore(&effects);
    assert_eq!(differences(&before, &tree(&rig.ws())), Vec::<String>::new());
}

#[test]
fn build_folders_are_counted_and_new_objects_left_alone() {
    if !require(Need::Bash) {
        return;
    }
    let rig = usual();
    rig.write("target/CACHEDIR.TAG", "");
    rig.write("target/debug/o", "object");
    rig.write(".git/objects/aa/1", "old object");
    rig.write(".git/HEAD", "ref: main");
    let script = "rm -r target/debug; mkdir target/n; mkdir node_modules; echo 1 > node_modules/m;
        mkdir .git/objects/bb; echo 2 > .git/objects/bb/2; rm .git/objects/aa/1; echo other > .git/HEAD";
    let effects = rig.run(script);
    let shown: Vec<_> =
        effects.list.iter().map(|effect| effect.path().strip_prefix(rig.ws()).unwrap()).collect();
    let mut shown: Vec<_> = shown.iter().map(|path| path.display().to_string()).collect();
    shown.sort();
    assert_eq!(shown, [".git/HEAD", ".git/objects/aa/1"], "{effects:?}");
    let folders: Vec<_> = effects.build_folders.iter().map(|(path, _)| path.file_name().unwrap()).collect();
    assert_eq!(folders, ["node_modules", "target"]);
}

#[test]
fn content_that_is_too_large_is_told() {
    if !require(Need::Bash) {
        return;
    }
    let rig = usual();
    rig.write("large", &"x".repeat(5000));
    let limits = KeepLimits { file: 4096, total: 4100 };
    let options = |rig: &Rig| Options { limits, ..rig.options() };
    // A name that goes costs nothing, however large the file is.
    let before = tree(&rig.ws());
    let effects = rig.start_with(rig.bash("rm large"), options(&rig)).finish();
    assert_eq!(effects.not_kept, []);
    restore(&effects);
    assert_eq!(differences(&before, &tree(&rig.ws())), Vec::<String>::new());
    let effects = rig.start_with(rig.bash("echo >> large; echo >> a"), options(&rig)).finish();
    assert_eq!(effects.not_kept.len(), 1, "{effects:?}");
    assert!(effects.not_kept[0].1.contains("4096"), "{effects:?}");
    assert_eq!(effects.list.len(), 1);
}

#[test]
fn a_denied_name_is_not_created() {
    if !require(Need::Bash) {
        return;
    }
    let rig = usual();
    let deny = |path: &std::path::Path| path.file_name().is_some_and(|name| name == ".envrc");
    let options = Options { deny: Some(Arc::new(deny)), ..rig.options() };
    let script = "echo x > .envrc; mkdir .envrc; ln -s a .envrc; mv b .envrc; ln a .envrc; echo x > d/.envrc; echo x > fine";
    let effects = rig.start_with(rig.bash(script), options).finish();
    assert_eq!(effects.list.len(), 1, "{effects:?}");
    assert!(fs::symlink_metadata(rig.ws().join(".envrc")).is_err());
}

#[test]
fn a_change_past_the_recorder_is_told() {
    if !require(Need::Bash) {
        return;
    }
    let rig = usual();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let running = rig.start(rig.bash("echo more >> a; read -r -t 5 < <(sleep 0.3)"));
    let other = rig.ws().join("b");
    let start = std::time::Instant::now();
    while fs::read_to_string(rig.ws().join("a")).unwrap().len() < 6 && start.elapsed().as_secs() < 20 {
        std::thread::yield_now();
    }
    fs::write(&other, "by another program").unwrap();
    let effects = running.finish();
    assert_eq!(effects.unrecorded, [other]);
    assert_eq!(effects.list.len(), 1);
}

#[test]
fn the_new_side_is_where_it_is_now() {
    if !require(Need::Bash) {
        return;
    }
    let rig = usual();
    let effects = rig.run("mv d f; echo more >> f/x");
    let Some(Effect::Set { path, after: New::At { path: at, .. }, before: Old::File { .. } }) =
        effects.list.first()
    else {
        panic!("{effects:?}")
    };
    assert_eq!((path, at), (&rig.ws().join("d/x"), &rig.ws().join("f/x")));
}

#[test]
fn python_and_its_calls_are_recorded() {
    if !require(Need::Python) {
        return;
    }
    let rig = usual();
    let before = tree(&rig.ws());
    let script = "
import os, mmap
f = open('a', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); m[0:1] = b'X'; os.unlink('a'); m[1:2] = b'Y'
os.rename('d', 'q'); fd = os.open('q', os.O_RDONLY); os.unlink('x', dir_fd=fd); os.mkdir('n', dir_fd=fd)
f = open('b', 'r+b'); os.fchmod(f.fileno(), 0o600); f.truncate(1)
try: os.setxattr('q/e/y', 'user.t', b'1')
except OSError: pass
";
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let (status, effects) = rig.start(command).finish_with_status();
    assert!(status.success());
    restore(&effects);
    assert_eq!(differences(&before, &tree(&rig.ws())), Vec::<String>::new(), "{effects:#?}");
}
