//! Rules for commands: what one means, which command it covers, and which one to offer for a command. A rule is
//! compared word by word with what was understood, never with text.

mod set;

pub use set::{Covered, RuleSet};

use super::{Command, Cwd, Understood, Word, programs, raw, wrap};

/// A rule for commands.
///
/// A rule is written like a command, its words separated by blanks:
///
/// - `git status` covers exactly that: the same words and no more.
/// - `git status:*` and `git status *` cover whatever begins with these words, also these words alone. `ls *` covers
///   `ls` and `ls -la`, but not `lsof`.
/// - `ls*` covers whatever begins with a word that begins with `ls`: `lsof -i`, too.
/// - A `*` elsewhere stands for any characters within one word: `npm run *:watch`, `git * --stat`.
/// - A backslash takes the meaning away from the character behind it: `\*` is a star, `\ ` a blank within a word.
///
/// To *allow*, every part of the command must be covered, and nothing about it may be doubtful: no variable, pattern,
/// substitution, assignment, function, loop, background or redirection to a file. The program has to be written as in
/// the rule. Wrappers that change nothing (`timeout`, `nice`, `stdbuf`, `command`) are looked through; a `cd` into a
/// folder below needs no rule. A `*` covers no option that makes a program run or write something else (`find -exec`,
/// `git -c`, `tar --to-command`), no inline code, and nothing for shells, runners and other wrappers; a rule without a
/// `*` does, since somebody wrote down exactly that.
///
/// To *deny*, one part is enough, in any disguise: by the program's last name, behind any wrapper, in a substitution
/// or a script within the command, and with options before the words of the rule (`git -C x push` for `git push *`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    words: Vec<Vec<Piece>>,
    /// Whether more words may follow.
    open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    Any,
}

/// Why a rule is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// There is nothing in it.
    #[error("a rule needs at least the name of a program")]
    Empty,
    /// It is longer than any command.
    #[error("the rule is longer than {} bytes", super::LONGEST)]
    TooLong,
    /// A backslash has nothing behind it.
    #[error("the rule ends with a backslash")]
    Backslash,
}

/// What a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// To allow: all parts have to match.
    Allow,
    /// To deny: one part is enough.
    Deny,
}

impl Rule {
    /// Reads a rule.
    pub fn parse(text: &str) -> Result<Self, BadRule> {
        if text.len() > super::LONGEST {
            return Err(BadRule::TooLong);
        }
        let (text, open) = match text.trim_end().strip_suffix(":*") {
            Some(rest) if !takes_meaning(rest) => (rest, true),
            _ => (text, false),
        };
        let mut words = vec![Vec::new()];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let piece = match c {
                '\\' => Piece::Char(chars.next().ok_or(BadRule::Backslash)?),
                '*' => Piece::Any,
                c if c.is_whitespace() => {
                    if words.last().is_some_and(|word: &Vec<Piece>| !word.is_empty()) {
                        words.push(Vec::new());
                    }
                    continue;
                }
                c => Piece::Char(c),
            };
            if let Some(word) = words.last_mut() {
                word.push(piece);
            }
        }
        words.retain(|word| !word.is_empty());
        let mut rule = Self { words, open };
        if !open && rule.words.last().and_then(|word| word.last()) == Some(&Piece::Any) {
            rule.open = true;
            if rule.words.len() > 1 && rule.words.last().is_some_and(|word| word.as_slice() == [Piece::Any]) {
                rule.words.pop();
            }
        }
        if rule.words.is_empty() { Err(BadRule::Empty) } else { Ok(rule) }
    }

    fn is_exact(&self) -> bool {
        !self.open && self.words.iter().flatten().all(|piece| *piece != Piece::Any)
    }

    /// Whether a command is covered for certain.
    fn allows(&self, command: &Command) -> bool {
        let count = command.argv.len();
        let fits = if self.open { count >= self.words.len() } else { count == self.words.len() };
        fits && command.is_literal()
            && self.words.iter().zip(&command.argv).all(|(pattern, word)| glob(pattern, word.text()))
            && (self.is_exact() || (wildcards_reach(command) && programs::risk(command).is_none()))
    }

    /// Whether a command may be meant.
    fn denies(&self, command: &Command) -> bool {
        let Some((program, rest)) = self.words.split_first() else { return false };
        let Some(first) = command.argv.first() else { return false };
        let named = names(first.text()).iter().any(|name| glob(program, name));
        // What it becomes may bring arguments of its own.
        if !named
            && !first.is_literal()
            && raw::tokens(first.raw()).any(|token| glob(program, raw::basename(&token)))
        {
            return true;
        }
        let args: Vec<&str> = command.args().collect();
        named && self.follow(rest, &args)
    }

    /// Whether a word of text that could not be read, and what follows it, may be meant.
    fn denies_scanned(&self, word: &str, following: &[&str]) -> bool {
        let Some((program, rest)) = self.words.split_first() else { return false };
        names(word).iter().any(|name| glob(program, name))
            && (rest.is_empty() || self.follow(rest, following))
    }

    /// The program, where the rule names one.
    fn program(&self) -> Option<String> {
        let piece = |piece: &Piece| match piece {
            Piece::Char(c) => Some(*c),
            Piece::Any => None,
        };
        self.words.first()?.iter().map(piece).collect()
    }

    /// Whether words come in order, with nothing but options and their values between them.
    fn follow(&self, patterns: &[Vec<Piece>], args: &[&str]) -> bool {
        let mut args = args.iter();
        for pattern in patterns {
            let mut may_be_value = false;
            loop {
                let Some(arg) = args.next() else { return false };
                if glob(pattern, arg) {
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
        self.open || args.all(|arg| arg.starts_with('-'))
    }
}

/// Whether a text takes the meaning away from what follows it: its last backslash is not itself behind one.
fn takes_meaning(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}

/// Whether a rule covers a command. A rule that cannot be read covers nothing to allow, and everything to deny.
pub fn matches(rule: &str, understood: &Understood, side: Side) -> bool {
    match (Rule::parse(rule), side) {
        (Ok(rule), Side::Allow) => RuleSet::new(vec![rule]).allows(understood).is_some(),
        (Ok(rule), Side::Deny) => RuleSet::new(vec![rule]).denies(understood).is_some(),
        (Err(_), Side::Allow) => false,
        (Err(_), Side::Deny) => true,
    }
}

/// The rules to offer for a command, one for each of its parts: none if one of them should not be allowed once and for
/// all.
pub fn patterns(understood: &Understood) -> Vec<String> {
    if !understood.doubts().is_empty() || !super::sensitive(understood).is_empty() {
        return Vec::new();
    }
    let mut rules: Vec<String> = Vec::new();
    for command in parts_of(understood) {
        if command.redirects.iter().any(|redirect| !redirect.is_harmless()) {
            return Vec::new();
        }
        if command.argv.is_empty() || is_way_down(command) {
            continue;
        }
        if !is_offered(command) || programs::risk(command).is_some() {
            return Vec::new();
        }
        let words: Vec<String> =
            command.argv.iter().take(prefix(command)).map(|word| escape(word.text())).collect();
        // A word of nothing cannot be written in a rule.
        if words.iter().any(String::is_empty) {
            return Vec::new();
        }
        let rule = format!("{}:*", words.join(" "));
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// What a program can be called in a rule that denies.
fn names(word: &str) -> std::collections::BTreeSet<String> {
    let mut names = std::collections::BTreeSet::from([word.to_owned(), raw::basename(word).to_owned()]);
    raw::names_of(word, &mut names);
    names
}

/// What rules are for: commands as they are written, and what transparent wrappers run in place of these.
fn parts_of(understood: &Understood) -> impl Iterator<Item = &Command> {
    let stands_aside =
        |command: &Command| matches!(command.name(), "timeout" | "nice" | "stdbuf" | "ionice" | "command");
    let is_run = |command: &Command| command.by.as_ref().is_none_or(|by| by.transparent);
    let commands = understood.commands();
    commands.iter().enumerate().filter_map(move |(n, command)| {
        let runs = commands.get(n + 1).and_then(|next| next.by.as_ref()).is_some_and(|by| by.transparent);
        let redirected = command.redirects.iter().any(|redirect| !redirect.is_harmless());
        (is_run(command) && !(stands_aside(command) && runs && !redirected)).then_some(command)
    })
}

/// `cd` to somewhere below.
fn is_way_down(command: &Command) -> bool {
    let target = command.args().last().unwrap_or("..");
    command.name() == "cd"
        && command.is_literal()
        && !target.starts_with('/')
        && target.split('/').all(|name| name != "..")
}

fn is_offered(command: &Command) -> bool {
    let name = command.name();
    let program = command.argv.first().map(Word::text).unwrap_or_default();
    program == name
        && command.cwd != Cwd::Unknown
        && wildcards_reach(command)
        && !matches!(name, "env" | "sudo" | "doas" | "su")
        && !wrap::is_interpreter(name)
}

/// Whether a `*` may cover a command: nothing that runs what its arguments say.
fn wildcards_reach(command: &Command) -> bool {
    let name = command.name();
    let runs = wrap::is_shell(name) || wrap::is_runner(name) || wrap::is_wrapper(name);
    !runs && wrap::doubts(command).is_empty() && wrap::inside(command).is_empty()
}

/// Programs whose first words say what they do, and how many there are.
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

fn prefix(command: &Command) -> usize {
    let words = || command.argv.iter().map(Word::text);
    let plain = |word: &&str| !word.starts_with('-') && !word.contains(['/', '.', '=']);
    for (heads, count) in SUBCOMMANDS {
        let is_head = heads.iter().any(|head| {
            let mut words = words();
            head.split(' ').all(|word| words.next() == Some(word))
        });
        // An option in between is taken along: the rule is then narrower.
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

/// A shell's pattern of file names, made wider: whatever stands for a character stands for any number.
fn pattern_of(text: &str) -> Vec<Piece> {
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

/// Whether a pattern covers a word, in time proportional to their lengths multiplied at worst.
fn glob(pattern: &[Piece], word: &str) -> bool {
    let word: Vec<char> = word.chars().collect();
    let (mut p, mut w) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while w < word.len() {
        match pattern.get(p) {
            Some(Piece::Any) => {
                back = Some((p, w));
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
        let Some((star, from)) = back else { return false };
        back = Some((star, from + 1));
        p = star + 1;
        w = from + 1;
    }
    pattern.get(p..).is_none_or(|rest| rest.iter().all(|piece| *piece == Piece::Any))
}
