//! Scripts that are read without the parser: lists and pipelines of simple commands. Most commands are such, and
//! reading them here takes a fraction of the time. What comes out is what the parser would have made of them, down to
//! its mistakes; whatever has more to it is left to the parser: keywords, assignments, groups, here-documents,
//! comments, backquotes.

use brush_parser::ast::{self, CommandPrefixOrSuffixItem as Item};

use super::gate;

/// Reads a script as the parser would, or not at all.
pub(super) fn script(text: &str) -> Option<ast::Program> {
    // Whoever has to go to the parser after all has lost little time here.
    if !(Reader { text, at: 0 }).knows_all() {
        return None;
    }
    let mut reader = Reader { text, at: 0 };
    let mut complete_commands = Vec::new();
    while reader.next().is_some() {
        if !reader.takes("\n") {
            complete_commands.push(reader.line()?);
        }
    }
    (!complete_commands.is_empty()).then_some(ast::Program { complete_commands })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// What is behind blanks.
    fn next(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        self.peek()
    }

    fn takes(&mut self, text: &str) -> bool {
        let takes = self.rest().starts_with(text.as_bytes());
        self.at += if takes { text.len() } else { 0 };
        takes
    }

    /// Whether every word is of a kind that is read here.
    fn knows_all(mut self) -> bool {
        while let Some(c) = self.next() {
            if self.fd().is_some() || matches!(c, b'\n' | b';' | b'|' | b'&' | b'<' | b'>') {
                self.at += 1;
            } else if self.word().is_none() {
                return false;
            }
        }
        true
    }

    fn line(&mut self) -> Option<ast::CompoundList> {
        let mut list = Vec::new();
        loop {
            let and_or = self.and_or()?;
            let (separator, goes_on) = if self.takes("&") {
                (ast::SeparatorOperator::Async, true)
            } else {
                (ast::SeparatorOperator::Sequence, self.takes(";"))
            };
            list.push(ast::CompoundListItem(and_or, separator));
            match self.next() {
                None | Some(b'\n') => return Some(ast::CompoundList(list)),
                Some(_) if goes_on => {}
                Some(_) => return None,
            }
        }
    }

    fn and_or(&mut self) -> Option<ast::AndOrList> {
        let first = self.pipeline()?;
        let mut additional = Vec::new();
        loop {
            if self.takes("&&") {
                additional.push(ast::AndOr::And(self.pipeline()?));
            } else if self.takes("||") {
                additional.push(ast::AndOr::Or(self.pipeline()?));
            } else {
                return Some(ast::AndOrList { first, additional });
            }
        }
    }

    fn pipeline(&mut self) -> Option<ast::Pipeline> {
        let mut seq = vec![self.command()?];
        while !self.rest().starts_with(b"||") && self.takes("|") {
            seq.push(self.command()?);
        }
        Some(ast::Pipeline { timed: None, bang: false, seq })
    }

    /// Ends where something stands that is not part of a command.
    fn command(&mut self) -> Option<ast::Command> {
        self.next();
        let name = ast::Word::new(self.word()?);
        let mut suffix = Vec::new();
        while !matches!(self.next(), None | Some(b'\n' | b';' | b'|' | b'&')) {
            suffix.push(self.item()?);
        }
        let suffix = (!suffix.is_empty()).then_some(ast::CommandSuffix(suffix));
        Some(ast::Command::Simple(ast::SimpleCommand { prefix: None, word_or_name: Some(name), suffix }))
    }

    /// A word, or a redirection by `<`, `>`, `>>` or `>&`, perhaps with a digit before it.
    fn item(&mut self) -> Option<Item> {
        use ast::{IoFileRedirectKind as Kind, IoFileRedirectTarget as Target};
        let fd = self.fd();
        let kind = if self.takes(">&") {
            Kind::DuplicateOutput
        } else if self.takes(">>") {
            Kind::Append
        } else if self.takes(">") {
            Kind::Write
        } else if self.takes("<") {
            Kind::Read
        } else {
            return Some(Item::Word(ast::Word::new(self.word()?)));
        };
        self.next();
        let target = ast::Word::new(self.word()?);
        let target = match kind {
            Kind::DuplicateOutput => Target::Duplicate(target),
            _ => Target::Filename(target),
        };
        Some(Item::IoRedirect(ast::IoRedirect::File(fd, kind, target)))
    }

    /// The digit right before a redirection.
    fn fd(&mut self) -> Option<ast::IoFd> {
        let [digit @ b'0'..=b'9', b'<' | b'>', ..] = self.rest() else { return None };
        let fd = ast::IoFd::from(digit - b'0');
        self.at += 1;
        Some(fd)
    }

    fn word(&mut self) -> Option<&'a str> {
        let from = self.at;
        while !matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b';' | b'|' | b'&')) {
            self.piece()?;
        }
        let raw = self.text.get(from..self.at)?;
        let assigns = raw.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && raw.contains('=');
        (!raw.is_empty() && !assigns && !is_special(raw)).then_some(raw)
    }

    fn piece(&mut self) -> Option<()> {
        match self.peek()? {
            b'\'' => self.enclosed("'", |c| c != b'\''),
            b'"' => self.double_quoted(),
            b'\\' => self.escaped(),
            b'$' => self.expansion(),
            c => {
                self.at += 1;
                let is_known =
                    is_plain(c) || matches!(c, b'*' | b'?' | b'[' | b']' | b'{' | b'}' | b'~' | b'!');
                is_known.then_some(())
            }
        }
    }

    /// From one character to the one that closes it, with nothing in between but what fits.
    fn enclosed(&mut self, closing: &str, fits: impl Fn(u8) -> bool) -> Option<()> {
        self.at += 1;
        self.at += self.rest().iter().position(|c| !fits(*c))?;
        self.takes(closing).then_some(())
    }

    fn double_quoted(&mut self) -> Option<()> {
        self.at += 1;
        while !self.takes("\"") {
            match self.peek()? {
                b'\\' => self.escaped()?,
                b'$' => self.expansion()?,
                b'`' => return None,
                _ => self.at += 1,
            }
        }
        Some(())
    }

    /// Lines that go on are joined by the parser, which also takes `\$'` for the beginning of `$'…'`.
    fn escaped(&mut self) -> Option<()> {
        self.at += 1;
        self.peek().filter(|c| !matches!(c, b'\n' | b'$'))?;
        self.at += 1;
        Some(())
    }

    /// `$name`, `${name:-word}`, `$(command)`.
    fn expansion(&mut self) -> Option<()> {
        self.at += 1;
        match self.peek()? {
            b'(' => self.substitution(),
            b'{' => self.enclosed("}", is_plain),
            b'_' | b'?' | b'@' | b'*' | b'!' => Some(()),
            c => c.is_ascii_alphanumeric().then_some(()),
        }
    }

    /// How often one is within another, the gate has limited.
    fn substitution(&mut self) -> Option<()> {
        self.at += 1;
        while !self.takes(")") {
            match self.peek()? {
                b' ' | b';' | b'|' | b'&' | b'>' => self.at += 1,
                _ => self.piece()?,
            }
        }
        Some(())
    }
}

/// Characters that are nothing but themselves wherever they stand.
fn is_plain(c: u8) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, b'-' | b'_' | b'.' | b'/' | b':' | b',' | b'+' | b'%' | b'@' | b'^' | b'=')
}

/// Words that the grammar knows, or that the gate looks at.
fn is_special(word: &str) -> bool {
    gate::is_keyword(word)
        || gate::is_long_number(word)
        || matches!(word, "case" | "done" | "esac" | "fi" | "in" | "]]" | "}")
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use regex::Regex;

    use super::super::walk::{options, parse};
    use super::{ast, script};

    /// Where a word stands, which only the parser notes.
    static PLACES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"loc: (None|Some\(.*?\} \}\))").unwrap());

    /// Whether the parser makes the same of a text that is read without it.
    fn is_alike(text: &str) -> Option<bool> {
        let read = script(text)?;
        let tree = |program: &ast::Program| PLACES.replace_all(&format!("{program:?}"), "").into_owned();
        Some(parse(text, &options()).is_ok_and(|parsed| tree(&parsed) == tree(&read)))
    }

    #[test]
    fn what_is_read_without_the_parser_is_read_alike() {
        for text in [
            "git status --short && ls -la 'a b' | grep -n \"fn main\" || true; rg --glob=*.rs x",
            "a;b&c &&d|e",
            "a\n\n b ; \n\tc\n",
            "a 2>&1 >/dev/null 2>> \"log file\" < input | b",
            "echo \"$(git log -n 1 \"$(x)\" 2>/dev/null)\" ${x:-y} $? $HOME/*",
            "find . -name '*.\\' -exec rm {} \\; \"a\\\"b\nc\"",
            "[ -f ~/x ] && echo {a,b} -- !x",
        ] {
            assert_eq!(is_alike(text), Some(true), "{text:?}");
        }
    }

    #[rustfmt::skip]
    const LEFT: &[&str] = &[
        "", " ", "\n", ";", "a |", "a && && b", "a ;; b", "a & ; b", "a |& b", "a &> b", "(a)", "{ a; }", "! a",
        "time a", "if a; then b; fi", "echo if", "echo case", "done", "esac", "}", "[[ a ]]", "coproc a", "A=b c",
        "c A=b", "a[1]=2", "f() { a; }", "a # b", "a `b`", "a \"`b`\"", "a <<E\nb\nE", "a <<< b", "a <(b)",
        "a >(b)", "a <> b", "a >| b", "a <& 3", "> a", "12> a", "a 12>b", "a b>c", "a 12345678901 > b", "a \\\nb",
        "a \"b\\\nc\"", "a $'b'", "a $\"b\"", "a \\$'b'", "a $((1))", "a $[1]", "a ${x:-$y}", "a $(b\tc)",
        "a $(b # c)", "a $(b <<E)", "a $(b\nc)", "a 'b", "a \"b", "a $(b", "a ${b", "a \\",
    ];

    #[test]
    fn what_may_be_more_than_words_is_left_to_the_parser() {
        for text in LEFT {
            assert_eq!(is_alike(text), None, "{text:?}");
        }
    }

    #[test]
    fn short_scripts_are_read_alike_whatever_they_are_made_of() {
        const PIECES: [&str; 14] = ["a", "1", " ", "'", "\"", "\\", "$", "(", ")", "}", ">", "&", ";", "\n"];
        let mut texts = vec!["a ".to_owned()];
        for _ in 0..4 {
            texts = texts.iter().flat_map(|text| PIECES.map(|piece| format!("{text}{piece}"))).collect();
            for text in &texts {
                assert_ne!(is_alike(text), Some(false), "{text:?}");
            }
        }
    }
}
