//! Rules for commands: how they are written, which commands they cover, and which rules to offer for a command. A
//! rule is compared word by word with the parsed command. Only to allow, a rule that is the whole text of the command
//! also counts: the same text is the same command.

mod set;

pub use set::{Coverage, MightDeny, RuleSet};

use super::{Command, Cwd, Doubt, ParsedCommand, Word, programs, scan, wrap};

/// A rule for commands.
///
/// The syntax is that of a command, with words separated by blanks:
///
/// - `git status` covers exactly that: the same words and no more.
/// - `git status:*` and `git status *` cover whatever begins with these words, also these words alone. `ls *` covers
///   `ls` and `ls -la`, but not `lsof`.
/// - `ls*` covers whatever begins with a word that begins with `ls`: `lsof -i`, too.
/// - A `*` elsewhere stands for any characters within one word: `npm run *:watch`, `git * --stat`.
/// - A backslash takes the meaning away from the character behind it: `\*` is a star, `\ ` a blank within a word.
///
/// To *allow*, rules must cover every part of the command, and there must be no doubt about it: no variable, glob,
/// substitution, assignment, function, loop, background or redirection to a file. The program must be spelled as in
/// the rule. Transparent wrappers (`timeout`, `nice`, `stdbuf`, `command`) are ignored; a `cd` into a folder below
/// needs no rule. A rule without a `*` also covers the command line that has exactly its text, whatever is in that. A `*` covers no option that makes a program run or write something else (`find -exec`, `git -c`,
/// `tar --to-command`), no inline code, and no shells, runners and other wrappers; a rule without a `*` covers these,
/// since its author wrote down exactly that command.
///
/// To *deny*, a match with one part is enough, in any disguise: by the program's base name, behind any wrapper, in a
/// substitution or a script within the command, and with options before the words of the rule (`git -C x push` for `git push *`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The text without escapes, if the rule has no wildcard.
    literal: Option<String>,
    words: Vec<Vec<Piece>>,
    /// Whether more words may follow.
    open_ended: bool,
}

/// A piece of a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    /// Any number of any characters.
    Any,
}

/// Why a rule could not be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// The rule has no words.
    #[error("a rule needs at least the name of a program")]
    Empty,
    /// The rule is longer than [`MAX_COMMAND_BYTES`](super::MAX_COMMAND_BYTES).
    #[error("the rule is longer than {} bytes", super::MAX_COMMAND_BYTES)]
    TooLong,
    /// The rule ends with an escape.
    #[error("the rule ends with a backslash")]
    Backslash,
}

/// Whether a rule allows or denies, which decides how strictly it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Allow: rules must cover all parts for certain.
    Allow,
    /// Deny: one part that may match is enough.
    Deny,
}

impl Rule {
    /// Parses a rule.
    pub fn parse(text: &str) -> Result<Self, BadRule> {
        if text.len() > super::MAX_COMMAND_BYTES {
            return Err(BadRule::TooLong);
        }
        let (text, open_ended) = match text.trim_end().strip_suffix(":*") {
            Some(rest) if !ends_with_escape(rest) => (rest, true),
            _ => (text, false),
        };
        let mut words = vec![Vec::new()];
        // Blanks at both ends are no part of the text, unless they are escaped.
        let (mut literal, mut blanks) = (String::new(), String::new());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let piece = match c {
                '\\' => Piece::Char(chars.next().ok_or(BadRule::Backslash)?),
                '*' => Piece::Any,
                c if c.is_whitespace() => {
                    blanks.push(c);
                    if words.last().is_some_and(|word: &Vec<Piece>| !word.is_empty()) {
                        words.push(Vec::new());
                    }
                    continue;
                }
                c => Piece::Char(c),
            };
            if let Piece::Char(c) = piece {
                let between = std::mem::take(&mut blanks);
                if !literal.is_empty() {
                    literal.push_str(&between);
                }
                literal.push(c);
            }
            if let Some(word) = words.last_mut() {
                word.push(piece);
            }
        }
        words.retain(|word| !word.is_empty());
        let mut rule = Self { literal: None, words, open_ended };
        if !open_ended && rule.words.last().and_then(|word| word.last()) == Some(&Piece::Any) {
            rule.open_ended = true;
            if rule.words.len() > 1 && rule.words.last().is_some_and(|word| word.as_slice() == [Piece::Any]) {
                rule.words.pop();
            }
        }
        rule.literal = rule.is_exact().then_some(literal);
        if rule.words.is_empty() { Err(BadRule::Empty) } else { Ok(rule) }
    }

    /// Why the rule covers no command at all; `None` if it may cover one.
    pub fn matches_nothing(&self, side: Side) -> Option<String> {
        // To allow, the whole text of a command line counts, whatever is in it.
        if side == Side::Allow && self.is_exact() {
            return None;
        }
        let text = |word: &Vec<Piece>| -> String {
            word.iter().map(|piece| if let Piece::Char(c) = piece { *c } else { '*' }).collect()
        };
        let words: Vec<String> = self.words.iter().map(text).collect();
        let is_operator = |word: &str| {
            matches!(word, "&&" | "||" | "|" | "|&" | ";" | "&" | ">" | ">>" | "<" | "<<" | "2>&1")
                || word.len() > 1 && word.ends_with(';')
        };
        if let Some(word) = words.iter().find(|word| is_operator(word)) {
            let word = if word.ends_with(';') { ";" } else { word };
            return Some(format!(
                "a rule is about one command, and `{word}` is between commands or beside them: write a rule for each"
            ));
        }
        let is_plain = |word: &&Vec<Piece>| word.iter().all(|piece| *piece != Piece::Any);
        let argv: Vec<Word> =
            self.words.iter().take_while(is_plain).map(|word| Word::literal(&text(word))).collect();
        let command = Command { argv, ..Command::default() };
        let name = command.name();
        (side == Side::Allow && !name.is_empty() && !wildcard_may_cover(&command)).then(|| {
            format!(
                "`{name}` runs something else, which a `*` never covers: write the whole command as the rule"
            )
        })
    }

    fn is_exact(&self) -> bool {
        !self.open_ended && self.words.iter().flatten().all(|piece| *piece != Piece::Any)
    }

    /// Whether the rule covers a command for certain.
    fn allows(&self, command: &Command) -> bool {
        let count = command.argv.len();
        let fits = if self.open_ended { count >= self.words.len() } else { count == self.words.len() };
        fits && command.is_literal()
            && self.words.iter().zip(&command.argv).all(|(pattern, word)| glob_matches(pattern, word.text()))
            && (self.is_exact() || (wildcard_may_cover(command) && programs::risk(command).is_none()))
    }

    /// Whether the rule may mean a command.
    fn denies(&self, command: &Command) -> bool {
        let Some((program, rest)) = self.words.split_first() else { return false };
        let Some(first) = command.argv.first() else { return false };
        let named = names(first.text()).iter().any(|name| glob_matches(program, name));
        // The first word may expand to the program together with arguments, so the rest of the rule is not compared.
        if !named
            && !first.is_literal()
            && scan::tokens(first.raw()).any(|token| glob_matches(program, scan::basename(&token)))
        {
            return true;
        }
        let args: Vec<&str> = command.args().collect();
        named && self.follow(rest, &args)
    }

    /// The word with which the rule might mean a command: one that is not certain, in place of a word of the rule.
    fn might_deny<'a>(&self, command: &'a Command) -> Option<&'a Word> {
        let (_, rest) = self.words.split_first()?;
        let mut args = command.argv.iter().skip(1);
        for pattern in rest {
            let mut may_be_value = false;
            loop {
                let arg = args.next()?;
                if glob_matches(pattern, arg.text()) {
                    break;
                }
                let is_certain =
                    matches!(arg.doubt(), None | Some(Doubt::Backslash | Doubt::Quoting | Doubt::Tilde));
                if arg.text().starts_with('-') {
                    may_be_value = true;
                } else if std::mem::take(&mut may_be_value) {
                } else if is_certain {
                    return None;
                } else {
                    return Some(arg);
                }
            }
        }
        None
    }

    /// Whether the rule may mean a word of text that the parser could not read, with the words behind it.
    fn denies_scanned(&self, word: &str, following: &[&str]) -> bool {
        let Some((program, rest)) = self.words.split_first() else { return false };
        names(word).iter().any(|name| glob_matches(program, name))
            && (rest.is_empty() || self.follow(rest, following))
    }

    /// The program that the rule names; `None` if it has a wildcard there.
    fn program(&self) -> Option<String> {
        let piece = |piece: &Piece| match piece {
            Piece::Char(c) => Some(*c),
            Piece::Any => None,
        };
        self.words.first()?.iter().map(piece).collect()
    }

    /// Whether the words of a rule occur in order, with only options and their values between them.
    fn follow(&self, patterns: &[Vec<Piece>], args: &[&str]) -> bool {
        let mut args = args.iter();
        for pattern in patterns {
            let mut may_be_value = false;
            loop {
                let Some(arg) = args.next() else { return false };
                if glob_matches(pattern, arg) {
                    break;
                }
                if arg.starts_with('-') {
                    may_be_value = true;
                } else if std::mem::take(&mut may_be_value) {
                } else {
                    return false;
                }
            }
        }
        self.open_ended || args.all(|arg| arg.starts_with('-'))
    }
}

/// Whether a text ends with a backslash that is not itself escaped.
fn ends_with_escape(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}

/// Whether a rule covers a command. A rule that cannot be parsed allows nothing and denies everything.
pub fn matches(rule: &str, understood: &ParsedCommand, side: Side) -> bool {
    match (Rule::parse(rule), side) {
        (Ok(rule), Side::Allow) => RuleSet::new(vec![rule]).allows(understood).is_some(),
        (Ok(rule), Side::Deny) => RuleSet::new(vec![rule]).denies(understood).is_some(),
        (Err(_), Side::Allow) => false,
        (Err(_), Side::Deny) => true,
    }
}

/// The rules to offer for a command, one for each of its parts; none if a part should not be allowed permanently. A
/// rule covers whatever begins with the same program and subcommand, or for a program that destroys something exactly
/// the command.
pub fn offered_rules(understood: &ParsedCommand) -> Vec<String> {
    rules_for(understood, is_destructive)
}

/// The rules that cover exactly a command, one for each of its parts; none if a part should not be allowed permanently.
pub fn exact_rules(understood: &ParsedCommand) -> Vec<String> {
    rules_for(understood, |_| true)
}

/// The rule that is the whole text of a command: for one that cannot be covered part by part, such as a loop or a
/// script's run. `None` if the command can do harm, hides what it runs, or is too long for a person to read as a rule.
pub fn whole_rule(understood: &ParsedCommand) -> Option<String> {
    const MAX_CHARS: usize = 200;
    let text = &understood.text;
    let is_readable = text.chars().count() <= MAX_CHARS && !text.chars().any(char::is_control);
    let is_hidden = |doubt: &Doubt| doubt.hides_programs() || matches!(doubt, Doubt::Character(_));
    let is_certain = !understood.doubts().iter().any(is_hidden);
    let is_harmless = super::sensitive(understood).is_empty();
    let escaped = text.replace('\\', "\\\\").replace('*', "\\*");
    (is_readable && is_certain && is_harmless && !text.is_empty()).then_some(escaped)
}

fn rules_for(understood: &ParsedCommand, is_exact: impl Fn(&Command) -> bool) -> Vec<String> {
    if !understood.doubts().is_empty() || !super::sensitive(understood).is_empty() {
        return Vec::new();
    }
    let mut rules: Vec<String> = Vec::new();
    for command in parts_of(understood) {
        if command.redirects.iter().any(|redirect| !redirect.is_harmless()) {
            return Vec::new();
        }
        if command.argv.is_empty() || is_cd_below(command) {
            continue;
        }
        if !may_offer(command) || programs::risk(command).is_some() {
            return Vec::new();
        }
        let (length, end) = match is_exact(command) {
            true => (command.argv.len(), ""),
            false => (prefix_len(command), ":*"),
        };
        let words: Vec<String> = command.argv.iter().take(length).map(|word| escape(word.text())).collect();
        // The syntax of rules has no empty words.
        if words.iter().any(String::is_empty) {
            return Vec::new();
        }
        let rule = format!("{}{end}", words.join(" "));
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// All names by which a rule that denies may call a program.
fn names(word: &str) -> std::collections::BTreeSet<String> {
    let mut names = std::collections::BTreeSet::from([word.to_owned(), scan::basename(word).to_owned()]);
    scan::names_of(word, &mut names);
    names
}

/// The commands that rules must cover: those of the command line, with the nested command in place of a transparent
/// wrapper.
fn parts_of(understood: &ParsedCommand) -> impl Iterator<Item = &Command> {
    let is_transparent =
        |command: &Command| matches!(command.name(), "timeout" | "nice" | "stdbuf" | "ionice" | "command");
    let is_listed = |command: &Command| command.by.as_ref().is_none_or(|by| by.transparent);
    let commands = understood.commands();
    commands.iter().enumerate().filter_map(move |(n, command)| {
        let runs = commands.get(n + 1).and_then(|next| next.by.as_ref()).is_some_and(|by| by.transparent);
        let redirected = command.redirects.iter().any(|redirect| !redirect.is_harmless());
        (is_listed(command) && !(is_transparent(command) && runs && !redirected)).then_some(command)
    })
}

/// Whether a command is `cd` to a folder below the current one.
fn is_cd_below(command: &Command) -> bool {
    let target = command.args().last().unwrap_or("..");
    command.name() == "cd"
        && command.is_literal()
        && !target.starts_with('/')
        && target.split('/').all(|name| name != "..")
}

/// Whether a permanent rule may be offered for a command.
fn may_offer(command: &Command) -> bool {
    let name = command.name();
    let program = command.argv.first().map(Word::text).unwrap_or_default();
    program == name
        && command.cwd != Cwd::Unknown
        && wildcard_may_cover(command)
        && !matches!(name, "env" | "sudo" | "doas" | "su")
        && !wrap::is_interpreter(name)
}

/// Whether a rule with a wildcard may cover a command: not one that runs the command or code in its arguments.
fn wildcard_may_cover(command: &Command) -> bool {
    let name = command.name();
    let runs = wrap::is_shell(name) || wrap::is_runner(command) || wrap::is_wrapper(name);
    !runs && wrap::doubts(command).is_empty() && wrap::nested(command).is_empty()
}

/// Programs with subcommands, and how many words an offered rule for them has.
#[rustfmt::skip]
static SUBCOMMANDS: &[(&[&str], usize)] = &[
    (
        &[
            "npm run", "npm exec", "yarn run", "pnpm run", "bun run", "cargo run", "git stash",
            "git remote", "git worktree", "go mod", "go tool", "gh pr", "gh issue", "gh run", "gh repo",
            "pip config", "rustup toolchain", "rustup target", "dotnet tool", "systemctl status",
            "aws s3",
        ],
        3,
    ),
    (
        &[
            "git", "npm", "yarn", "pnpm", "bun", "cargo", "go", "pip", "pip3", "gh", "rustup", "dotnet",
            "brew", "apt", "apt-get", "systemctl", "terraform", "helm", "aws", "gcloud", "az", "deno",
            "uv", "swift", "flutter", "mix", "bundle", "gem", "composer",
        ],
        2,
    ),
];

/// Whether the first operand of a program is a subcommand, and not a file.
pub(super) fn has_subcommands(name: &str) -> bool {
    SUBCOMMANDS.iter().any(|(heads, _)| heads.contains(&name))
}

/// Programs, with or without a subcommand, that destroy or publish something: a rule that is offered for them covers
/// exactly the command, never what else they could be given.
#[rustfmt::skip]
static DESTRUCTIVE: &[&str] = &[
    "rm", "rmdir", "unlink", "shred", "mv", "dd", "truncate", "chmod", "chown", "chgrp", "kill", "ln",
    "git push", "git reset", "git clean", "git restore", "git checkout", "git rebase", "git branch", "git tag",
    "git stash", "git rm", "npm publish", "cargo publish", "gh pr", "gh release", "gh repo",
];

fn is_destructive(command: &Command) -> bool {
    let is_named = |names: &&&str| {
        let mut words = command.argv.iter().map(Word::text);
        names.split(' ').all(|name| words.next() == Some(name))
    };
    DESTRUCTIVE.iter().find(is_named).is_some()
}

/// How many words of a command an offered rule keeps.
fn prefix_len(command: &Command) -> usize {
    let words = || command.argv.iter().map(Word::text);
    let plain = |word: &&str| !word.starts_with('-') && !word.contains(['/', '.', '=']);
    for (heads, count) in SUBCOMMANDS {
        let is_head = heads.iter().any(|head| {
            let mut words = words();
            head.split(' ').all(|word| words.next() == Some(word))
        });
        // At least two words: an option in place of the subcommand stays in the rule, which is then narrower.
        if is_head {
            let taken = words().skip(1).take(*count - 1).take_while(|word| plain(word)).count();
            return (1 + taken).max(2).min(command.argv.len());
        }
    }
    1
}

fn escape(word: &str) -> String {
    let mut escaped = String::with_capacity(word.len());
    for c in word.chars() {
        if c == '*' || c == '\\' || c.is_whitespace() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A shell glob, widened: `?` and `[…]` stand for any number of characters, like `*`.
fn widened_glob(text: &str) -> Vec<Piece> {
    let mut chars = text.chars();
    let mut pieces = Vec::new();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' => pieces.push(Piece::Any),
            '[' => {
                pieces.push(Piece::Any);
                chars.by_ref().find(|c| *c == ']');
            }
            c => pieces.push(Piece::Char(c)),
        }
    }
    pieces
}

/// Whether a glob matches a word. Backtracks to the last `*` only, so it takes O(pattern × word) time at worst.
fn glob_matches(pattern: &[Piece], word: &str) -> bool {
    let word: Vec<char> = word.chars().collect();
    let (mut p, mut w) = (0, 0);
    // Position of the last `*`, and where in the word the text that it stands for ends.
    let mut backtrack: Option<(usize, usize)> = None;
    while w < word.len() {
        match pattern.get(p) {
            Some(Piece::Any) => {
                backtrack = Some((p, w));
                p += 1;
                continue;
            }
            Some(Piece::Char(c)) if word.get(w) == Some(c) => {
                p += 1;
                w += 1;
                continue;
            }
            _ => {}
        }
        let Some((star, from)) = backtrack else { return false };
        backtrack = Some((star, from + 1));
        p = star + 1;
        w = from + 1;
    }
    pattern.get(p..).is_none_or(|rest| rest.iter().all(|piece| *piece == Piece::Any))
}
