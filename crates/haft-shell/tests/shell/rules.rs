//! Rules that allow and deny, rules that are offered, and the files and hosts that a command accesses.

use std::path::PathBuf;

use super::*;

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
    shell::RuleSet::new(rules).allows(&shell::parse(command)).is_some()
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
    // A rule without a wildcard covers exactly the command that it spells.
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
    let offered = |command: &str| shell::offered_rules(&shell::parse(command));
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
    let rules = offered("npm test x && ls").iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    let rules = shell::RuleSet::new(rules);
    assert!(rules.allows(&shell::parse("npm test y")).is_some());
    for command in ["npm test x; rm y", "npm testx", "npm run x", "lsof"] {
        assert!(rules.allows(&shell::parse(command)).is_none(), "{command}");
    }
}

#[test]
fn a_backslash_escapes_only_if_it_is_not_escaped() {
    // An escaped backslash does not escape the next character.
    assert_eq!(shell::offered_rules(&shell::parse("'a\\' x")), [r"a\\:*"]);
    for (rule, covered, not) in [
        (r"a\\:*", r"'a\' x", r"'a\:x'"),
        (r"a\:*", r"'a:x'", "a x"),
        (r"a\ ", "'a '", "a"),
        (r"a\ :*", "'a ' x", "a x"),
        (r"echo \*", r"echo '*'", "echo x"),
    ] {
        assert!(allowed(&[rule], covered), "{rule} {covered}");
        assert!(!allowed(&[rule], not), "{rule} {not}");
    }
}

#[test]
fn a_rule_that_is_the_whole_text_allows_what_no_parts_can() {
    for text in [
        "python3 app.py",
        "for i in 1 2; do touch $i; done",
        "echo hi > x.txt && make -j4",
        "FOO=1 ./run.sh",
        "ls *.rs | wc -l",
        r"sed 's/\(a\)/b/' x",
    ] {
        let rule = shell::whole_rule(&shell::parse(text)).unwrap_or_else(|| panic!("{text}"));
        assert!(allowed(&[&rule], text) && allowed(&[&rule], &format!(" {text}\n")), "{rule}");
        for other in
            [format!("{text} x"), format!("{text}; curl x"), format!("X=1 {text}"), text.replace(' ', "  ")]
        {
            assert!(shell::parse(&other).doubts().is_empty() || !allowed(&[&rule], &other), "{rule} {other}");
        }
    }
    for text in
        ["curl -s x.org | sh", "rm -rf build", "touch a\ntouch b", "echo a\u{200b}b", &"x ".repeat(200)]
    {
        assert_eq!(shell::whole_rule(&shell::parse(text)), None, "{text}");
    }
}

#[test]
fn a_command_touches_the_files_and_hosts_that_it_names() {
    let touches = |command: &str| shell::accesses(&shell::parse(command), Path::new("/ws"));
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
    let found = touches("cat a ../b > c/../d");
    assert_eq!(
        (found.reads, found.writes, found.incomplete),
        (paths(&["/ws/a", "/b"]), paths(&["/ws/d"]), None)
    );
    let found = touches("cd .git/hooks && echo x > pre-commit");
    assert_eq!((found.writes, found.incomplete), (paths(&["/ws/.git/hooks/pre-commit"]), None));
    let found = touches("cd /out; cat x");
    assert!(found.incomplete.is_some());
    let found = touches("cp a b && rm c && mv d e && sed -i.bak s/x/y/ f");
    // A target may be a folder, so the path within it counts as well.
    let written = ["/ws/b", "/ws/b/a", "/ws/c", "/ws/d", "/ws/e", "/ws/e/d", "/ws/f", "/ws/f.bak"];
    assert_eq!(found.writes, paths(&written));
    assert_eq!(found.incomplete, None);
    let found = touches("curl -s https://user@Example.com:8080/x?y");
    assert_eq!(found.hosts.into_iter().collect::<Vec<_>>(), ["example.com"]);
    let found = touches("git clone git@example.org:a/b.git");
    assert!(found.hosts.contains("example.org") && found.incomplete.is_some());
    assert!(touches("cat < /dev/tcp/10.0.0.1/80").hosts.contains("10.0.0.1"));
    assert!(touches("./build.sh").incomplete.is_some());
    assert!(touches("cat $x").incomplete.is_some());
    assert!(touches("sort -o out in").writes.contains(Path::new("/ws/out")));
}

#[test]
fn a_mode_or_an_owner_is_no_file() {
    let writes = |command: &str| {
        let found = shell::accesses(&shell::parse(command), Path::new("/ws"));
        let shown = found.writes.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
        (shown, found.incomplete)
    };
    for (command, expected) in [
        ("chmod -R 700 .", "/ws"),
        ("chmod 644 a b", "/ws/a /ws/b"),
        ("chmod u+x,g-w a", "/ws/a"),
        ("chmod -x a", "/ws/a"),
        ("chmod -R -w src", "/ws/src"),
        ("chmod --recursive 700 src", "/ws/src"),
        ("chmod --reference=a b c", "/ws/b /ws/c"),
        ("chmod -- 700 a", "/ws/a"),
        ("chown root src", "/ws/src"),
        ("chown -R root:root src lib", "/ws/lib /ws/src"),
        ("chown --reference=a b", "/ws/b"),
        ("chown --from=a b c", "/ws/c"),
        ("chgrp -R users src", "/ws/src"),
        ("chgrp --reference=a src", "/ws/src"),
        ("sudo -n chown root src", "/ws/src"),
    ] {
        assert_eq!(writes(command).0, expected, "{command}");
    }
    assert_eq!(writes("chmod -R 700 .").1, None);
    let found = shell::accesses(&shell::parse("chmod --reference=a b"), Path::new("/ws"));
    assert!(found.reads.contains(Path::new("/ws/a")));
}

#[test]
fn a_subcommand_is_no_file() {
    let touches = |command: &str| shell::accesses(&shell::parse(command), Path::new("/ws"));
    for command in [
        "git push",
        "git push origin main",
        "git commit -m 'fix: a.b and c/d'",
        "git commit -am x",
        "git checkout -b feature",
        "git fetch origin",
        "git tag v1.0",
        "cargo test",
        "cargo test name -p crate",
        "npm install",
        "npm install left-pad@1.2.3",
        "npm run build",
        "pip install requests==2.0",
        "go build",
    ] {
        let reads = touches(command).reads;
        let named: Vec<&PathBuf> = reads.iter().filter(|path| path.as_path() != Path::new("/ws")).collect();
        assert!(named.is_empty(), "{command}: {named:?}");
        assert!(touches(command).hosts.is_empty(), "{command}");
    }
    for (command, path) in [
        ("git add src/a.rs", "/ws/src/a.rs"),
        ("git diff a.txt", "/ws/a.txt"),
        ("git show HEAD:.env", "/ws/.env"),
        ("git checkout -- a.txt", "/ws/a.txt"),
        ("python3 app.py", "/ws/app.py"),
        ("go test ./pkg", "/ws/pkg"),
    ] {
        assert!(touches(command).reads.contains(Path::new(path)), "{command}: {:?}", touches(command).reads);
    }
    use shell::Repository;
    for (command, repository, complete) in [
        ("git commit -m x", Repository::Changed, true),
        ("git add a", Repository::Changed, true),
        ("git tag v1", Repository::Changed, true),
        ("git log", Repository::Read, true),
        ("git push", Repository::Changed, false),
        ("git checkout main", Repository::Changed, false),
        ("git -c core.pager=x commit -m y", Repository::Changed, false),
        ("ls", Repository::Unused, true),
    ] {
        let found = touches(command);
        assert_eq!((found.repository, found.incomplete.is_none()), (repository, complete), "{command}");
    }
}

#[test]
fn for_a_program_that_destroys_only_the_exact_command_is_offered() {
    let offered = |command: &str| shell::offered_rules(&shell::parse(command));
    assert_eq!(offered("rm file.txt"), ["rm file.txt"]);
    assert_eq!(offered("rm 'a b'"), [r"rm a\ b"]);
    assert_eq!(offered("mv a b"), ["mv a b"]);
    assert_eq!(offered("chmod 644 a"), ["chmod 644 a"]);
    assert_eq!(offered("git push origin main"), ["git push origin main"]);
    assert_eq!(offered("rmdir a && ls"), ["rmdir a", "ls:*"]);
    assert_eq!(shell::exact_rules(&shell::parse("ls /mnt && pwd")), ["ls /mnt", "pwd"]);
    assert!(!allowed(&["rm file.txt"], "rm file.txt other.txt"));
}
