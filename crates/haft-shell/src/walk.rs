//! Walks the parser's syntax tree and flattens it into simple commands. Every node is visited; anything other than a
//! list or a pipeline of simple commands adds a doubt. A script that the parser rejects adds a doubt, and all its words
//! as possible commands. Which programs run others is decided in `wrap`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast::{self, CommandPrefixOrSuffixItem as Item, CompoundCommand as Compound};
use brush_parser::{ParserOptions, parse_tokens, uncached_tokenize_str};

use super::word::{Quoting, scripts};
use super::wrap::{self, Nested};
use super::{
    Assignment, Command, Cwd, Doubt, ExitCodeSource, ParsedCommand, Preceding, Redirect, RedirectKind, Word,
    WrappedBy, gate, scan,
};

/// Deepest nesting of scripts within scripts and wrappers within wrappers that the walk follows.
const MAX_DEPTH: usize = 12;
/// Most words that the walk visits. No text within `MAX_COMMAND_BYTES` has as many, but each nested wrapper visits its words
/// again, which would be quadratic without this limit.
const MAX_WORDS: usize = 40_000;

pub(super) fn read(text: &str) -> ParsedCommand {
    let options = ParserOptions {
        // `Word` detects tildes itself; the parser fails on numbers behind them.
        tilde_expansion_at_word_start: false,
        // The default of `bash -c`.
        enable_extended_globbing: false,
        ..ParserOptions::default()
    };
    let mut walk = Walk {
        out: ParsedCommand::default(),
        options,
        cwd: Cwd::Start,
        background: false,
        has_input: false,
        depth: 0,
        words: 0,
    };
    walk.script(text);
    walk.out.collect_words();
    walk.out
}

struct Walk {
    out: ParsedCommand,
    options: ParserOptions,
    cwd: Cwd,
    background: bool,
    /// Whether an enclosing compound command has its standard input redirected or piped.
    has_input: bool,
    /// Number of enclosing scripts and wrappers.
    depth: usize,
    /// Number of words visited so far.
    words: usize,
}

impl Walk {
    fn script(&mut self, text: &str) {
        if let Some(doubt) = gate::text(text) {
            self.unreadable(text, doubt);
            return;
        }
        if text.contains("\\\n") {
            self.out.add_doubt(Doubt::Continuation);
            // A backslash at the end of a line continues it, but not within a comment. Telling these apart needs the
            // shell's lexer, so both readings count.
            let joined = text.replace("\\\n", "");
            if let Some(doubt) = gate::text(&joined) {
                return self.unreadable(text, doubt);
            }
            self.parse_and_walk(&joined);
            if self.depth > 0 {
                return self.out.scan(text);
            }
        }
        self.parse_and_walk(text);
    }

    fn unreadable(&mut self, text: &str, doubt: Doubt) {
        self.out.add_doubt(doubt);
        self.out.scan(text);
        self.out.scan(&text.replace("\\\n", ""));
    }

    fn parse_and_walk(&mut self, text: &str) {
        if self.depth > MAX_DEPTH || self.words > MAX_WORDS {
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
                    self.out.exit_code_source = exit_code_source(&program);
                }
                self.scan_here_document_lines(text);
            }
            Err(doubt) => self.unreadable(text, doubt),
        }
    }

    fn list(&mut self, list: &ast::CompoundList) {
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            let (outer_background, outer_cwd) = (self.background, self.cwd.clone());
            let background = matches!(separator, ast::SeparatorOperator::Async);
            if background {
                self.background = true;
                self.out.add_doubt(Doubt::Background);
            }
            self.pipeline(&and_or.first);
            for next in &and_or.additional {
                match next {
                    ast::AndOr::And(pipeline) => self.pipeline(pipeline),
                    ast::AndOr::Or(pipeline) => {
                        // The right side of `||` runs because something failed, which may have been a `cd`.
                        self.forget_changed_cwd(&outer_cwd);
                        self.pipeline(pipeline);
                    }
                }
            }
            if background {
                // A background list runs in a subshell.
                self.cwd = outer_cwd;
            } else {
                self.forget_changed_cwd(&outer_cwd);
            }
            self.background = outer_background;
        }
    }

    /// Marks the working directory as unknown if it changed since `before`: the `cd` that changed it may have failed,
    /// and what follows runs all the same.
    fn forget_changed_cwd(&mut self, before: &Cwd) {
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
                self.script_piped_to_shell(first, at);
            }
            // Each part of a pipeline runs in a subshell with its own working directory.
            if pipeline.seq.len() > 1 {
                self.cwd.clone_from(&before);
            }
            first = at;
        }
    }

    /// Follows `echo SCRIPT | sh`: the printed text is a script of its own.
    fn script_piped_to_shell(&mut self, from: usize, to: usize) {
        let (Some(printer), Some(shell)) = (self.out.commands.get(from), self.out.commands.get(to)) else {
            return;
        };
        if matches!(printer.name(), "echo" | "printf") && wrap::reads_script(shell) {
            let script = printer.args().collect::<Vec<_>>().join(" ");
            self.in_subshell(|walk| walk.script(&script));
        }
    }

    fn command(&mut self, command: &ast::Command, piped: bool) {
        match command {
            ast::Command::Simple(simple) => self.simple(simple, piped),
            ast::Command::Compound(compound, redirects) => {
                self.redirects(redirects.as_ref());
                let outer = self.has_input;
                self.has_input |=
                    piped || redirects.as_ref().is_some_and(|list| list.0.iter().any(redirects_input));
                self.compound(compound);
                self.has_input = outer;
            }
            ast::Command::Function(function) => {
                self.out.add_doubt(Doubt::Function);
                // A call of the function runs its body, so its name counts as a possible command.
                self.out.scanned.push(function.fname.value.clone());
                self.redirects(function.body.1.as_ref());
                self.compound(&function.body.0);
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.out.add_doubt(Doubt::ControlFlow);
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
            T::UnaryTest(_, a) => self.evaluated_word(a),
            T::BinaryTest(_, a, b) => {
                self.evaluated_word(a);
                self.evaluated_word(b);
            }
        }
    }

    /// Reads a word that bash evaluates as arithmetic: bash runs a substitution in an array index even if it is
    /// quoted, as in `[[ 'a[$(x)]' -eq 0 ]]`.
    fn evaluated_word(&mut self, word: &ast::Word) {
        if word.value.contains('[') {
            self.scan_scripts(&word.value);
        }
        self.word(&word.value);
    }

    fn compound(&mut self, compound: &Compound) {
        let before = self.cwd.clone();
        match compound {
            // The parser also reads the nested subshell `( ( a ) )` as arithmetic, so its words may be commands.
            Compound::Arithmetic(sum) => {
                self.out.add_doubt(Doubt::Arithmetic);
                self.out.scan(&sum.expr.value);
            }
            Compound::ArithmeticForClause(clause) => {
                self.out.add_doubt(Doubt::ControlFlow);
                for sum in [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten() {
                    self.out.scan(&sum.value);
                }
                self.list(&clause.body.list);
            }
            Compound::BraceGroup(group) => {
                self.out.add_doubt(Doubt::Group);
                self.list(&group.list);
            }
            Compound::Subshell(subshell) => {
                self.out.add_doubt(Doubt::Group);
                self.list(&subshell.list);
                self.cwd.clone_from(&before);
            }
            Compound::ForClause(clause) => {
                self.out.add_doubt(Doubt::ControlFlow);
                for word in clause.values.iter().flatten() {
                    self.word(&word.value);
                }
                self.list(&clause.body.list);
            }
            Compound::CaseClause(clause) => {
                self.out.add_doubt(Doubt::ControlFlow);
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
                self.out.add_doubt(Doubt::ControlFlow);
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
                self.out.add_doubt(Doubt::ControlFlow);
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            Compound::Coprocess(process) => {
                self.out.add_doubt(Doubt::Background);
                if let Some(name) = &process.name {
                    // In `coproc NAME command`, bash may take the name for the command.
                    self.out.scanned.push(name.value.clone());
                }
                self.command(&process.body, false);
            }
        }
        if !matches!(compound, Compound::BraceGroup(_)) {
            self.forget_changed_cwd(&before);
        }
    }

    fn simple(&mut self, simple: &ast::SimpleCommand, piped: bool) {
        let mut command = Command {
            cwd: self.cwd.clone(),
            background: self.background,
            piped: piped || self.has_input,
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
        self.add_command(command);
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
                self.out.add_doubt(Doubt::Substitution);
                command.argv.push(Word::doubtful("/dev/fd/63", Doubt::Substitution));
                self.in_subshell(|walk| walk.list(&subshell.list));
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
        self.out.add_doubt(Doubt::Assignment(name.clone()));
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
                        self.out.add_doubt(Doubt::Substitution);
                        self.in_subshell(|walk| walk.list(&subshell.list));
                        return None;
                    }
                    T::Duplicate(word) => {
                        let target = self.word(&word.value);
                        // `>&name` writes a file unless the name is a descriptor.
                        let is_fd = target.text().bytes().all(|c| c.is_ascii_digit() || c == b'-');
                        Redirect { kind: if is_fd { kind } else { RedirectKind::Write }, target }
                    }
                }
            }
            R::HereDocument(_, document) => {
                self.out.add_doubt(Doubt::HereDocument);
                let body = &document.doc.value;
                if document.requires_expansion {
                    self.scan_scripts(body);
                }
                Redirect { kind: RedirectKind::Here, target: Word::literal(body) }
            }
            R::HereString(_, word) => {
                self.out.add_doubt(Doubt::HereDocument);
                Redirect { kind: RedirectKind::Here, target: self.word(&word.value) }
            }
            R::OutputAndError(word, append) => Redirect {
                kind: if *append { RedirectKind::Append } else { RedirectKind::Write },
                target: self.word(&word.value),
            },
        })
    }

    /// Reads a word, and walks the scripts that the shell runs to expand it.
    fn word(&mut self, raw: &str) -> Word {
        let word = Word::read(raw);
        if let Some(doubt) = word.doubt() {
            self.out.add_doubt(doubt.clone());
            let had_syntax_doubt = self.out.doubts.contains(&Doubt::Syntax);
            let scripts = scripts(raw, &self.options, Quoting::Unquoted);
            // Where a substitution ends depends on the grammar of its script: `case` patterns, comments and
            // here-documents may contain a `)`. The word parser only counts brackets, so the word is scanned as well.
            let has_certain_end =
                scripts.is_some() && !["case", "#", "<<", "esac"].iter().any(|part| raw.contains(part));
            for script in scripts.into_iter().flatten() {
                self.out.add_doubt(Doubt::Substitution);
                self.in_subshell(|walk| walk.script(&script));
            }
            if !has_certain_end && raw.contains(['$', '`'])
                || !had_syntax_doubt && self.out.doubts.contains(&Doubt::Syntax)
            {
                self.out.scan(raw);
            }
        }
        word
    }

    /// Scans the words of possible substitutions in a text that the word parser does not cover.
    fn scan_scripts(&mut self, text: &str) {
        for script in scan::scripts(text) {
            self.out.add_doubt(Doubt::Substitution);
            self.out.scan(script);
        }
    }

    /// Scans the rest of each line with a here-document operator: the parser misreads text behind the tag, so every
    /// word there counts as a possible command.
    fn scan_here_document_lines(&mut self, text: &str) {
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

    /// Walks something that runs in a subshell, which cannot change the working directory of the rest.
    fn in_subshell(&mut self, walk: impl FnOnce(&mut Self)) {
        let before = self.cwd.clone();
        walk(self);
        self.cwd = before;
    }

    /// Adds a simple command, and the commands that it runs if it is a wrapper.
    fn add_command(&mut self, command: Command) {
        if wrap::changes_folder(command.name()) {
            self.change_folder(&command);
        }
        for doubt in wrap::doubts(&command) {
            self.out.add_doubt(doubt);
        }
        self.words += command.argv.len();
        let nested = wrap::nested(&command);
        if nested.is_empty() {
            self.out.commands.push(command);
            return;
        }
        let (cwd, background, piped) = (command.cwd.clone(), command.background, command.piped);
        let name = command.name().to_owned();
        self.out.commands.push(command);
        if self.depth > MAX_DEPTH || self.words > MAX_WORDS {
            self.out.add_doubt(Doubt::TooDeep);
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
        for nested in nested {
            match nested {
                Nested::Command { argv, transparent } => {
                    let by = WrappedBy { name: name.clone(), transparent };
                    if !transparent {
                        self.out.add_doubt(Doubt::Runs(name.clone()));
                    }
                    let cwd = cwd.clone();
                    self.add_command(Command {
                        argv,
                        cwd,
                        background,
                        piped,
                        by: Some(by),
                        ..Command::default()
                    });
                }
                Nested::Script(script) => self.in_subshell(|walk| {
                    walk.out.add_doubt(Doubt::Runs(name.clone()));
                    let at = walk.out.commands.len();
                    walk.script(&script);
                    let by = WrappedBy { name: name.clone(), transparent: false };
                    for command in walk.out.commands.iter_mut().skip(at) {
                        command.by.get_or_insert_with(|| by.clone());
                    }
                }),
                Nested::AnyOf(words) => {
                    self.out.add_doubt(Doubt::Runs(name.clone()));
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
                self.out.add_doubt(Doubt::Folder);
                Cwd::Unknown
            }
        };
    }
}

/// Whether a redirection provides standard input.
fn redirects_input(redirect: &ast::IoRedirect) -> bool {
    match redirect {
        ast::IoRedirect::File(_, kind, _) => {
            matches!(kind, ast::IoFileRedirectKind::Read | ast::IoFileRedirectKind::ReadAndWrite)
        }
        ast::IoRedirect::HereDocument(..) | ast::IoRedirect::HereString(..) => true,
        ast::IoRedirect::OutputAndError(..) => false,
    }
}

/// The command that sets the exit code of a script: the last one of its last pipeline, if that is a simple command.
fn exit_code_source(program: &ast::Program) -> Option<ExitCodeSource> {
    let ast::CompoundListItem(and_or, separator) = program.complete_commands.last()?.0.last()?;
    if matches!(separator, ast::SeparatorOperator::Async) {
        return None;
    }
    let mut pipeline = &and_or.first;
    let mut preceding = Preceding::None;
    for next in &and_or.additional {
        let ast::AndOr::And(next) = next else { return None };
        let is_cd = match pipeline.seq.as_slice() {
            [ast::Command::Simple(simple)] => {
                simple.word_or_name.as_ref().is_some_and(|word| word.value == "cd")
            }
            _ => false,
        };
        preceding = if is_cd && preceding != Preceding::Other { Preceding::OnlyCd } else { Preceding::Other };
        pipeline = next;
    }
    let (ast::Command::Simple(simple), false) = (pipeline.seq.last()?, pipeline.bang) else { return None };
    let words = simple.suffix.iter().flat_map(|suffix| &suffix.0).filter_map(|item| match item {
        Item::Word(word) => Some(word.value.clone()),
        _ => None,
    });
    let argv = [simple.word_or_name.as_ref()?.value.clone()].into_iter().chain(words).collect();
    Some(ExitCodeSource { argv, preceding })
}

/// Parses a text that passed `gate::text`. The gate keeps the parser from overflowing its stack; any other panic of
/// the parser is caught here and counts as a syntax error.
fn parse(text: &str, options: &ParserOptions) -> Result<ast::Program, Doubt> {
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        let tokens =
            |text: &str| uncached_tokenize_str(text, &options.tokenizer_options()).map_err(|_| Doubt::Syntax);
        // The tokenizer loops forever if the text ends behind an empty here-document tag. With two lines appended (a
        // backslash may swallow one) it terminates, so that the tag can be detected first.
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
