//! From the parser's tree to simple commands. Every node is visited; one that is not simply a list or a pipeline of
//! simple commands leaves a doubt. A script that cannot be read leaves a doubt and its words.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast::{self, CommandPrefixOrSuffixItem as Item, CompoundCommand as Compound};
use brush_parser::{ParserOptions, parse_tokens, uncached_tokenize_str};

use super::word::{Quoting, scripts};
use super::wrap::{self, Inside};
use super::{
    Assignment, Before, By, Command, Cwd, Decides, Doubt, Redirect, RedirectKind, Understood, Word, gate, raw,
};

/// Scripts within scripts, and wrappers around wrappers, are followed this far.
const DEEPEST: usize = 12;
/// A text has no more words than this; a wrapper in a wrapper takes its words once more.
const MOST_WORDS: usize = 40_000;

pub(super) fn read(text: &str) -> Understood {
    let options = ParserOptions {
        // Tildes are looked for in words; the parser stumbles over their numbers.
        tilde_expansion_at_word_start: false,
        // As bash is when it is given a command.
        enable_extended_globbing: false,
        ..ParserOptions::default()
    };
    let mut walk = Walk {
        out: Understood::default(),
        options,
        cwd: Cwd::Start,
        background: false,
        fed: false,
        depth: 0,
        words: 0,
    };
    walk.script(text);
    walk.out.gather_words();
    walk.out
}

struct Walk {
    out: Understood,
    options: ParserOptions,
    cwd: Cwd,
    background: bool,
    /// Whether the input of what is around comes from a file or a command.
    fed: bool,
    /// How many scripts and wrappers are around.
    depth: usize,
    /// How many words were taken.
    words: usize,
}

impl Walk {
    fn script(&mut self, text: &str) {
        if let Some(doubt) = gate::text(text) {
            self.unreadable(text, doubt);
            return;
        }
        if text.contains("\\\n") {
            self.out.doubt(Doubt::Continuation);
            // In a comment the line does not go on, elsewhere it does: both readings count.
            let joined = text.replace("\\\n", "");
            if let Some(doubt) = gate::text(&joined) {
                return self.unreadable(text, doubt);
            }
            self.parsed(&joined);
            if self.depth > 0 {
                return self.out.scan(text);
            }
        }
        self.parsed(text);
    }

    fn unreadable(&mut self, text: &str, doubt: Doubt) {
        self.out.doubt(doubt);
        self.out.scan(text);
        self.out.scan(&text.replace("\\\n", ""));
    }

    fn parsed(&mut self, text: &str) {
        if self.depth > DEEPEST || self.words > MOST_WORDS {
            return self.unreadable(text, Doubt::TooDeep);
        }
        match parse(text, &self.options) {
            Ok(program) => {
                self.depth += 1;
                for list in &program.complete_commands {
                    self.list(list);
                }
                self.depth -= 1;
                if self.depth == 0 {
                    self.out.decides = decides(&program);
                }
                self.beside_here_documents(text);
            }
            Err(doubt) => self.unreadable(text, doubt),
        }
    }

    fn list(&mut self, list: &ast::CompoundList) {
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            let outside = (self.background, self.cwd.clone());
            let background = matches!(separator, ast::SeparatorOperator::Async);
            if background {
                self.background = true;
                self.out.doubt(Doubt::Background);
            }
            self.pipeline(&and_or.first);
            for next in &and_or.additional {
                match next {
                    ast::AndOr::And(pipeline) => self.pipeline(pipeline),
                    ast::AndOr::Or(pipeline) => {
                        self.unless(&outside.1);
                        self.pipeline(pipeline);
                    }
                }
            }
            if background {
                self.cwd = outside.1;
            } else {
                self.unless(&outside.1);
            }
            self.background = outside.0;
        }
    }

    /// A `cd` may have failed: from here on the folder is certain only if there was none.
    fn unless(&mut self, before: &Cwd) {
        if self.cwd != *before {
            self.cwd = Cwd::Unknown;
        }
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline) {
        let before = self.cwd.clone();
        let mut first = self.out.commands.len();
        for (n, command) in pipeline.seq.iter().enumerate() {
            let at = self.out.commands.len();
            self.command(command, n > 0);
            if n > 0 {
                self.spoken_to_shell(first, at);
            }
            // Each part of a pipe has a folder of its own.
            if pipeline.seq.len() > 1 {
                self.cwd.clone_from(&before);
            }
            first = at;
        }
    }

    /// `echo SCRIPT | sh`.
    fn spoken_to_shell(&mut self, from: usize, to: usize) {
        let (Some(speaker), Some(listener)) = (self.out.commands.get(from), self.out.commands.get(to)) else {
            return;
        };
        if matches!(speaker.name(), "echo" | "printf") && wrap::takes_script(listener) {
            let script = speaker.args().collect::<Vec<_>>().join(" ");
            self.nested(|walk| walk.script(&script));
        }
    }

    fn command(&mut self, command: &ast::Command, piped: bool) {
        match command {
            ast::Command::Simple(simple) => self.simple(simple, piped),
            ast::Command::Compound(compound, redirects) => {
                self.redirects(redirects.as_ref());
                let outside = self.fed;
                self.fed |= piped || redirects.as_ref().is_some_and(|list| list.0.iter().any(feeds));
                self.compound(compound);
                self.fed = outside;
            }
            ast::Command::Function(function) => {
                self.out.doubt(Doubt::Function);
                // A function can be called as it is named, and stands for whatever is in it.
                self.out.scanned.push(function.fname.value.clone());
                self.redirects(function.body.1.as_ref());
                self.compound(&function.body.0);
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.out.doubt(Doubt::ControlFlow);
                self.redirects(redirects.as_ref());
                self.test(&test.expr);
            }
        }
    }

    fn test(&mut self, expr: &ast::ExtendedTestExpr) {
        use ast::ExtendedTestExpr as T;
        match expr {
            T::And(a, b) | T::Or(a, b) => {
                self.test(a);
                self.test(b);
            }
            T::Not(a) | T::Parenthesized(a) => self.test(a),
            T::UnaryTest(_, a) => self.evaluated(a),
            T::BinaryTest(_, a, b) => {
                self.evaluated(a);
                self.evaluated(b);
            }
        }
    }

    /// A word that is calculated with: in an index, even a quoted substitution is run.
    fn evaluated(&mut self, word: &ast::Word) {
        if word.value.contains('[') {
            self.scan_scripts(&word.value);
        }
        self.word(&word.value);
    }

    fn compound(&mut self, compound: &Compound) {
        let before = self.cwd.clone();
        match compound {
            // `( ( a ) )` is read as a sum, too.
            Compound::Arithmetic(sum) => {
                self.out.doubt(Doubt::Arithmetic);
                self.out.scan(&sum.expr.value);
            }
            Compound::ArithmeticForClause(clause) => {
                self.out.doubt(Doubt::ControlFlow);
                for sum in [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten() {
                    self.out.scan(&sum.value);
                }
                self.list(&clause.body.list);
            }
            Compound::BraceGroup(group) => {
                self.out.doubt(Doubt::Group);
                self.list(&group.list);
            }
            Compound::Subshell(subshell) => {
                self.out.doubt(Doubt::Group);
                self.list(&subshell.list);
                self.cwd.clone_from(&before);
            }
            Compound::ForClause(clause) => {
                self.out.doubt(Doubt::ControlFlow);
                for word in clause.values.iter().flatten() {
                    self.word(&word.value);
                }
                self.list(&clause.body.list);
            }
            Compound::CaseClause(clause) => {
                self.out.doubt(Doubt::ControlFlow);
                self.word(&clause.value.value);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(&pattern.value);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list);
                    }
                }
            }
            Compound::IfClause(clause) => {
                self.out.doubt(Doubt::ControlFlow);
                self.list(&clause.condition);
                self.list(&clause.then);
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.list(condition);
                    }
                    self.list(&other.body);
                }
            }
            Compound::WhileClause(clause) | Compound::UntilClause(clause) => {
                self.out.doubt(Doubt::ControlFlow);
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            Compound::Coprocess(process) => {
                self.out.doubt(Doubt::Background);
                if let Some(name) = &process.name {
                    // What reads as a name may be the command.
                    self.out.scanned.push(name.value.clone());
                }
                self.command(&process.body, false);
            }
        }
        if !matches!(compound, Compound::BraceGroup(_)) {
            self.unless(&before);
        }
    }

    fn simple(&mut self, simple: &ast::SimpleCommand, piped: bool) {
        let mut command = Command {
            cwd: self.cwd.clone(),
            background: self.background,
            piped: piped || self.fed,
            ..Command::default()
        };
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in prefix {
            match item {
                Item::AssignmentWord(assignment, _) => {
                    let assignment = self.assignment(assignment);
                    command.assignments.push(assignment);
                }
                item => self.item(item, &mut command),
            }
        }
        if let Some(name) = &simple.word_or_name {
            command.argv.push(self.word(&name.value));
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut command);
        }
        self.run(command);
    }

    fn item(&mut self, item: &Item, command: &mut Command) {
        match item {
            Item::IoRedirect(redirect) => command.redirects.extend(self.redirect(redirect)),
            Item::Word(word) => command.argv.push(self.word(&word.value)),
            Item::AssignmentWord(assignment, word) => {
                if let ast::AssignmentValue::Array(_) = assignment.value {
                    self.assignment(assignment);
                }
                command.argv.push(self.word(&word.value));
            }
            Item::ProcessSubstitution(_, subshell) => {
                self.out.doubt(Doubt::Substitution);
                command.argv.push(Word::doubtful("/dev/fd/63", Doubt::Substitution));
                self.nested(|walk| walk.list(&subshell.list));
            }
        }
    }

    fn assignment(&mut self, assignment: &ast::Assignment) -> Assignment {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) => name.clone(),
            ast::AssignmentName::ArrayElementName(name, index) => {
                self.scan_scripts(index);
                name.clone()
            }
        };
        self.out.doubt(Doubt::Assignment(name.clone()));
        let value = match &assignment.value {
            ast::AssignmentValue::Scalar(word) => {
                if wrap::names_program(&name) {
                    self.out.scan(&word.value);
                }
                Some(self.word(&word.value))
            }
            ast::AssignmentValue::Array(items) => {
                for word in items.iter().flat_map(|(key, value)| key.iter().chain([value])) {
                    self.word(&word.value);
                }
                None
            }
        };
        Assignment { name, value }
    }

    fn redirects(&mut self, list: Option<&ast::RedirectList>) {
        let mut command = Command { cwd: self.cwd.clone(), ..Command::default() };
        for redirect in list.iter().flat_map(|list| &list.0) {
            command.redirects.extend(self.redirect(redirect));
        }
        if !command.redirects.is_empty() {
            self.out.commands.push(command);
        }
    }

    fn redirect(&mut self, redirect: &ast::IoRedirect) -> Option<Redirect> {
        use ast::{IoFileRedirectKind as K, IoFileRedirectTarget as T, IoRedirect as R};
        Some(match redirect {
            R::File(_, kind, target) => {
                let kind = match kind {
                    K::Read => RedirectKind::Read,
                    K::Write | K::Clobber => RedirectKind::Write,
                    K::Append => RedirectKind::Append,
                    K::ReadAndWrite => RedirectKind::ReadWrite,
                    K::DuplicateInput | K::DuplicateOutput => RedirectKind::Duplicate,
                };
                match target {
                    T::Filename(word) => Redirect { kind, target: self.word(&word.value) },
                    T::Fd(fd) => {
                        Redirect { kind: RedirectKind::Duplicate, target: Word::literal(&fd.to_string()) }
                    }
                    T::ProcessSubstitution(_, subshell) => {
                        self.out.doubt(Doubt::Substitution);
                        self.nested(|walk| walk.list(&subshell.list));
                        return None;
                    }
                    T::Duplicate(word) => {
                        let target = self.word(&word.value);
                        // `>&name` writes a file.
                        let is_fd = target.text().bytes().all(|c| c.is_ascii_digit() || c == b'-');
                        Redirect { kind: if is_fd { kind } else { RedirectKind::Write }, target }
                    }
                }
            }
            R::HereDocument(_, document) => {
                self.out.doubt(Doubt::HereDocument);
                let body = &document.doc.value;
                if document.requires_expansion {
                    self.scan_scripts(body);
                }
                Redirect { kind: RedirectKind::Here, target: Word::literal(body) }
            }
            R::HereString(_, word) => {
                self.out.doubt(Doubt::HereDocument);
                Redirect { kind: RedirectKind::Here, target: self.word(&word.value) }
            }
            R::OutputAndError(word, append) => Redirect {
                kind: if *append { RedirectKind::Append } else { RedirectKind::Write },
                target: self.word(&word.value),
            },
        })
    }

    /// Reads a word, and the scripts that are run for it.
    fn word(&mut self, raw: &str) -> Word {
        let word = Word::read(raw);
        if let Some(doubt) = word.doubt() {
            self.out.doubt(doubt.clone());
            let doubted = self.out.doubts.contains(&Doubt::Syntax);
            let scripts = scripts(raw, &self.options, Quoting::Plain);
            // Where a script in a word ends is a matter of its grammar, and the parser does not ask that.
            let is_plain =
                scripts.is_some() && !["case", "#", "<<", "esac"].iter().any(|part| raw.contains(part));
            for script in scripts.into_iter().flatten() {
                self.out.doubt(Doubt::Substitution);
                self.nested(|walk| walk.script(&script));
            }
            if !is_plain && raw.contains(['$', '`']) || !doubted && self.out.doubts.contains(&Doubt::Syntax) {
                self.out.scan(raw);
            }
        }
        word
    }

    /// Takes the words of whatever may be a script in a text that cannot be taken apart.
    fn scan_scripts(&mut self, text: &str) {
        for script in raw::scripts(text) {
            self.out.doubt(Doubt::Substitution);
            self.out.scan(script);
        }
    }

    /// The parser mistakes what stands behind a here-document's tag: all of the line may be commands.
    fn beside_here_documents(&mut self, text: &str) {
        let mut rest = text;
        while let Some((_, behind)) = rest.split_once("<<") {
            let line = behind.lines().next().unwrap_or_default();
            if line.contains("$(") || line.contains('`') {
                return self.out.scan(behind);
            }
            self.out.scan(line);
            rest = behind.get(line.len()..).unwrap_or_default();
        }
    }

    /// What is run in a shell of its own.
    fn nested(&mut self, walk: impl FnOnce(&mut Self)) {
        let before = self.cwd.clone();
        walk(self);
        self.cwd = before;
    }

    /// Takes a command, and looks into it if it runs others.
    fn run(&mut self, command: Command) {
        if wrap::changes_folder(command.name()) {
            self.change_folder(&command);
        }
        for doubt in wrap::doubts(&command) {
            self.out.doubt(doubt);
        }
        self.words += command.argv.len();
        let inside = wrap::inside(&command);
        if inside.is_empty() {
            self.out.commands.push(command);
            return;
        }
        let (cwd, background, piped) = (command.cwd.clone(), command.background, command.piped);
        let name = command.name().to_owned();
        self.out.commands.push(command);
        if self.depth > DEEPEST || self.words > MOST_WORDS {
            self.out.doubt(Doubt::TooDeep);
            let words = self
                .out
                .commands
                .last()
                .into_iter()
                .flat_map(Command::args)
                .map(str::to_owned)
                .collect::<Vec<_>>();
            words.iter().for_each(|word| self.out.scan(word));
            return;
        }
        self.depth += 1;
        for inside in inside {
            match inside {
                Inside::Command { argv, transparent } => {
                    let by = By { name: name.clone(), transparent };
                    if !transparent {
                        self.out.doubt(Doubt::Runs(name.clone()));
                    }
                    let cwd = cwd.clone();
                    self.run(Command { argv, cwd, background, piped, by: Some(by), ..Command::default() });
                }
                Inside::Script(script) => self.nested(|walk| {
                    walk.out.doubt(Doubt::Runs(name.clone()));
                    let at = walk.out.commands.len();
                    walk.script(&script);
                    let by = By { name: name.clone(), transparent: false };
                    for command in walk.out.commands.iter_mut().skip(at) {
                        command.by.get_or_insert_with(|| by.clone());
                    }
                }),
                Inside::Unsure(words) => {
                    self.out.doubt(Doubt::Runs(name.clone()));
                    words.iter().for_each(|word| self.out.scan(word));
                }
            }
        }
        self.depth -= 1;
    }

    fn change_folder(&mut self, command: &Command) {
        let target = match command.argv.as_slice() {
            [_, target] => Some(target),
            [_, dashes, target] if dashes.text() == "--" => Some(target),
            _ => None,
        };
        let known = target.filter(|target| command.name() == "cd" && target.is_literal());
        let known = known.map(Word::text).filter(|target| !target.is_empty() && !target.starts_with('-'));
        self.cwd = match (known, &self.cwd) {
            (Some(target), _) if target.starts_with('/') => Cwd::At(target.to_owned()),
            (Some(target), Cwd::Start) => Cwd::At(target.to_owned()),
            (Some(target), Cwd::At(at)) => Cwd::At(format!("{at}/{target}")),
            _ => {
                self.out.doubt(Doubt::Folder);
                Cwd::Unknown
            }
        };
    }
}

/// Whether a redirection gives input.
fn feeds(redirect: &ast::IoRedirect) -> bool {
    match redirect {
        ast::IoRedirect::File(_, kind, _) => {
            matches!(kind, ast::IoFileRedirectKind::Read | ast::IoFileRedirectKind::ReadAndWrite)
        }
        ast::IoRedirect::HereDocument(..) | ast::IoRedirect::HereString(..) => true,
        ast::IoRedirect::OutputAndError(..) => false,
    }
}

/// The command whose exit code a script has: the last one of its last pipe, where that is a simple one.
fn decides(program: &ast::Program) -> Option<Decides> {
    let ast::CompoundListItem(and_or, separator) = program.complete_commands.last()?.0.last()?;
    if matches!(separator, ast::SeparatorOperator::Async) {
        return None;
    }
    let mut pipeline = &and_or.first;
    let mut before = Before::Nothing;
    for next in &and_or.additional {
        let ast::AndOr::And(next) = next else { return None };
        let is_cd = match pipeline.seq.as_slice() {
            [ast::Command::Simple(simple)] => {
                simple.word_or_name.as_ref().is_some_and(|word| word.value == "cd")
            }
            _ => false,
        };
        before = if is_cd && before != Before::Something { Before::Cd } else { Before::Something };
        pipeline = next;
    }
    let (ast::Command::Simple(simple), false) = (pipeline.seq.last()?, pipeline.bang) else { return None };
    let words = simple.suffix.iter().flat_map(|suffix| &suffix.0).filter_map(|item| match item {
        Item::Word(word) => Some(word.value.clone()),
        _ => None,
    });
    let argv = [simple.word_or_name.as_ref()?.value.clone()].into_iter().chain(words).collect();
    Some(Decides { argv, before })
}

/// The parser counts on what the gate has let through. Should it panic all the same, the command is unknown.
fn parse(text: &str, options: &ParserOptions) -> Result<ast::Program, Doubt> {
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        let tokens =
            |text: &str| uncached_tokenize_str(text, &options.tokenizer_options()).map_err(|_| Doubt::Syntax);
        // Where a text ends behind an empty tag, the tokenizer does not. With lines behind it, of which a backslash
        // may take one, the tag is found.
        if text.contains("<<") && gate::has_empty_tag(&tokens(&format!("{text}\n\n"))?) {
            return Err(Doubt::Syntax);
        }
        let tokens = tokens(text)?;
        match gate::tokens(&tokens) {
            Some(doubt) => Err(doubt),
            None => parse_tokens(&tokens, options).map_err(|_| Doubt::Syntax),
        }
    }));
    parsed.unwrap_or(Err(Doubt::Syntax))
}
