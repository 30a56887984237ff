//! Approvals at the terminal, one at a time. A question can be withdrawn while it is shown. Everything from a model is
//! sanitized, so that it can neither hide text nor control the terminal.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft_core::Fault;
use haft_core::permissions::{ApprovalRequest, Approver, Choice, Decision, Rule, Scope, Stage};
use haft_core::{Access, BoxFuture, Resource, Store};
use haft_rules::{KnownTools, ToolRule};
use haft_sandbox::terminal::{self, Terminal};
use parking_lot::Mutex;
use serde_json::Value;

use crate::live;
use crate::style::{self, BAD, BOLD, DANGER, DIM, GOOD, NAME, sanitize};

/// Lines of a preview that are shown at first; a key shows the rest.
const FIRST_LINES: usize = 60;
/// What Ctrl-D sends.
const CTRL_D: char = '\u{4}';
/// This many blanks in a row are shown as a count, since they could push text out of sight.
const MANY_BLANKS: usize = 40;

/// The user at the terminal, who approves calls and answers questions.
#[derive(Clone)]
pub(crate) struct TerminalUser {
    /// Held while a question is shown, since there is one terminal.
    lock: Arc<Mutex<()>>,
    /// The folder of arguments while the user edits them.
    drafts: Store,
    /// The tools that rules can name.
    known_tools: KnownTools,
}

impl TerminalUser {
    pub(crate) fn new(drafts: Store, known_tools: KnownTools) -> Self {
        Self { lock: Arc::default(), drafts, known_tools }
    }

    /// The lock that a question holds while it is shown.
    pub(crate) fn lock(&self) -> Arc<Mutex<()>> {
        self.lock.clone()
    }
}

/// Marks a question as withdrawn when the future that waits for its answer is dropped.
pub(crate) struct WithdrawOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Approver for TerminalUser {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let guard = WithdrawOnDrop(withdrawn.clone());
        let (lock, drafts, known_tools) = (self.lock.clone(), self.drafts.clone(), self.known_tools.clone());
        Box::pin(async move {
            let _guard = guard;
            let asking = tokio::task::spawn_blocking(move || {
                let _held = lock.lock();
                let is_withdrawn = || withdrawn.load(Ordering::Acquire);
                if is_withdrawn() {
                    return Err(Fault::failed("the question was withdrawn"));
                }
                let mut terminal = Terminal::open()?;
                let mut prompt = Prompt {
                    request: &request,
                    terminal: &mut terminal,
                    drafts: &drafts,
                    known_tools: &known_tools,
                    is_withdrawn: &is_withdrawn,
                };
                Ok(live::suspend(|| prompt.answer())?)
            });
            asking.await?
        })
    }
}

/// A question on the terminal.
struct Prompt<'a> {
    request: &'a ApprovalRequest,
    terminal: &'a mut Terminal,
    drafts: &'a Store,
    known_tools: &'a KnownTools,
    is_withdrawn: &'a dyn Fn() -> bool,
}

impl Prompt<'_> {
    fn answer(&mut self) -> std::io::Result<Decision> {
        self.terminal.forget_typed();
        self.print(&question(self.request, Some(FIRST_LINES), style::columns()))?;
        loop {
            let rules = self.request.offered().to_vec();
            let Some(key) = self.key(&choices(self.request, style::columns()))? else {
                return self.withdrawn();
            };
            self.print(&format!("{}\n", key_name(key)))?;
            let always = |scope| Decision::AllowAlways { rules: rules.clone(), scope };
            match key.to_ascii_lowercase() {
                'y' => return Ok(Decision::AllowOnce),
                's' if !rules.is_empty() => return Ok(always(Scope::Session)),
                'p' if !rules.is_empty() => return Ok(always(Scope::Project)),
                'u' if !rules.is_empty() => return Ok(always(Scope::User)),
                'r' if !rules.is_empty() => match self.other_rule(&rules)? {
                    Some(decision) => return Ok(decision),
                    None if (self.is_withdrawn)() => return self.withdrawn(),
                    None => {}
                },
                'h' if self.offers(&Choice::AllowParts) => match self.parts()? {
                    Some(chosen) => return Ok(Decision::AllowParts(chosen)),
                    None if (self.is_withdrawn)() => return self.withdrawn(),
                    None => {}
                },
                'w' if self.offers(&Choice::AllowWithNetwork) => return Ok(Decision::AllowWithNetwork),
                't' if self.offers(&Choice::Try) => return Ok(Decision::Try),
                'e' if self.offers(&Choice::Edit) => match self.edited()? {
                    Some(input) => return Ok(Decision::Revise(input)),
                    None => self.print("nothing was changed\n")?,
                },
                'v' => self.print(&question(self.request, None, style::columns()))?,
                'x' | '?' => self.print(&explanation(self.request, style::columns()))?,
                'n' | '\u{1b}' => {
                    self.print("what to do instead (or nothing): ")?;
                    let feedback = self.terminal.line(self.is_withdrawn)?;
                    if feedback.is_none() && (self.is_withdrawn)() {
                        return self.withdrawn();
                    }
                    let feedback = feedback.map(|feedback| feedback.trim().to_owned());
                    let feedback = feedback.filter(|feedback| !feedback.is_empty());
                    let feedback = feedback.map(|feedback| format!("the user denied the call: {feedback}"));
                    return Ok(Decision::Deny { feedback });
                }
                CTRL_D => return Ok(Decision::Deny { feedback: None }),
                _ => {
                    let keys = keys(self.request);
                    self.print(&format!("{DIM}no such key: press one of {keys}{DIM:#}\n"))?;
                }
            }
        }
    }

    fn print(&mut self, text: &str) -> std::io::Result<()> {
        self.terminal.print(&style::for_terminal(text))
    }

    fn key(&mut self, prompt: &str) -> std::io::Result<Option<char>> {
        self.terminal.key(&style::for_terminal(prompt), self.is_withdrawn)
    }

    fn offers(&self, choice: &Choice) -> bool {
        self.request.choices.contains(choice)
    }

    fn withdrawn(&mut self) -> std::io::Result<Decision> {
        self.print(&format!("{DIM}(withdrawn){DIM:#}\n"))?;
        Ok(Decision::Deny { feedback: None })
    }

    /// Asks for a rule of the user's own instead of the offered ones, and for its scope.
    fn other_rule(&mut self, offered: &[Rule]) -> std::io::Result<Option<Decision>> {
        let shown: Vec<String> = offered.iter().map(|rule| haft_core::visible(&rule.0)).collect();
        self.print(&format!("offered: {}\nyour rule: ", shown.join(", ")))?;
        let Some(text) = self.terminal.line(self.is_withdrawn)? else { return Ok(None) };
        let rule = match ToolRule::parse(&text, self.known_tools) {
            Ok(rule) => Rule(rule.to_string()),
            Err(error) => {
                self.print(&format!("{BAD}{}{BAD:#}\n", sanitize(&error.to_string())))?;
                return Ok(None);
            }
        };
        let Some(key) = self.key("for the [s]ession, the [p]roject or every[u]where? ")? else {
            return Ok(None);
        };
        self.print("\n")?;
        let scope = match key.to_ascii_lowercase() {
            's' => Scope::Session,
            'p' => Scope::Project,
            'u' => Scope::User,
            _ => return Ok(None),
        };
        Ok(Some(Decision::AllowAlways { rules: vec![rule], scope }))
    }

    /// Asks about each part of the change, and returns the approved ones.
    fn parts(&mut self) -> std::io::Result<Option<Vec<usize>>> {
        let parts = self.request.preview.as_ref().map(|preview| preview.parts.clone()).unwrap_or_default();
        let mut chosen = Vec::new();
        for (n, part) in parts.iter().enumerate() {
            self.print(&coloured(part))?;
            loop {
                let prompt = format!("part {} of {}: [y]es, [n]o, [q]uit? ", n + 1, parts.len());
                let Some(key) = self.key(&prompt)? else { return Ok(None) };
                self.print("\n")?;
                match key.to_ascii_lowercase() {
                    'y' => chosen.push(n),
                    'n' => {}
                    'q' => return Ok(None),
                    // A slip of the finger decides nothing.
                    _ => continue,
                }
                break;
            }
        }
        Ok(Some(chosen))
    }

    /// The arguments as changed in the user's editor. `None` if they are unchanged or invalid.
    fn edited(&mut self) -> std::io::Result<Option<Value>> {
        let editor =
            std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR")).unwrap_or_else(|_| "vi".into());
        let name = format!("input-{}.json", std::process::id());
        let before = serde_json::to_string_pretty(&self.request.input).unwrap_or_default();
        self.drafts.write_fast(&name, before.as_bytes())?;
        let succeeded = terminal::edit(&editor, &self.drafts.path(&name))?;
        let after = self.drafts.read(&name)?.unwrap_or_default();
        self.drafts.remove(&name)?;
        match serde_json::from_slice::<Value>(&after) {
            Ok(input) if succeeded && input != self.request.input => Ok(Some(input)),
            Ok(_) => Ok(None),
            Err(error) => {
                self.print(&format!("{BAD}this is no JSON: {error}{BAD:#}\n"))?;
                Ok(None)
            }
        }
    }
}

/// The text of a question, with at most this many lines of the preview or the arguments. haft's own lines fit the columns;
/// the terminal breaks those of the call, so that they can be copied.
fn question(request: &ApprovalRequest, max_lines: Option<usize>, columns: usize) -> String {
    let mut text = String::new();
    let works_for =
        request.works_for.as_ref().map(|parent| format!(", which works for {}", sanitize(parent)));
    let danger = match request.is_dangerous {
        true => format!("{DANGER} DANGEROUS {DANGER:#} "),
        false => String::new(),
    };
    let headline = format!(
        "{danger}{BOLD}{}{BOLD:#} {} ({}{})",
        sanitize(&request.tool),
        match request.stage {
            Stage::Tried => "was tried: keep what it changed?",
            Stage::Untriable => "cannot be tried: run it directly?",
            Stage::Done => "has run: keep what it changed?",
            _ => "wants to run",
        },
        sanitize(&request.session),
        works_for.unwrap_or_default()
    );
    let reason = haft_core::visible(&request.reason);
    let reason = match request.is_dangerous {
        true => format!("{BAD}it may do harm that cannot be undone: {reason}{BAD:#}"),
        false => format!("{DIM}because{DIM:#} {reason}"),
    };
    for line in std::iter::once("").chain(headline.lines()).chain(reason.lines()) {
        let _ = writeln!(text, "{}", style::wrap(line, columns));
    }
    let what = match &request.preview {
        Some(preview) if !preview.diff.is_empty() => coloured(&preview.diff),
        Some(preview) if !preview.summary.is_empty() => String::new(),
        _ => input(&request.input),
    };
    // Never cut: a deletion must not hide behind many other changes.
    for line in request.preview.iter().flat_map(|preview| preview.summary.lines()) {
        let style = if line.starts_with("written through") { DIM } else { BAD };
        let _ = writeln!(text, "{style}{}{style:#}", visible(line));
    }
    let lines: Vec<&str> = what.lines().collect();
    let shown = max_lines.unwrap_or(lines.len()).min(lines.len());
    for line in &lines[..shown] {
        let _ = writeln!(text, "{line}");
    }
    if shown < lines.len() {
        let _ = writeln!(text, "{BOLD}… {} more lines: press v to see them{BOLD:#}", lines.len() - shown);
    }
    text
}

/// The arguments, one per line, with strings unquoted.
fn input(input: &Value) -> String {
    let Value::Object(fields) = input else { return visible(&input.to_string()) };
    let mut text = String::new();
    for (name, value) in fields {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ =
            writeln!(text, "  {NAME}{}{NAME:#}: {}", sanitize(name), visible(&value).replace('\n', "\n    "));
    }
    text
}

/// Sanitizes text and shows long runs of blanks as a count, so that nothing is hidden behind the edge of the terminal.
fn visible(text: &str) -> String {
    let mut out = String::new();
    let mut blanks = 0;
    let flush = |out: &mut String, blanks: &mut usize| {
        match *blanks {
            many if many >= MANY_BLANKS => {
                let _ = write!(out, "{BOLD}⟨{many} blanks⟩{BOLD:#}");
            }
            few => out.extend(std::iter::repeat_n(' ', few)),
        }
        *blanks = 0;
    };
    for c in haft_core::visible(text).chars() {
        if c == ' ' {
            blanks += 1;
            continue;
        }
        flush(&mut out, &mut blanks);
        out.push(c);
    }
    flush(&mut out, &mut blanks);
    out
}

fn coloured(diff: &str) -> String {
    let mut text = String::new();
    for line in diff.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => GOOD,
            Some(b'-') => BAD,
            Some(b'@') => NAME,
            _ => DIM,
        };
        let _ = writeln!(text, "{style}{}{style:#}", visible(line));
    }
    text
}

fn choices(request: &ApprovalRequest, columns: usize) -> String {
    let rules: Vec<String> = request.offered().iter().map(|rule| haft_core::visible(&rule.0)).collect();
    let always =
        [('s', "for the session"), ('p', "for the project"), ('u', "everywhere"), ('r', "another rule")];
    let offers = |choice: Choice| request.choices.contains(&choice);
    let network = [('w', "once, with the network")];
    let parts = [('h', "parts")];
    let tries = [('t', "try it")];
    let edits = [('e', "edit")];
    let (yes, no) = match request.stage {
        Stage::Tried | Stage::Done => {
            ("keep all", if request.stage == Stage::Done { "undo" } else { "keep nothing" })
        }
        _ => ("once", "no"),
    };
    let choices = [('y', yes)]
        .into_iter()
        .chain(always.into_iter().filter(|_| !rules.is_empty()))
        .chain(network.into_iter().filter(|_| offers(Choice::AllowWithNetwork)))
        .chain(tries.into_iter().filter(|_| offers(Choice::Try)))
        .chain(parts.into_iter().filter(|_| offers(Choice::AllowParts)))
        .chain(edits.into_iter().filter(|_| offers(Choice::Edit)))
        .chain([('v', "all of it"), ('x', "explain"), ('n', no)]);
    let choices: Vec<String> = choices.map(|(key, means)| format!("{BOLD}[{key}]{BOLD:#} {means}")).collect();
    let mut text = style::flow(choices.iter().map(String::as_str), "  ", columns);
    text.push('\n');
    if !rules.is_empty() {
        let (last, first) = rules.split_last().map_or(("", &[][..]), |(last, first)| (last.as_str(), first));
        let first: Vec<String> = first.iter().map(|rule| format!("{rule},")).collect();
        let means = format!("{DIM}always means{DIM:#}");
        let rules = first.iter().map(String::as_str).chain([last]);
        text.push_str(&style::flow(std::iter::once(means.as_str()).chain(rules), " ", columns));
        text.push('\n');
    }
    text.push_str("> ");
    text
}

/// The keys that answer a question.
fn keys(request: &ApprovalRequest) -> String {
    let always = if request.offered().is_empty() { "" } else { "spur" };
    let network = if request.choices.contains(&Choice::AllowWithNetwork) { "w" } else { "" };
    let parts = if request.choices.contains(&Choice::AllowParts) { "h" } else { "" };
    let tries = if request.choices.contains(&Choice::Try) { "t" } else { "" };
    let edits = if request.choices.contains(&Choice::Edit) { "e" } else { "" };
    let keys = format!("y{always}{network}{tries}{parts}{edits}vxn");
    keys.chars().map(String::from).collect::<Vec<_>>().join(" ")
}

/// How a pressed key is shown.
fn key_name(key: char) -> String {
    match key {
        CTRL_D => "Ctrl-D: no".to_owned(),
        '\u{1b}' => "Escape: no".to_owned(),
        char::REPLACEMENT_CHARACTER => String::new(),
        key if key.is_control() => String::new(),
        key => sanitize(&key.to_string()),
    }
}

/// Why the call needs approval, what it claims, and which mode would allow it.
fn explanation(request: &ApprovalRequest, columns: usize) -> String {
    let wrap =
        |text: String| -> String { text.lines().map(|line| style::wrap(line, columns) + "\n").collect() };
    let mut text = wrap(format!("asked because {}", haft_core::visible(&request.reason)));
    for (access, resource) in request.claims.iter() {
        let how = match (access, resource) {
            (_, Resource::Command(_)) => "runs",
            (Access::Read, _) => "reads",
            (Access::Write, _) => "changes",
        };
        let _ = writeln!(text, "  {how} {}", visible(&resource.to_string()));
    }
    text.push_str(&wrap(format!("in the mode `{}` it would not be asked", request.mode.name())));
    if let Some(advice) = &request.advice {
        text.push_str(&wrap(sanitize(advice)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides_behind_blanks_or_in_escapes() {
        let shown = visible(&format!("ls{};\u{1b}[8m touch M\u{202e}\r", " ".repeat(10_000)));
        assert!(shown.contains("⟨10000 blanks⟩") && shown.contains("touch M"), "{shown}");
        assert!(!shown.contains(['\u{202e}', '\r']), "{shown:?}");
    }

    #[test]
    fn a_text_of_many_lines_is_shown_line_by_line() {
        let shown = input(&serde_json::json!({"command": "one\ntwo", "timeout": 5}));
        assert!(shown.contains("one\n    two") && shown.contains(": 5"), "{shown}");
    }
}
