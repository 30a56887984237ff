//! What a command sees and changes of the file system.

use std::path::Path;

use haft_sandbox::sandbox::{Policy, Visibility};

use crate::{Rig, Test, tests};

pub(crate) const TESTS: &[(&str, Test)] = tests![nothing_is_written_outside, what_is_hidden_is_not_seen,];

/// Those that are about the view, which is one of the layers.
pub(crate) const VIEW_TESTS: &[(&str, Test)] = tests![
    attributes_outside_stay,
    temporary_files_are_private,
    a_folder_to_read_stays_visible_in_a_hidden_one,
];

fn a_folder_to_read_stays_visible_in_a_hidden_one(rig: &Rig) {
    let kept = rig.path("secret/deep/kept");
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::write(kept.join("file"), "kept").unwrap();
    for sees in [Visibility::Everything, Visibility::Listed] {
        let policy = Policy { read: vec![kept.clone()], sees, ..rig.policy.clone() };
        let path = kept.display();
        assert_eq!(rig.with(&policy, &format!("cat {path}/file")).out, "kept");
        for script in
            [format!("cat {path}/../../key"), format!("echo x > {path}/file"), format!("touch {path}/../x")]
        {
            let done = rig.with(&policy, &script);
            assert!(!done.succeeded(), "{script}: {}", done.out);
        }
    }
}

fn nothing_is_written_outside(rig: &Rig) {
    let outside = rig.path("outside");
    let outside = outside.display();
    let tries = [
        format!("echo x > {outside}/new"),
        format!("echo x >> {outside}/file"),
        format!("rm {outside}/file"),
        format!("mv {outside}/file here"),
        format!("ln {outside}/file here && echo x > here"),
        format!("ln -s {outside}/file there && echo x > there"),
        format!("mkdir {outside}/new"),
        format!("truncate -s 0 {outside}/file"),
        "echo x > /etc/haft-was-here".to_owned(),
        "echo x > /proc/sys/kernel/core_pattern".to_owned(),
    ];
    for script in tries {
        assert!(!rig.bash(&script).succeeded(), "{script}");
    }
    assert_eq!(std::fs::read(rig.path("outside/file")).unwrap(), b"outside");
    assert_eq!(std::fs::read_dir(rig.path("outside")).unwrap().count(), 1);
    assert!(!Path::new("/etc/haft-was-here").exists());
    let done = rig.bash("echo inside > file && cat file");
    assert_eq!(done.out, "inside\n", "{}", done.err);
    assert_eq!(std::fs::read(rig.path("ws/file")).unwrap(), b"inside\n");
}

fn attributes_outside_stay(rig: &Rig) {
    let file = rig.path("outside/file");
    let before = std::fs::metadata(&file).unwrap();
    for change in ["chmod 777", "chown 1:1", "touch -d 2001-01-01"] {
        let script = format!("{change} {}", file.display());
        assert!(!rig.bash(&script).succeeded(), "{script}");
    }
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!(before.permissions(), after.permissions());
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
}

fn temporary_files_are_private(rig: &Rig) {
    let done = rig.bash("echo x > /tmp/haft-sandbox-test && cat /tmp/haft-sandbox-test && mktemp");
    assert!(done.succeeded() && done.out.starts_with("x\n/tmp/"), "{} {}", done.out, done.err);
    assert!(!Path::new("/tmp/haft-sandbox-test").exists());
}

fn what_is_hidden_is_not_seen(rig: &Rig) {
    let secret = rig.path("secret/key");
    let done = rig.bash(&format!("cat {}; cat {}", secret.display(), rig.path("outside/file").display()));
    assert_eq!(done.out, "outside", "{}", done.err);
}
