//! Walks the parser's syntax tree and flattens it into simple commands. Every node is visited; anything other than a
//! list or a pipeline of simple commands adds a doubt. A script that the parser rejects adds a doubt, and all its words
//! as possible commands. Which programs run others is decided in `wrap`.

mod commands;
mod redirects;

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast::{self, CommandPrefixOrSuffixItem as Item, CompoundCommand as Compound};
use brush_parser::{ParserOptions, parse_tokens, uncached_tokenize_str};

use super::bindings::{self, Binding};
use super::feed::{self, Input};
use super::scripts::Lookup;
use super::variables::Variables;
use super::word::{Quoting, scripts, variables};
use super::wrap;
use super::{
    Assignment, Command, Cwd, Doubt, ExitCodeSource, ParsedCommand, Preceding, RedirectKind, Word, gate, scan,
};

/// Deepest nesting of scripts within scripts and wrappers within wrappers that the walk follows.
const MAX_DEPTH: usize = 12;
/// Longest word whose variables are looked at: the word parser takes exponential time on unbalanced text.
const MAX_EXPANDED: usize = 256;
/// Most words that the walk visits. No text within `MAX_COMMAND_BYTES` has as many, but each nested wrapper visits its words
/// again, which would be quadratic without this limit.
const MAX_WORDS: usize = 40_000;

pub(super) fn read(text: &str, scripts: Option<Lookup<'_>>) -> ParsedCommand {
    let options = ParserOptions {
        // `Word` detects tildes itself; the parser fails on numbers behind them.
        tilde_expansion_at_word_start: false,
        // The default of `bash -c`.
        enable_extended_globbing: false,
        ..ParserOptions::default()
    };
    let mut walk = Walk {
        out: ParsedCommand { text: text.trim().to_owned(), ..ParsedCommand::default() },
        options,
        cwd: Cwd::Start,
        background: false,
        input: Input::Empty,
        captured: false,
        variables: Variables::default(),
        names_are_certain: !may_redefine(text),
        depth: 0,
        words: 0,
        scanned_up_to: 0,
    };
    walk.script(text);
    walk.run_written_files();
    walk.expand_variables(text);
    if let Some(lookup) = scripts {
        walk.run_script_files(lookup);
    }
    walk.out.collect_words();
    walk.out
}

/// Whether a text may give the names of programs another meaning, with functions, aliases or another `PATH`.
fn may_redefine(text: &str) -> bool {
    let closes = |after: &str| after.trim_start_matches([' ', '\t']).starts_with(')');
    text.match_indices('(').any(|(at, _)| text.get(at + 1..).is_some_and(closes))
        || ["function", "alias", "enable", "hash", "PATH"].iter().any(|part| text.contains(part))
}

pub(super) struct Walk {
    pub(super) out: ParsedCommand,
    options: ParserOptions,
    cwd: Cwd,
    background: bool,
    /// Standard input of the enclosing compound command.
    input: Input,
    /// Whether the standard output of the enclosing compound command goes to another command or a file.
    captured: bool,
    /// Values that are assigned to variables.
    pub(super) variables: Variables,
    /// Whether `echo`, `printf` and `cat` are certain to be the usual ones.
    names_are_certain: bool,
    /// Number of enclosing scripts and wrappers.
    depth: usize,
    /// Number of words visited so far.
    words: usize,
    /// Number of commands whose words are scanned.
    scanned_up_to: usize,
}

impl Walk {
    /// Whether the programs that print text are certain to be the usual ones.
    pub(super) fn names_are_certain(&self) -> bool {
        self.names_are_certain
    }

    fn script(&mut self, text: &str) {
        match gate::text(text) {
            Some(doubt @ Doubt::Character(_)) => {
                self.unreadable(text, doubt);
                // For the shell these are characters like any other.
                let plain = gate::without_hidden(text);
                return if gate::text(&plain).is_none() {
                    self.script(&plain)
                };
            }
            Some(doubt) => return self.unreadable(text, doubt),
            None => {}
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
        let outer_captured = self.captured;
        let mut input = None;
        for (n, command) in pipeline.seq.iter().enumerate() {
            let at = self.out.commands.len();
            let is_last = n + 1 == pipeline.seq.len();
            self.captured = outer_captured || !is_last;
            let own = self.command(command, input.take());
            if !is_last {
                input = Some(self.output(own, at));
            }
            // Each part of a pipeline runs in a subshell with its own working directory.
            if pipeline.seq.len() > 1 {
                self.cwd.clone_from(&before);
            }
        }
        self.captured = outer_captured;
    }

    /// What a part of a pipeline prints: its own command, and the first of all commands that were found in it.
    fn output(&self, own: Option<usize>, first: usize) -> Input {
        let Some(mut at) = own.filter(|_| self.names_are_certain) else {
            let names: Vec<&str> = self
                .out
                .commands
                .iter()
                .skip(first)
                .map(Command::name)
                .filter(|name| !name.is_empty())
                .collect();
            return Input::Unread(match names.as_slice() {
                [] => "another part of it prints".to_owned(),
                [name, ..] => format!("`{name}` prints"),
            });
        };
        // A transparent wrapper prints what its command prints.
        while let Some(next) = self.out.commands.get(at + 1)
            && next.by.as_ref().is_some_and(|by| by.transparent)
        {
            at += 1;
        }
        self.out.commands.get(at).map(feed::printed).unwrap_or_default()
    }

    /// Walks a command with an input from a pipe, and returns the index of its own entry if it is a simple command.
    fn command(&mut self, command: &ast::Command, piped: Option<Input>) -> Option<usize> {
        match command {
            ast::Command::Simple(simple) => return Some(self.simple(simple, piped)),
            ast::Command::Compound(compound, redirects) => {
                let own = self.redirects(redirects.as_ref());
                let input = own.or(piped).unwrap_or_else(|| self.input.clone());
                let captured =
                    redirects.as_ref().is_some_and(|list| list.0.iter().any(redirects::redirects_output));
                self.sharing(input, captured, |walk| walk.compound(compound));
            }
            ast::Command::Function(function) => {
                self.out.add_doubt(Doubt::Function);
                // A call of the function runs its body, so its name counts as a possible command.
                self.out.scanned.push(function.fname.value.clone());
                self.redirects(function.body.1.as_ref());
                let input = Input::Unread("callers of a function print".to_owned());
                self.sharing(input, false, |walk| walk.compound(&function.body.0));
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.out.add_doubt(Doubt::ControlFlow);
                self.redirects(redirects.as_ref());
                self.test(&test.expr);
            }
        }
        None
    }

    /// Walks several commands that share an input.
    fn sharing(&mut self, input: Input, captured: bool, walk: impl FnOnce(&mut Self)) {
        if let Input::Text(text) = &input {
            self.out.scan(text);
        }
        let outer = std::mem::replace(&mut self.input, input.shared());
        let outer_captured = self.captured;
        self.captured |= captured;
        walk(self);
        self.captured = outer_captured;
        self.input = outer;
    }

    fn test(&mut self, expr: &ast::ExtendedTestExpr) {
        use ast::ExtendedTestExpr as T;
        match expr {
            T::And(a, b) | T::Or(a, b) => {
                self.test(a);
                self.test(b);
            }
            T::Not(a) | T::Parenthesized(a) => self.test(a),
            T::UnaryTest(predicate, a) => {
                use ast::UnaryPredicate as P;
                if matches!(predicate, P::ShellVariableIsSetAndAssigned | P::ShellVariableIsSetAndNameRef) {
                    self.out.add_doubt(Doubt::Evaluates("[[".to_owned()));
                }
                self.evaluated_word(a);
            }
            T::BinaryTest(predicate, a, b) => {
                use ast::BinaryPredicate as P;
                if matches!(
                    predicate,
                    P::ArithmeticEqualTo
                        | P::ArithmeticNotEqualTo
                        | P::ArithmeticLessThan
                        | P::ArithmeticLessThanOrEqualTo
                        | P::ArithmeticGreaterThan
                        | P::ArithmeticGreaterThanOrEqualTo
                ) {
                    self.out.add_doubt(Doubt::Evaluates("[[".to_owned()));
                }
                self.evaluated_word(a);
                self.evaluated_word(b);
            }
        }
    }

    /// Reads a word that bash evaluates as arithmetic: bash runs a substitution in an array index even if it is
    /// quoted, as in `[[ 'a[$(x)]' -eq 0 ]]`.
    fn evaluated_word(&mut self, word: &ast::Word) {
        self.evaluated_text(&word.value);
        self.word(&word.value);
    }

    /// Walks the substitutions in the array indices of a text that bash evaluates as a name or as arithmetic.
    fn evaluated_text(&mut self, text: &str) {
        if text.contains('[') {
            self.scan_scripts(text);
        }
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
                self.out.add_doubt(Doubt::Arithmetic);
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
                let mut values = Vec::new();
                for word in clause.values.iter().flatten() {
                    let word = self.word(&word.value);
                    self.variables.assign(&clause.variable_name, &word);
                    values.push(word);
                }
                // Without a list, the values are the arguments of the shell.
                let values = clause.values.is_some().then_some(values.as_slice());
                self.out.bind(&clause.variable_name, Binding::of_loop(values));
                if !bindings::is_plain_name(&clause.variable_name) {
                    self.out.add_doubt(Doubt::Evaluates(clause.variable_name.clone()));
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
                let input = Input::Unread("a coprocess gets".to_owned());
                self.command(&process.body, Some(input));
            }
        }
        if !matches!(compound, Compound::BraceGroup(_)) {
            self.forget_changed_cwd(&before);
        }
    }

    /// Walks a simple command, and returns the index of its entry.
    fn simple(&mut self, simple: &ast::SimpleCommand, piped: Option<Input>) -> usize {
        let mut command = Command {
            cwd: self.cwd.clone(),
            background: self.background,
            piped: piped.is_some() || self.input != Input::Empty,
            captured: self.captured,
            input: piped.unwrap_or_else(|| self.input.clone()),
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
        if command.name() == "exec" && command.argv.len() == 1 && command.input != self.input {
            // `exec < file` changes the input of everything that follows.
            self.input = Input::Unread("a file or another command gives".to_owned());
        }
        self.add_command(command)
    }

    fn item(&mut self, item: &Item, command: &mut Command) {
        match item {
            Item::IoRedirect(redirect) => {
                let (redirect, input) = self.redirect(redirect);
                match input {
                    Some((0, input)) => command.input = input,
                    Some((_, input)) => command.other_inputs.push(input),
                    None => {}
                }
                command.captured |= redirect.as_ref().is_some_and(|redirect| {
                    matches!(redirect.kind, RedirectKind::Write | RedirectKind::Append)
                });
                command.redirects.extend(redirect);
            }
            Item::Word(word) => command.argv.push(self.word(&word.value)),
            Item::AssignmentWord(assignment, word) => {
                if let ast::AssignmentValue::Array(_) = assignment.value {
                    self.assignment(assignment);
                }
                command.argv.push(self.word(&word.value));
            }
            Item::ProcessSubstitution(kind, subshell) => {
                command.argv.push(Word::doubtful(feed::DESCRIPTOR, Doubt::Substitution));
                command.substituted.extend(self.process_substitution(kind, subshell));
            }
        }
    }

    /// Walks a list, and returns the index of its command if it is one simple command in the foreground.
    fn single(&mut self, list: &ast::CompoundList) -> Option<usize> {
        if let [ast::CompoundListItem(and_or, ast::SeparatorOperator::Sequence)] = list.0.as_slice()
            && and_or.additional.is_empty()
            && let [ast::Command::Simple(simple)] = and_or.first.seq.as_slice()
        {
            return Some(self.simple(simple, None));
        }
        self.list(list);
        None
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
                // Arithmetic evaluates the values of variables, too.
                self.evaluated_text(&word.value);
                let value = self.word(&word.value);
                if wrap::names_command(&name) && !value.is_literal() {
                    self.out
                        .add_doubt(Doubt::Unread(format!("`{name}` names a command in `{}`", value.raw())));
                }
                self.variables.assign(&name, &value);
                Some(value)
            }
            ast::AssignmentValue::Array(items) => {
                let mut values = Vec::new();
                for (key, value) in items {
                    key.iter().for_each(|key| drop(self.word(&key.value)));
                    values.push(self.word(&value.value));
                }
                self.variables.assign_list(&name, &values);
                None
            }
        };
        Assignment { name, value }
    }

    /// Reads a word, and walks the scripts that the shell runs to expand it.
    fn word(&mut self, raw: &str) -> Word {
        let mut word = Word::read(raw);
        if let Some(doubt) = word.doubt().cloned() {
            self.out.add_doubt(doubt.clone());
            if raw.contains('$') && raw.len() <= MAX_EXPANDED {
                match variables(raw, &self.options) {
                    Some(names) if doubt == Doubt::Expansion => word = word.with_variables(names),
                    Some(_) => {}
                    None => self.out.add_doubt(Doubt::Evaluates("$".to_owned())),
                }
            } else if raw.contains('$') {
                self.out.add_doubt(Doubt::Evaluates("$".to_owned()));
            }
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
