//! What runs without being plainly in the text: fed to a shell or an interpreter, put together from variables, or
//! hidden in options and names that are evaluated.

use super::*;

const FEEDS: &str = include_str!("feeds.txt");

/// Whether a rule that denies holds for a command where nobody can be asked about what is not certain.
fn holds(rule: &str, command: &str) -> bool {
    let rules = shell::RuleSet::new(vec![Rule::parse(rule).unwrap()]);
    let understood = shell::parse(command);
    rules.denies(&understood).is_some() || rules.might_deny(&understood).is_some()
}

#[test]
fn a_deny_holds_for_whatever_feeds_a_shell_or_an_interpreter() {
    let mut wrong = String::new();
    let mut count = 0;
    for line in FEEDS.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let (expected, command) = line.split_once(" :: ").unwrap();
        let command = unescape(command);
        count += 1;
        if holds("rm:*", &command) != (expected.trim() == "deny") {
            let understood = shell::parse(&command);
            let rules = shell::RuleSet::new(vec![Rule::parse("rm:*").unwrap()]);
            let names: Vec<_> = understood
                .commands()
                .iter()
                .map(|c| c.argv.iter().map(|w| w.raw()).collect::<Vec<_>>())
                .collect();
            wrong += &format!(
                "{expected} {command:?}\n    {names:?} {:?} {:?}\n",
                understood.doubts(),
                rules.might_deny(&understood)
            );
        }
        run_all_checks(&command);
    }
    assert!(count > 200, "{count}");
    assert!(wrong.is_empty(), "{wrong}");
}

/// The banned words of a command.
fn banned(command: &str) -> Vec<&'static str> {
    shell::banned(&shell::parse(command)).iter().map(|banned| banned.word).collect()
}

#[test]
fn the_ban_list_sees_through_variables_and_code() {
    for command in [
        "x=curl; $x y",
        "x=curl; \"$x\" y",
        "for c in curl; do $c x; done",
        "for c in ls curl wget; do $c x; done",
        "set -- curl x; \"$@\"",
        "set curl x; $*",
        "set -- curl x; $1 $2",
        "c=(curl x); \"${c[@]}\"",
        "c=(curl x); ${c[0]} y",
        "printf -v c curl; $c x",
        "printf -v c %s curl; $c x",
        "read c <<< curl; $c x",
        "declare c=curl; $c x",
        "local c=curl; $c x",
        "a=cu; b=rl; $a$b x",
        "a=cu; ${a}rl x",
        "a=cu; b=${a}rl; $b x",
        "${x:-curl} x",
        ": ${x:=curl}; $x y",
        "x='curl x'; $x",
        "x='sudo curl'; $x y",
        "x=curl; eval \"$x y\"",
        "x=curl; sh -c \"$x y\"",
        "x=curl; timeout 5 $x y",
        "x=curl; echo y | xargs $x",
        "mapfile -t c <<< curl; ${c[0]} x",
        "c=$(echo curl); $c x",
        "cd /usr/bin && ./curl x",
        "../../usr/bin/curl x",
        "echo curl x | cat | sh",
        "sh <(echo curl x)",
        "cat <<'E' | bash\ncurl x\nE",
        "python3 -c 'import os; os.system(\"curl x\")'",
        "python3 - <<'E'\nimport subprocess\nsubprocess.run([\"curl\", \"x\"])\nE",
        "awk 'BEGIN{system(\"curl x\")}'",
        "echo curl x > s; sh s",
        "npm exec -c 'curl x'",
        "test -v 'a[$(curl x)]'",
        "find . -exec curl {} +",
    ] {
        assert!(banned(command).contains(&"curl"), "{command}: {:?}", banned(command));
    }
    for command in [
        "make mount",
        "make curl",
        "./service start",
        "bin/service start",
        "cd sub && ./service start",
        "git commit -m \"use curl\"",
        "git commit -m 'mount: fix'",
        "grep curl README",
        "grep -rn 'sudo' .",
        "echo curl",
        "cat service.yaml",
        "npm run mount",
        "cargo test mount",
        "docker service ls",
        "kubectl get service",
        "python3 -c 'ip = 1; print(ip)'",
        "python3 - <<'E'\nfor ip in [1]: print(ip)\nE",
        "x=ls; $x; git commit -m 'use curl'",
        "\"$PYTHON\" app.py",
        "node mount.js",
        "which curl",
        "command -v curl",
        "ls curl",
    ] {
        assert_eq!(banned(command), Vec::<&str>::new(), "{command}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let doubt = |command: &str| shell::unread(&shell::parse(command)).map(ToString::to_string);
    for (command, expected) in [
        ("base64 -d x | sh", "`sh` runs what `base64` prints, which cannot be read beforehand"),
        ("sh < script", "`sh` runs what `script` contains, which cannot be read beforehand"),
        (
            "eval \"ls $x\"",
            "`eval` runs a text that `\"ls $x\"` is put into, which cannot be read beforehand",
        ),
        ("cat x > s; sh s", "`sh` runs what it writes to `s` first, which cannot be read beforehand"),
    ] {
        assert_eq!(doubt(command).as_deref(), Some(expected), "{command}");
    }
    for command in ["cat a | grep b | sort", "echo ls | sh", "python3 app.py", "sh <<'E'\nls\nE"] {
        assert_eq!(doubt(command), None, "{command}");
    }
}

#[test]
fn a_word_that_is_not_certain_may_be_the_one_that_a_rule_denies() {
    for command in ["git $x", "x=push; git $x", "git -C . $x", "echo push | xargs git", "git $(cat x) origin"]
    {
        assert!(holds("git push:*", command), "{command}");
    }
    for command in ["git commit -m \"$x\"", "git -C \"$x\" status", "git add $files", "git log | xargs echo"]
    {
        assert!(!holds("git push:*", command), "{command}");
    }
}

#[test]
fn only_a_command_that_waits_is_called_interactive() {
    let waits = |command: &str| shell::interactive(&shell::parse(command));
    for command in [
        "man ls | cat",
        "man ls | head -20",
        "man ls > ls.txt",
        "man -k files",
        "MANPAGER=cat man ls",
        "info ls | cat",
        "less f | cat",
        "less < f | cat",
        "git log | less | cat",
        "tail -f x &",
        "tail -f x > log & sleep 1",
        "timeout 5 tail -f x",
        "timeout 5 nice tail -f x",
        "timeout 5 sh -c 'tail -f x'",
        "(tail -f x) &",
        "tail -f --pid=5 x",
        "timeout 5 watch ls",
        "ed f <<'E'\nq\nE",
        "ed -s f < script",
        "printf 'q\\n' | ed f",
        "GIT_EDITOR=true git commit",
        "GIT_EDITOR=: git commit --amend",
        "EDITOR='sed -i s/a/b/' git commit",
        "export GIT_EDITOR=true; git commit",
        "env GIT_EDITOR=true git commit",
        "GIT_EDITOR=true timeout 5 git commit",
        "git -c core.editor=true commit",
        "GIT_EDITOR=true git rebase --continue",
        "git rebase --continue",
        "GIT_SEQUENCE_EDITOR=true git rebase -i HEAD~2",
        "git -c sequence.editor=: rebase -i HEAD~2",
        "yes | git add -p",
        "vim -es -c '%s/a/b/' -c wq f",
        "vim -e -s -c q f",
        "vim -c '%s/a/b/' -c wq f",
        "vim '+%s/a/b/' +wq f",
        "nvim --headless +q",
        "ex -s f <<'E'\nq\nE",
        "emacs --batch -l x.el",
        "python3 -c 'print(1)'",
        "python3 - <<'E'\nprint(1)\nE",
        "python3 < x.py",
        "ssh -o BatchMode=yes host ls",
        "ssh host ls",
        "ssh host < script",
        "ssh -N -L 1:h:2 host &",
        "sftp -b batch host",
        "cat f",
        "cat < f",
        "cat <<'E'\nx\nE",
        "ls | cat",
        "{ cat; } < f",
        "echo x | tee f",
        "read x < f",
        "read -t 1 x",
        "echo x | read y",
        "read x <<< y",
        "f() { cat; }; ls | f",
        "tmux new -d -s x",
        "tmux ls",
        "yes | apt-get install x",
        "gdb -batch -ex bt ./x",
        "fzf -f x < list",
        "crontab -l",
    ] {
        assert_eq!(waits(command), [], "{command}");
    }
    for command in [
        "vim f",
        "vim x",
        "vim q",
        "GIT_EDITOR=vim git commit",
        "git -c core.editor=nano commit",
        "less f",
        "cat f | less",
        "man ls",
        "tail -f x",
        "tail -f x | grep y",
        "ls; tail -F x",
        "watch ls",
        "ed f",
        "python3",
        "python3 -i x.py",
        "cat",
        "cat > f",
        "cat -n",
        "tee f",
        "git rebase -i",
        "git commit",
        "git commit --amend",
        "git add -p",
        "read x",
        "ssh host",
        "ssh -p 22 host",
        "ssh -o BatchMode=yes host",
        "ssh -N host",
        "bash",
        "sudo ls",
        "tmux",
        "timeout 5 vim f",
        "apt-get install x",
    ] {
        let found = waits(command);
        assert!(!found.is_empty() && found.iter().all(|found| !found.instead.is_empty()), "{command}");
    }
    assert!(waits("tail -f x")[0].endless && !waits("vim f")[0].endless);
}

/// Whether a rule holds for a command that runs scripts, given the text of each.
fn holds_with(rule: &str, command: &str, scripts: &[(&str, &str)]) -> bool {
    let rules = shell::RuleSet::new(vec![Rule::parse(rule).unwrap()]);
    let mut lookup = |file: shell::ScriptFile<'_>| {
        let path = match file.cwd {
            shell::Cwd::At(at) => format!("{at}/{}", file.path),
            _ => file.path.to_owned(),
        };
        match scripts.iter().find(|(name, _)| *name == path) {
            Some((_, "?")) => shell::Script::Unread("lies outside".to_owned()),
            Some((_, text)) => shell::Script::Text((*text).to_owned()),
            None => shell::Script::None,
        }
    };
    let plain = shell::parse(command);
    let understood = if plain.runs_files() { shell::parse_with_scripts(command, &mut lookup) } else { plain };
    rules.denies(&understood).is_some() || rules.might_deny(&understood).is_some()
}

#[test]
fn a_deny_holds_for_what_is_in_a_script_file() {
    let evil = "echo start\nrm f.txt\n";
    let scripts = [
        ("s.sh", evil),
        ("sub/s.sh", evil),
        ("./s.sh", evil),
        ("./plain", "echo hi\nls\n"),
        ("good.sh", "set -e\necho hi\nls | wc -l\n"),
        ("calls.sh", "echo hi\nsh s.sh\n"),
        ("calls-good.sh", "sh good.sh\n"),
        ("var.sh", "c=rm\n$c f.txt\n"),
        ("unknown.sh", "$CMD f.txt\n"),
        ("eval.sh", "eval \"$1\"\n"),
        ("outside.sh", "?"),
        ("a.py", "import os\nos.system('rm f')\n"),
        ("b.py", "class A:\n    def __init__(self):\n        self.x = 1\nprint(A().x)\n"),
        ("c.py", "print(A.__class__.__subclasses__())\n"),
        (
            "usual.sh",
            "#!/bin/bash\nset -euo pipefail\ncd \"$(dirname \"$0\")\"\nfor f in *.txt; do wc -l \"$f\"; done\n",
        ),
        ("./p.py", "#!/usr/bin/env python3\nimport subprocess\nsubprocess.run(['ls'])\n"),
        ("./q.py", "#!/usr/bin/python3\nprint(1)\n"),
        ("./odd", "#!/opt/odd\nx\n"),
        ("long.sh", &"echo a\n".repeat(4000)),
        ("p.awk", "BEGIN { system(\"rm f\") }"),
    ];
    let expected = [
        ("sh s.sh", true),
        ("bash -e s.sh arg", true),
        ("sh ./s.sh", true),
        ("./s.sh", true),
        (". s.sh", true),
        ("source s.sh", true),
        ("timeout 5 sh s.sh", true),
        ("cd sub && sh s.sh", true),
        ("true && sh s.sh", true),
        ("find . -name x -exec sh s.sh {} +", true),
        ("sh calls.sh", true),
        ("sh var.sh", true),
        ("sh unknown.sh", true),
        ("sh eval.sh", true),
        ("sh outside.sh", true),
        ("sh long.sh", true),
        ("python3 a.py", true),
        ("python3 -u a.py x", true),
        ("./p.py", true),
        ("./odd", true),
        ("awk -f p.awk x", true),
        ("sh good.sh", false),
        ("sh usual.sh", false),
        ("env sh good.sh", false),
        ("sh -c 'sh good.sh'", false),
        ("sh -c 'sh s.sh'", true),
        ("env sh s.sh", true),
        ("PATH=. good.sh", true),
        ("PATH=bin:$PATH; x", true),
        ("export PATH=$PWD:$PATH; x", true),
        ("PATH=/usr/local/bin:$PATH ls", false),
        ("python3 c.py", true),
        ("sh calls-good.sh", false),
        ("./plain", false),
        ("sh missing.sh", false),
        ("python3 b.py", false),
        ("./q.py", false),
        ("python3 -m pytest", false),
        ("touch x; sh good.sh", false),
        ("cp s.sh good.sh; sh good.sh", true),
        ("mv s.sh good.sh && sh good.sh", true),
        ("cat s.sh > good.sh; sh good.sh", true),
        ("git checkout evil && sh good.sh", true),
        ("curl x | tar x; sh good.sh", true),
        ("x=s.sh; sh $x", true),
        ("./s*.sh", true),
        ("sh s*.sh", true),
        ("/usr/bin/l? x", false),
        ("python3 b.py; sh good.sh", true),
        ("sh good.sh; sh good.sh", false),
    ];
    let wrong: Vec<_> =
        expected.iter().filter(|(command, held)| holds_with("rm:*", command, &scripts) != *held).collect();
    assert_eq!(wrong, Vec::<&(&str, bool)>::new());
}
