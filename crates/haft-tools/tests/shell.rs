//! What commands come to: a table to read, properties over random text, and what bash really does with generated
//! command lines.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haft_tools::shell::{self, Rule, Side, Understood};
use proptest::prelude::*;

const NASTY: &str = include_str!("shell/nasty.txt");

/// The commands of the table, with what is expected of them.
fn nasty() -> Vec<(BTreeSet<String>, String)> {
    let lines = NASTY.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let table = lines.map(|line| {
        let (tags, command) = line.split_once(" :: ").unwrap();
        (tags.split_whitespace().map(unescape).collect(), unescape(command))
    });
    table.collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest[at + 1..].chars().next().unwrap();
        rest = &rest[at + 2..];
        match code {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '0' => out.push('\0'),
            'u' => {
                let (hex, after) = rest[1..].split_once('}').unwrap();
                out.push(char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap());
                rest = after;
            }
            c => out.push(c),
        }
    }
    out + rest
}

fn come_to(understood: &Understood) -> BTreeSet<String> {
    let mut tags = BTreeSet::new();
    let proof = shell::read_only(understood);
    tags.insert(match (proof.proven(), understood.doubts()) {
        (true, _) => "read-only".to_owned(),
        (_, []) => "known".to_owned(),
        _ => "unknown".to_owned(),
    });
    for banned in shell::banned(understood) {
        tags.insert(format!("banned:{}", banned.category.name()));
    }
    let sensitive = shell::sensitive(understood);
    if sensitive.iter().any(|sensitive| sensitive.catastrophic) {
        tags.insert("catastrophic".to_owned());
    } else if !sensitive.is_empty() {
        tags.insert("sensitive".to_owned());
    }
    if !shell::interactive(understood).is_empty() {
        tags.insert("interactive".to_owned());
    }
    tags
}

#[test]
fn every_nasty_command_comes_to_what_it_is() {
    let table = nasty();
    assert!(table.len() >= 120);
    let mut wrong = String::new();
    for (tags, command) in &table {
        let understood = shell::parse(command);
        let mut found = come_to(&understood);
        for tag in tags
            .iter()
            .filter(|tag| tag.strip_prefix("runs:").is_some_and(|word| understood.words().contains(word)))
        {
            found.insert(tag.clone());
        }
        if found != *tags {
            let _ = writeln!(
                wrong,
                "{command:?}\n  expected {tags:?}\n  found    {found:?}\n  words {:?} doubts {:?} {:?} {:?}",
                understood.words(),
                understood.doubts(),
                shell::read_only(&understood),
                shell::sensitive(&understood)
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whatever is asked about a command, so that nothing of it panics.
fn ask_everything(text: &str) {
    let understood = shell::parse(text);
    come_to(&understood);
    shell::touches(&understood, Path::new("/ws"));
    for rule in shell::patterns(&understood) {
        // What is offered for a command covers it.
        assert!(Rule::parse(&rule).is_ok(), "{rule}");
    }
    let offered: Vec<Rule> =
        shell::patterns(&understood).iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    assert!(offered.is_empty() || shell::allowed_by(&offered, &understood), "{text:?}");
    shell::matches(text, &understood, Side::Allow);
    shell::matches(text, &understood, Side::Deny);
    if let Some(edit) = shell::in_place(&understood) {
        edit.apply("one\ntwo\nthree");
        edit.apply("äöü\n\n");
    }
}

#[test]
fn the_table_can_be_asked_everything() {
    for (_, command) in nasty() {
        ask_everything(&command);
    }
}

/// A small generator, so that the lines are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }
}

/// Changes a few characters: deletes, doubles, swaps, or puts in what shells care for.
fn mutate(text: &str, dice: &mut Dice) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(chars.len().max(1));
        match dice.roll(5) {
            0 if at < chars.len() => drop(chars.remove(at)),
            1 if at + 1 < chars.len() => chars.swap(at, at + 1),
            2 if at < chars.len() => chars.insert(at, chars[at]),
            _ => {
                let piece = dice.pick(&[
                    "'", "\"", "$(", ")", "`", "\\", ";", "&", "|", "<", ">", "{", "}", "\n", " ", "$", "((",
                    "<<E\n", "#", "~", "[", "*", "!", "=", "-",
                ]);
                for (n, c) in piece.chars().enumerate() {
                    chars.insert((at + n).min(chars.len()), c);
                }
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn mutated_commands_never_panic() {
    let mut dice = Dice(7 + lines(0) as u64);
    let table = nasty();
    for _ in 0..lines(6000) {
        let command = &table[dice.roll(table.len())].1;
        ask_everything(&mutate(command, &mut dice));
    }
}

#[test]
fn text_that_nests_without_end_is_refused_and_searched() {
    let openings = [
        "(",
        "( ",
        "((",
        "{ ",
        "$(",
        "${a:-",
        "$((",
        "`",
        "\"$(",
        "if ",
        "if x; then ",
        "case x in a) ",
        "case x in (a) ",
        "while ",
        "f() { ",
        "[[ ( ",
        "[[ ! ",
        "! ",
        "time ",
        "<(",
        "x=(",
        "@(",
        "coproc ",
        "sh -c '",
        "eval ",
        "sudo ",
        "timeout 1 ",
        "<<a ",
        "\\\n",
        "[",
        "~",
        "a\\\n#",
        "xargs ",
        "find . -exec ",
        "a|",
        "a&",
        "a;",
        "a&&",
        "((( $(",
        "for x in ",
        "function f ",
        "select x in a; do ",
    ];
    for opening in openings {
        for count in [3, 9, 31, 40, 200, 16 * 1024 / opening.len()] {
            let text = format!("{}touch M", opening.repeat(count));
            ask_everything(&text);
            let closed = format!(
                "{text}{}",
                if opening.ends_with(['(', ' ']) { ")".repeat(count) } else { "}".repeat(count) }
            );
            ask_everything(&closed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        ask_everything(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_shell_never_panics(text in "([a-z ]{0,3}[-;&|()<>{}\\[\\]$`'\"\\\\#~*?!=\n 0-9]{0,3}){0,20}") {
        ask_everything(&text);
    }
}

#[test]
fn a_deny_is_found_behind_any_number_of_commands() {
    for separator in ["; ", " && ", " | ", "\n"] {
        let text = format!("{}curl http://127.0.0.1:1/", format!("true{separator}").repeat(60));
        assert!(shell::matches("curl *", &shell::parse(&text), Side::Deny), "{separator:?}");
        let long = format!("{}curl x", format!("true{separator}").repeat(5000));
        assert!(shell::matches("curl *", &shell::parse(&long), Side::Deny), "{separator:?}");
    }
    let padded = format!("ls{}; touch M", " ".repeat(10_000));
    assert!(shell::parse(&padded).words().contains("touch"));
    assert!(!shell::read_only(&shell::parse(&padded)).proven());
}

/// Whether rules allow a command.
fn allowed(rules: &[&str], command: &str) -> bool {
    let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    shell::allowed_by(&rules, &shell::parse(command))
}

#[test]
fn rules_end_at_words() {
    for rule in ["ls *", "ls:*"] {
        assert!(allowed(&[rule], "ls"));
        assert!(allowed(&[rule], "ls -la"));
        assert!(allowed(&[rule], "timeout 5 ls -la"));
        assert!(!allowed(&[rule], "lsof"));
        assert!(!allowed(&[rule], "ls-evil"));
        assert!(!allowed(&[rule], "./ls"));
        assert!(!allowed(&[rule], "ls *.rs"));
        assert!(!allowed(&[rule], "ls > f"));
        assert!(!allowed(&[rule], "ls &"));
        assert!(!allowed(&[rule], "FOO=bar ls"));
    }
    assert!(allowed(&["ls*"], "lsof -i"));
    assert!(allowed(&["npm test"], "npm test"));
    assert!(!allowed(&["npm test"], "npm testevil"));
    assert!(!allowed(&["npm test"], "npm test x"));
    assert!(!allowed(&["git status"], "git status -s"));
    assert!(allowed(&["npm run *:watch"], "npm run css:watch"));
    assert!(!allowed(&["npm run *:watch"], "npm run css:watch x"));
    assert!(allowed(&["git status *", "ls *"], "git status && ls | ls"));
    assert!(!allowed(&["git status *", "ls *"], "git status && ls; touch M"));
    assert!(allowed(&["npm test:*"], "cd web && npm test"));
    assert!(!allowed(&["npm test:*"], "cd ../web && npm test"));
    assert!(!allowed(&["git status:*"], "cd web && git status"));
    assert!(!allowed(&[], ""));
    assert!(Rule::parse("  ").is_err());
    assert!(Rule::parse("a\\").is_err());
}

#[test]
fn a_wildcard_covers_nothing_that_runs_or_writes_something_else() {
    for command in [
        "find . -delete",
        "find . -exec touch M +",
        "rg --pre x y",
        "sed -i s/a/b/ f",
        "sed '1w M' f",
        "sort -o M f",
        "uniq f M",
        "tar cf x f --checkpoint-action=exec=x",
        "tar -I x -cf y z",
        "tar cIf x y z",
        "tar xf host:a",
        "gcc -fplugin=x y",
        "git -c a.b=c status",
        "git -C x status",
        "git -p log",
        "git grep -Ox y",
        "git rebase -x y",
        "git bisect run x",
        "git ls-remote ext::sh",
        "git log --output=M",
        "git config a.b c",
        "sh x",
        "bash -c ls",
        "npx x",
        "uvx x",
        "docker exec x y",
        "make",
        "sudo ls",
        "env ls",
        "xargs ls",
        "python3 -c x",
        "ssh host ls",
        "eval ls",
        "awk 'BEGIN{system(1)}'",
        "printf -v x y",
        "test -v 'a[1]'",
        "curl -o f x",
        "dd of=M",
    ] {
        let program = command.split(' ').next().unwrap();
        assert!(!allowed(&[&format!("{program} *")], command), "{command}");
        assert!(!allowed(&["*"], command), "{command}");
    }
    assert!(allowed(&["git *"], "git commit -m x"));
    assert!(allowed(&["python3 *"], "python3 x.py"));
    // Somebody wrote down exactly that.
    assert!(allowed(&["sudo ls"], "sudo ls"));
    assert!(allowed(&["make test"], "make test"));
    assert!(!allowed(&["bash -c ls"], "bash -c 'ls; touch M'"));
}

#[test]
fn a_deny_sees_through_disguises() {
    let denied = |rule: &str, command: &str| shell::matches(rule, &shell::parse(command), Side::Deny);
    for (tags, command) in nasty() {
        if tags.contains("runs:touch") {
            assert!(denied("touch *", &command), "{command:?}");
        }
    }
    assert!(denied("git push *", "git -C x push origin"));
    assert!(denied("git push *", "git -c a=b --no-pager push"));
    assert!(denied("python *", "python3.11 x"));
    assert!(denied("/bin/rm *", "/bin/rm x"));
    assert!(!denied("git push *", "git log push"));
    assert!(!denied("curl *", "grep curl f"));
    assert!(!denied("curl *", "git commit -m 'use curl; wget'"));
    assert!(denied("\\", "ls"));
}

#[test]
fn the_rules_that_are_offered_are_literal_and_no_wider() {
    let offered = |command: &str| shell::patterns(&shell::parse(command));
    assert_eq!(offered("git status"), ["git status:*"]);
    assert_eq!(offered("npm run test -- --watch"), ["npm run test:*"]);
    assert_eq!(offered("cargo test -p x && ls -la"), ["cargo test:*", "ls:*"]);
    assert_eq!(offered("cd web && timeout 60 npm test"), ["npm test:*"]);
    assert_eq!(offered("'a b' x"), ["a\\ b:*"]);
    for command in [
        "npm test *.js && ls",
        "ls $(x)",
        "sudo ls",
        "env ls",
        "bash x.sh",
        "python3 x.py",
        "npx x",
        "docker ps",
        "ls > f",
        "find . -delete",
        "rm -rf x",
        "git -C x status",
        "./x.sh",
        "xargs ls",
        "git push --force",
        "ls; rm a b",
        "FOO=1 ls",
        "make",
    ] {
        assert_eq!(offered(command), Vec::<String>::new(), "{command}");
    }
    let rules: Vec<Rule> =
        offered("npm test x && ls").iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    assert!(shell::allowed_by(&rules, &shell::parse("npm test y")));
    for command in ["npm test x; rm y", "npm testx", "npm run x", "lsof"] {
        assert!(!shell::allowed_by(&rules, &shell::parse(command)), "{command}");
    }
}

#[test]
fn what_a_command_touches_is_what_it_names() {
    let touches = |command: &str| shell::touches(&shell::parse(command), Path::new("/ws"));
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
    let found = touches("cat a ../b > c/../d");
    assert_eq!(
        (found.reads, found.writes, found.unknown),
        (paths(&["/ws/a", "/b"]), paths(&["/ws/d"]), None)
    );
    let found = touches("cd .git/hooks && echo x > pre-commit");
    assert_eq!((found.writes, found.unknown), (paths(&["/ws/.git/hooks/pre-commit"]), None));
    let found = touches("cd /out; cat x");
    assert!(found.unknown.is_some());
    let found = touches("cp a b && rm c && mv d e && sed -i.bak s/x/y/ f");
    assert_eq!(found.writes, paths(&["/ws/b", "/ws/c", "/ws/d", "/ws/e", "/ws/f", "/ws/f.bak"]));
    assert_eq!(found.unknown, None);
    let found = touches("curl -s https://user@Example.com:8080/x?y");
    assert_eq!(found.hosts.into_iter().collect::<Vec<_>>(), ["example.com"]);
    let found = touches("git clone git@example.org:a/b.git");
    assert!(found.hosts.contains("example.org") && found.unknown.is_some());
    assert!(touches("cat < /dev/tcp/10.0.0.1/80").hosts.contains("10.0.0.1"));
    assert!(touches("./build.sh").unknown.is_some());
    assert!(touches("cat $x").unknown.is_some());
    assert!(touches("sort -o out in").writes.contains(Path::new("/ws/out")));
}

// What bash does.

/// How many lines are tried; `HAFT_TEST_LINES` says otherwise, and each number tries other ones.
fn lines(usual: usize) -> usize {
    std::env::var("HAFT_TEST_LINES").ok().and_then(|lines| lines.parse().ok()).unwrap_or(usual)
}

fn bash() -> Option<&'static str> {
    ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists())
}

/// Everything in a folder: names, contents and times. git's index is a cache of what it has read.
fn snapshot(folder: &Path, found: &mut BTreeMap<PathBuf, (Vec<u8>, Option<std::time::SystemTime>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(".git/index") || path.ends_with(".git") {
            continue;
        }
        let data = std::fs::symlink_metadata(&path).unwrap();
        if data.is_dir() {
            found.insert(path.clone(), (Vec::new(), None));
            snapshot(&path, found);
        } else {
            found.insert(path.clone(), (std::fs::read(&path).unwrap_or_default(), data.modified().ok()));
        }
    }
}

/// A command line of words that do no harm outside of the folder, whatever they come to together.
fn line(dice: &mut Dice) -> String {
    let programs = [
        "ls",
        "cat",
        "head",
        "tail",
        "grep",
        "rg",
        "find",
        "sort",
        "uniq",
        "sed",
        "awk",
        "git status",
        "git log",
        "git diff",
        "git branch",
        "git tag",
        "git grep",
        "git show",
        "git config",
        "git stash",
        "git remote",
        "git rev-parse",
        "wc",
        "stat",
        "file",
        "diff",
        "cmp",
        "sha256sum",
        "du",
        "date",
        "printf",
        "echo",
        "test",
        "[",
        "basename",
        "realpath",
        "tr",
        "cut",
        "comm",
        "join",
        "paste",
        "fold",
        "nl",
        "od",
        "hexdump",
        "xxd",
        "jq",
        "tree",
        "column",
        "seq 3",
        "tar",
        "tee",
        "touch",
        "env",
        "xargs",
        "timeout 1",
        "nice",
        "command",
        "command -v",
        "time",
        "cd",
        "shuf",
        "iconv",
        "dd",
        "python3 --version",
        "split",
        "fd",
        "true",
        "unzip",
        "stdbuf -oL",
        "which",
        "type",
        "base64",
        "strings",
        "readlink",
        "expr",
        "fmt",
        "tac",
    ];
    let words = [
        "a.txt",
        "b.txt",
        "sub",
        "sub/c.rs",
        "M",
        "-n",
        "-o",
        "-oM",
        "--output=M",
        "--out=M",
        "-i",
        "-l",
        "-la",
        "-c",
        "-e",
        "1p",
        "'1,2p'",
        "s/a/b/",
        "'s/a/b/w M'",
        "'1w M'",
        "'s/a/touch M/e'",
        "p",
        "-exec",
        "touch",
        "';'",
        "+",
        "{}",
        "-delete",
        "-fprint",
        "-name",
        "'*.rs'",
        "-r",
        "-R",
        "--",
        "-",
        ".",
        "'{print $1}'",
        "'{print > \"M\"}'",
        "'BEGIN{system(\"touch M\")}'",
        "x",
        "1",
        "2",
        "-f",
        "-t",
        "-k",
        "-v",
        "-tf",
        "cf",
        "tf",
        "of=M",
        "if=a.txt",
        "HEAD",
        "-a",
        "--list",
        "new",
        "'a[$(touch M)]'",
        "%n",
        "-v",
        "-eq",
        "0",
        "]",
        "-T",
        "-z",
        "-s",
        "--pre=./p.sh",
        "--pre",
        "./p.sh",
        "-O./p.sh",
        "--ext-diff",
        "-m",
        "-d",
        "-C",
        "-p",
        "-w",
        "-x",
        "-X",
        "--exec",
        "*.txt",
        "a*",
        "--files0-from=a.txt",
        "-D",
        "-u",
        "alias.x",
        "--get",
        "user.name",
        "drop",
        "list",
        "add",
    ];
    let between = [" | ", " && ", " ; ", " || ", "\n", " |& ", " & "];
    let ends = [
        "",
        "",
        "",
        "",
        " > M",
        " 2>/dev/null",
        " > /dev/null",
        " < a.txt",
        " >> a.txt",
        " 2>&1",
        " &> M",
        " <> M",
        " >& M",
        " # x",
    ];
    let mut text = String::new();
    for n in 0..=dice.roll(3) {
        if n > 0 {
            text.push_str(dice.pick(&between));
        }
        text.push_str(dice.pick(&programs));
        for _ in 0..dice.roll(5) {
            text.push(' ');
            text.push_str(dice.pick(&words));
        }
        text.push_str(dice.pick(&ends));
    }
    if dice.roll(6) == 0 { mutate(&text, dice) } else { text }
}

#[test]
fn what_is_called_read_only_changes_nothing() {
    let Some(bash) = bash() else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir(root.join("sub")).unwrap();
    std::fs::write(root.join("a.txt"), "a 1\nb 2\na 1\n").unwrap();
    std::fs::write(root.join("b.txt"), "b\nc\n").unwrap();
    std::fs::write(root.join("sub/c.rs"), "fn a() {}\n").unwrap();
    std::fs::write(root.join("p.sh"), "#!/bin/sh\ntouch M\n").unwrap();
    let run = |text: &str| {
        let mut command = Command::new(bash);
        command.args(["--noprofile", "--norc", "-c", text]).current_dir(root).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", root).env("GIT_CEILING_DIRECTORIES", root);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap()
    };
    run(
        "chmod +x p.sh; git init -q . && git config user.name x && git config user.email x@y && git add -A && git commit -qm x && git tag t",
    );
    let mut before = BTreeMap::new();
    snapshot(root, &mut before);
    let refs = || {
        Command::new("git").args(["for-each-ref"]).current_dir(root).output().map(|output| output.stdout).ok()
    };
    let known = refs();
    let mut dice = Dice(11 + lines(0) as u64);
    let (mut tried, mut proven) = (0, 0);
    while proven < lines(400) && tried < lines(400) * 500 {
        tried += 1;
        let text = line(&mut dice);
        if !shell::read_only(&shell::parse(&text)).proven() || text.contains("/dev/stdin") {
            continue;
        }
        proven += 1;
        run(&format!("exec timeout -s KILL 2 {bash} --noprofile --norc -c {}", quoted(&text)));
        let mut after = BTreeMap::new();
        snapshot(root, &mut after);
        assert!(before == after, "{text:?} was called read-only");
    }
    assert!(proven >= 300, "{proven} of {tried} lines were called read-only");
    assert_eq!(refs(), known);
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A line in which commands stand wherever they can.
fn nested_line(dice: &mut Dice, depth: usize) -> String {
    let command = |dice: &mut Dice| {
        dice.pick(&["zz1", "zz2", "zz3", "zz4", "z\"z1\"", "'zz2'", "z\\z3", "bin/zz4"]).to_owned()
    };
    let inner = |dice: &mut Dice| if depth == 0 { command(dice) } else { nested_line(dice, depth - 1) };
    let a = inner(dice);
    let b = inner(dice);
    let c = command(dice);
    match dice.roll(48) {
        0 => format!("{a}; {b}"),
        1 => format!("{a} | {b}"),
        2 => format!("{a} && {b} || {c}"),
        3 => format!("{a}\n{b}"),
        4 => format!("echo $({a})"),
        5 => format!("echo \"x $({a}) y\""),
        6 => format!("echo `{c} x`"),
        7 => format!("( {a} )"),
        8 => format!("{{ {a}; }}"),
        9 => format!("( ( {a} ) )"),
        10 => format!("if {a}; then {b}; else {c}; fi"),
        11 => format!("for i in 1 2; do {a}; done"),
        12 => format!("while {a}; do {b}; break; done"),
        13 => format!("case x in y) {a};; x) {b};; esac"),
        14 => format!("f() {{ {a}; }}; f"),
        15 => format!("cat <<E\n$({c})\nE\n{a}"),
        16 => format!("cat <<-\"E\" | {c} $({b})\n\tE\n{a}"),
        17 => format!("sh -c {}", quoted(&a)),
        18 => format!("bash -ec {}", quoted(&a)),
        19 => format!("eval {}", quoted(&a)),
        20 => format!("env X=1 {c} a"),
        21 => format!("timeout 5 {c} a"),
        22 => format!("nice -n 1 {c}"),
        23 => format!("echo a | xargs {c}"),
        24 => format!("find . -maxdepth 0 -exec {c} {{}} \\;"),
        25 => format!("{c} <({a})"),
        26 => format!("x=$({a}) {c}"),
        27 => format!("echo ${{u:-$({c})}}"),
        28 => format!("echo \"${{u:-'$({c})'}}\""),
        29 => format!("! {a}"),
        30 => format!("time {a}"),
        31 => format!("trap {} EXIT", quoted(&c)),
        32 => format!("echo {c} | sh"),
        33 => format!("bash <<< {}", quoted(&a)),
        34 => format!("[[ -n $({c}) ]] && {a}"),
        35 => format!("echo $(( $({c} >/dev/null; echo 1) + 1 ))"),
        36 => format!("command {c}"),
        37 => format!("exec {c}"),
        38 => format!("{a} & wait"),
        39 => format!("echo x # {c}\n{a}"),
        40 => format!("echo wait$(({c}) )"),
        41 => format!("coproc {c}; wait"),
        42 => format!("a=(1 $({c})); {b}"),
        43 => format!("until {a}; do {b}; done"),
        44 => format!("> o {a}"),
        45 => "echo \\\n x; zz\\\n1".to_owned(),
        46 => format!("builtin eval {c}"),
        _ => c,
    }
}

#[cfg(unix)]
#[test]
fn bash_runs_no_command_that_is_not_among_the_words() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let Some(bash) = bash() else { return };
    let folder = tempfile::tempdir().unwrap();
    let stubs = folder.path().join("stubs");
    let work = folder.path().join("work");
    std::fs::create_dir(&stubs).unwrap();
    std::fs::create_dir_all(work.join("bin")).unwrap();
    for name in ["zz1", "zz2", "zz3", "zz4"] {
        let stub = stubs.join(name);
        std::fs::write(&stub, "#!/bin/sh\necho \"${0##*/}\" >> \"$LOG\"\n").unwrap();
        std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&stub, work.join("bin").join(name)).unwrap();
    }
    for name in ["sh", "bash", "env", "timeout", "nice", "xargs", "find", "cat"] {
        let real =
            ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
        symlink(real.unwrap(), stubs.join(name)).unwrap();
    }
    let mut dice = Dice(99 + lines(0) as u64);
    let mut ran = 0;
    for n in 0..lines(500) {
        // What goes on in the background writes to the log of its own line.
        let log = folder.path().join(format!("log{n}"));
        let depth = dice.roll(3);
        let text = nested_line(&mut dice, depth);
        let text = if dice.roll(3) == 0 { mutate(&text, &mut dice) } else { text };
        std::fs::write(&log, "").unwrap();
        let mut command = Command::new("/usr/bin/timeout");
        command
            .args(["-s", "KILL", "2", bash, "--noprofile", "--norc", "-c", &text])
            .current_dir(&work)
            .env_clear();
        command.env("PATH", &stubs).env("LOG", &log);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap();
        let understood = shell::parse(&text);
        for name in std::fs::read_to_string(&log).unwrap().lines() {
            ran += 1;
            // What a pattern becomes is in no text; it is doubtful instead.
            let pattern = text.contains(['*', '[', '?']) && !understood.doubts().is_empty();
            assert!(
                pattern || understood.words().contains(name),
                "bash ran {name} in {text:?}, words are {:?}",
                understood.words()
            );
        }
    }
    assert!(ran > 300, "only {ran} commands were run");
}

#[test]
fn sed_does_what_is_shown_before() {
    let scripts = [
        "s/a/b/",
        "s/a/b/g",
        "s/a/b/2",
        "s/a/b/2g",
        "s/[0-9]\\+/<&>/g",
        "s/\\([a-z]*\\)=\\(.\\)/\\2=\\1/",
        "/^#/d",
        "2d",
        "$d",
        "2,3d",
        "/x/,/y/d",
        "/x/,2d",
        "s/^/> /",
        "s/$/;/",
        "s/^ *//",
        "s/ *$//",
        "/a/!d",
        "s,/usr,/opt,g",
        "s/a\\/b/c/",
        "s/x*$/e/",
        "s/.*foo.*/bar/",
        "s/A/b/I",
        "1s/a/b/;2s/b/c/",
        "s/\"v\": \"[^\"]*\"/\"v\": \"2\"/",
        "s/a\\{2\\}/X/",
        "s/\\./,/g",
        "s/\\s\\+$//",
        "s/[[:space:]]*$//",
        "s/a/b\\nc/",
        "2,$s/a/X/",
        "s/a\\|b/c/",
        "s/\\(ab\\)*/x/",
        "s/a*/x/g",
        "$!d",
        "p",
        "s/e/E/p",
        "s/a.c/&&/",
    ];
    let texts = [
        "",
        "a",
        "a\n",
        "a=1\nb=2\nfoo bar\n",
        "# c\nx aa a\n y  \nfoo=bar\naaa",
        "\n\n\n",
        "/usr/a/b \"v\": \"1.0\" A 10.20\nabc x y\nxx\ny\n",
        "ä a\r\nb\r\n",
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    let mut shown = 0;
    for script in scripts {
        for flags in ["-i", "-n -i", "-E -i", "-i.bak"] {
            let command = format!("sed {flags} {} f", quoted(script));
            let Some(edit) = shell::in_place(&shell::parse(&command)) else { continue };
            assert_eq!(edit.file, "f");
            assert_eq!(edit.backup.as_deref(), (flags == "-i.bak").then_some("f.bak"));
            for text in texts {
                let Some(expected) = edit.apply(text) else { continue };
                std::fs::write(&file, text).unwrap();
                let mut sed = Command::new("sed");
                let done = sed
                    .args(flags.split(' '))
                    .arg(script)
                    .arg("f")
                    .current_dir(folder.path())
                    .env("LC_ALL", "C")
                    .output();
                // GNU's, or there is nothing to compare with.
                let Ok(done) = done else { return };
                if done.status.success() {
                    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected, "{command} on {text:?}");
                    shown += 1;
                }
            }
        }
    }
    assert!(shown > 300, "{shown}");
    for command in [
        "sed s/a/b/ f",
        "sed -i s/a/b/ f g",
        "sed -i s/a/b/ $f",
        "sed -i s/a/b/e f",
        "sed -i 's/a|b/c/' -E f",
        "sed -i s/a/b/ f; ls",
        "sed -i -z s/a/b/ f",
    ] {
        assert!(shell::in_place(&shell::parse(command)).is_none(), "{command}");
    }
}
