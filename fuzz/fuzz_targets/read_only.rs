//! A command that is called read-only changes nothing: it is run by bash in a sandbox that would let it, in a folder that
//! is compared before and after. The input chooses words, so that most of what is made is a command.
#![no_main]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use haft_sandbox::sandbox::{Sandbox, RunEvent, Output, Policy, Task, arm};
use haft_shell as shell;
use libfuzzer_sys::fuzz_target;

const WORDS: &[&str] = &[
    "ls", "cat", "head", "tail", "grep", "rg", "find", "sort", "uniq", "wc", "git", "sed", "awk", "cut", "tr", "tee",
    "diff", "cmp", "stat", "file", "du", "df", "echo", "printf", "true", "test", "pwd", "cd", "env", "xargs", "timeout",
    "nice", "command", "status", "log", "diff", "show", "branch", "-n", "-i", "-o", "-r", "-exec", "-delete", "-name",
    "-c", "-e", "-f", "-p", "-w", "--output=M", "--pre", "--", "-", "M", "a.txt", "b/c.txt", ".", "..", "*", "*.txt",
    "?", "[a-z]*", "{a,b}", "~", "$HOME", "$(touch M)", "`touch M`", "${x:-M}", "'a b'", "\"a $x\"", "|", "||", "&&",
    ";", "&", ">", ">>", "<", "2>", "&>", "2>&1", "<<<", "(", ")", "{", "}", "!", "if", "then", "fi", "for", "do",
    "done", "\n", "1,2p", "s/a/b/",
];

static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());

fuzz_target!(init: arm(), |data: &[u8]| {
    let words: Vec<&str> = data.iter().take(24).map(|byte| WORDS[usize::from(*byte) % WORDS.len()]).collect();
    let text = words.join(" ");
    if !shell::read_only(&shell::parse(&text)).proven() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("b")).unwrap();
    for file in ["a.txt", "b/c.txt"] {
        std::fs::write(root.join(file), "a\nb\n").unwrap();
    }
    let before = seen(&root);
    RUNTIME.block_on(run(&text, &root));
    assert_eq!(seen(&root), before, "{text}");
});

/// Every file and its content.
fn seen(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        found.insert(entry.path(), std::fs::read(entry.path()).ok());
        if entry.path().is_dir() {
            found.extend(seen(&entry.path()));
        }
    }
    found
}

async fn run(text: &str, root: &Path) {
    let policy = Policy { write: vec![root.to_owned()], ..Policy::default() };
    let sandbox = Sandbox::new(&policy, Output::Joined).await.unwrap();
    let task = Task {
        program: "/bin/bash".into(),
        args: ["--noprofile", "--norc", "-c", text].map(Into::into).into(),
        dir: root.to_owned(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        tells_dir: false,
    };
    let mut running = sandbox.run(task).await.unwrap();
    let ends = async { while !matches!(running.next().await, Ok(RunEvent::Ended(_)) | Err(_)) {} };
    let _ = tokio::time::timeout(Duration::from_secs(2), ends).await;
}
