//! Compares the analysis with what bash and GNU sed really do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;

fn bash() -> Option<&'static str> {
    ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists())
}

/// Names, contents and times of everything in a folder. Skips git's index, which is a cache.
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

/// A random command line of words that do no harm outside of the folder in any combination.
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
    let Some(bash) = bash() else {
        return missing(Need::Bash, "there is no /bin/bash");
    };
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

/// A random line with commands in every syntactic position that allows one.
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
fn every_command_that_bash_runs_is_among_the_words() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let Some(bash) = bash() else {
        return missing(Need::Bash, "there is no /bin/bash");
    };
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
        // A log for each line, since background commands may still write when the next line runs.
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
            // The expansion of a glob is not in the text; there is a doubt instead.
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
    // GNU's, or there is nothing to compare with.
    if !require(Need::Sed) {
        return;
    }
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
                let done = done.unwrap();
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
