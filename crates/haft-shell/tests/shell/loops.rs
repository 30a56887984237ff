//! Branches and loops whose parts only read, and those that look so.

use super::*;

fn is_proven(command: &str) -> bool {
    shell::read_only(&shell::parse(command)).proven()
}

#[test]
fn a_loop_over_files_that_are_only_read_is_proven() {
    let commands = [
        "for f in *.rs; do echo \"$f\"; wc -l \"$f\"; done",
        "for f in src/*.rs; do head -5 $f; done",
        "for f in a.txt b.txt; do echo == $f ==; cat \"$f\"; done",
        "for i in 1 2 3; do echo $i; done",
        "for i in {1..5}; do echo \"line $i\"; done",
        "for f in *.rs; do echo \"${f%.rs} ${#f}\"; done",
        "for f in *.md; do grep -c TODO \"$f\" | tr -d ' '; done | sort -n",
        "for d in crates/*; do ls \"$d/src\"; done",
        "for f in src/a.c src/b.c; do sort \"$f\" | uniq -c; done",
        "for f in src/*; do if [ -d \"$f\" ]; then echo dir; else wc -c \"$f\"; fi; done",
        "for f in src/*; do [ -f \"$f\" ] || continue; cat \"$f\"; break; done",
        "for d in a b; do find \"$d\" -name '*.rs'; done",
        "for f in a.txt; do awk '{print $1}' \"$f\"; git log --oneline -- \"$f\"; done",
        "while read l; do echo \"$l\"; done < file",
        "while IFS= read -r line; do printf '%s\\n' \"$line\"; done < list.txt",
        "while read -r a b; do echo $b $a; done < list.txt",
        "grep -n x f | while read l; do echo \"$l\"; done",
        "if grep -q x f; then echo y; fi",
        "if [ -f Cargo.toml ]; then cat Cargo.toml; elif test -f package.json; then cat package.json; else ls; fi",
        "until grep -q ready log; do sleep 1; done",
        "if [[ -f a ]]; then echo y; fi",
        "for f in *.rs; do [[ $f == main* ]] && echo $f; done",
        "for f in a b; do case $f in a) echo 1;; *) echo 2;; esac; done",
        "(cd src && ls)",
        "{ ls; pwd; }",
        "for f in *.rs; do wc -l < \"$f\"; done",
        "for f in *.rs; do timeout 5 wc -l \"$f\"; done",
    ];
    let doubted: Vec<_> = commands
        .into_iter()
        .filter(|command| !is_proven(command))
        .map(|command| (command, shell::read_only(&shell::parse(command))))
        .collect();
    assert_eq!(doubted, Vec::new());
}

#[test]
fn a_loop_that_may_do_more_is_not_proven() {
    let commands = [
        "for f in *.rs; do rm \"$f\"; done",
        "for c in ls rm; do $c x; done",
        "for c in ls; do \"$c\" x; done",
        "for PATH in .; do ls; done",
        "for IFS in x; do ls; done",
        "for BASH_ENV in x; do ls; done",
        "while read PATH; do ls; done < file",
        "while read -a x; do ls; done < file",
        "while read l; do cat \"$l\"; done < file",
        "while read l; do $l; done < file",
        "while read l; do ls; done > out",
        "for f in *; do echo \"$f\" > \"$f.txt\"; done",
        "for f in *; do sort \"$f\"; done",
        "for f in *.rs; do sort $f; done",
        "for f in -oout a; do sort \"$f\"; done",
        "for f in *; do uniq \"$f\"; done",
        "for f in a b; do uniq $f c; done",
        "for f in a; do find $f; done",
        "for f in *; do find \"$f\"; done",
        "for f in a; do timeout $f ls; done",
        "for f in a; do cat \"/elsewhere/$f\"; done",
        "for f in a; do cat \"$f/../../x\"; done",
        "for f in /etc/*; do cat \"$f\"; done",
        "for f in ~/.ssh/*; do cat \"$f\"; done",
        "for f in ../*; do cat \"$f\"; done",
        "for f in \"$@\"; do cat \"$f\"; done",
        "for f; do cat \"$f\"; done",
        "for f in $(ls); do cat \"$f\"; done",
        "for f in $x; do cat \"$f\"; done",
        "cat \"$HOME/x\"",
        "echo $HOME",
        "echo ${x:=y}",
        "for f in a; do echo ${!f}; done",
        "for f in a; do echo ${f@P}; done",
        "for f in a; do echo ${f:$f}; done",
        "for f in a; do echo ${x[$f]}; done",
        "for f in a; do echo \"${f:-$(touch x)}\"; done",
        "for f in a; do echo $((f)); done",
        "for f in a; do echo `touch x`; done",
        "for ((i=0; i<3; i++)); do echo $i; done",
        "for f in a; do [ $f ]; done",
        "for f in a; do [ -f $f ]; done",
        "for f in a; do [ \"$f\" \"$f\" ]; done",
        "for f in a; do [ -v \"$f\" ]; done",
        "for f in a; do [[ $f -eq 1 ]]; done",
        "for f in a; do [[ -v $f ]]; done",
        "for f in a; do printf \"$f\"; done",
        "for f in a; do command \"$f\"; done",
        "for f in a; do eval \"$f\"; done",
        "for f in a; do . \"$f\"; done",
        "for f in /dev/tcp/x/1; do cat < \"$f\"; done",
        "while read f; do cat < \"$f\"; done < x",
        "for f in a; do cat < \"/dev/tcp/$f/1\"; done",
        "for f in a; do cat < $f; done",
        "IFS=x; ls",
        "IFS=x ls",
        "x=1; echo $x",
        "while read l; do ls & done < file",
        "if curl x; then echo y; fi",
        "if true; then touch x; fi",
        "case x in x) rm x;; esac",
        "f() { ls; }; f",
        "until touch x; do ls; done",
    ];
    let proven: Vec<&str> = commands.into_iter().filter(|command| is_proven(command)).collect();
    assert_eq!(proven, Vec::<&str>::new());
}
