//! Unit tests of single modules; `tests/shell` tests whole commands.

use super::options::{Options, has_args_after_operand};
use super::{Cwd, Doubt, RedirectKind, Word, parse};

#[test]
fn words_are_read_as_bash_reads_them() {
    for (raw, text, doubt) in [
        ("plain", "plain", None),
        ("'a b'\"c d\"", "a bc d", None),
        ("\"a\\\"b\\n\\\\\"", "a\"b\\n\\", None),
        ("a\\ b", "a b", Some(Doubt::Backslash)),
        ("$'\\x41\\102\\n'", "AB\n", Some(Doubt::Quoting)),
        ("$x", "$x", Some(Doubt::Expansion)),
        ("\"$(x)\"", "$(x)", Some(Doubt::Substitution)),
        ("\"cost: 5$\"", "cost: 5$", None),
        ("*.rs", "*.rs", Some(Doubt::Glob)),
        ("*$x", "*$x", Some(Doubt::Expansion)),
        ("{a,b}", "{a,b}", Some(Doubt::Brace)),
        ("{}", "{}", None),
        ("[", "[", None),
        ("~/x", "~/x", Some(Doubt::Tilde)),
        ("a~", "a~", None),
        ("--x=~/y", "--x=~/y", Some(Doubt::Tilde)),
    ] {
        let word = Word::read(raw);
        assert_eq!((word.text(), word.doubt()), (text, doubt.as_ref()), "{raw}");
    }
}

#[test]
fn options_are_found_however_they_are_written() {
    let options = Options { short: "o", valued: "k", long: &["--output"] };
    for arg in ["-o", "-ofile", "-no", "--output", "--output=x", "--out", "--o=x"] {
        assert!(options.find([arg].into_iter()).is_some(), "{arg}");
    }
    for arg in ["o", "-k1o", "--", "-", "--other", "--outputs", "-n"] {
        assert!(options.find([arg].into_iter()).is_none(), "{arg}");
    }
    for (args, follows) in
        [("", false), ("-c f", false), ("f -c", true), ("f M", true), ("-- -f", false), ("-- -f M", true)]
    {
        assert_eq!(has_args_after_operand(args.split_whitespace()), follows, "{args}");
    }
}

#[test]
fn the_working_directory_is_known_unless_a_cd_may_have_failed() {
    let cwd = |text: &str| parse(text).commands().last().map(|command| command.cwd.clone());
    assert_eq!(cwd("cd a && cd b && ls"), Some(Cwd::At("a/b".to_owned())));
    assert_eq!(cwd("cd a && cd /b && ls"), Some(Cwd::At("/b".to_owned())));
    assert_eq!(cwd("cd a; ls"), Some(Cwd::Unknown));
    assert_eq!(cwd("cd a || ls"), Some(Cwd::Unknown));
    assert_eq!(cwd("cd a | ls"), Some(Cwd::Start));
    assert_eq!(cwd("(cd a) && ls"), Some(Cwd::Start));
    assert_eq!(cwd("cd \"$x\" && ls"), Some(Cwd::Unknown));
    assert_eq!(cwd("timeout 5 ls"), Some(Cwd::Start));
}

#[test]
fn redirections_and_wrappers_are_reported() {
    let understood = parse("A=b timeout 5 grep x < in > out 2>&1 &");
    let [timeout, grep] = understood.commands() else { panic!("{understood:?}") };
    let kinds: Vec<RedirectKind> = timeout.redirects.iter().map(|redirect| redirect.kind).collect();
    assert_eq!(kinds, [RedirectKind::Read, RedirectKind::Write, RedirectKind::Duplicate]);
    assert_eq!(timeout.assignments.first().map(|assignment| assignment.name.as_str()), Some("A"));
    assert!(timeout.background && grep.background);
    assert_eq!(grep.by.as_ref().map(|by| (by.name.as_str(), by.transparent)), Some(("timeout", true)));
    assert_eq!(grep.name(), "grep");
}

#[test]
fn a_line_continuation_hides_no_nesting() {
    let text = "\"$\\\n(')'".repeat(1800);
    assert!(parse(&text).doubts().contains(&Doubt::TooDeep));
}

#[test]
fn an_empty_tag_of_a_here_document_does_not_hang() {
    for text in
        ["cat <<'' ", "cat <<\"\" | head ", "cat <<- '' #", "<<a$(  ", "x $(cat <<'' ) ", "cat <<'' \\"]
    {
        assert!(parse(text).doubts().contains(&Doubt::Syntax), "{text:?}");
        assert!(parse(&format!("sh -c \"{text}\"")).words().contains("sh"), "{text:?}");
    }
    assert_eq!(parse("cat <<'E'\na\nE").doubts(), [Doubt::HereDocument]);
}

#[test]
fn a_doubt_is_worded_for_people() {
    assert_eq!(
        parse("A=b ls").doubts().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["it sets `A`, which can change what programs do"]
    );
    assert_eq!(
        parse("ls \u{200b}").doubts().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["it contains the character U+200B, which cannot be seen"]
    );
}
