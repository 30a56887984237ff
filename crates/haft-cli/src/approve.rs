//! Asking at the terminal. One question at a time; one that is withdrawn says so and goes away. Everything that comes
//! from a model is shown so that nothing of it can hide or act.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::{Access, ApprovalRequest, Approver, BoxFuture, Choice, Decision, Resource, Rule, Scope, Store};
use haft_sandbox::terminal::{self, Terminal};
use haft_tools::rules::Written;
use parking_lot::Mutex;
use serde_json::Value;

use crate::style::{BAD, BOLD, DIM, GOOD, NAME, harmless};

/// More lines are shown when somebody wants to see them.
const FIRST_LINES: usize = 60;
/// So many blanks in a row hide something.
const MANY_BLANKS: usize = 40;

/// Asks whoever sits at the terminal.
#[derive(Clone)]
pub(crate) struct AtTerminal {
    /// Whose turn it is.
    turn: Arc<Mutex<()>>,
    /// Where the arguments are while somebody edits them.
    drafts: Store,
}

impl AtTerminal {
    pub(crate) fn new(drafts: Store) -> Self {
        Self { turn: Arc::default(), drafts }
    }

    /// Whose turn it is to ask: there is one terminal.
    pub(crate) fn turn(&self) -> Arc<Mutex<()>> {
        self.turn.clone()
    }
}

/// Tells that nobody waits for an answer any more.
pub(crate) struct Withdraws(pub(crate) Arc<AtomicBool>);

impl Drop for Withdraws {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Approver for AtTerminal {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, String>> {
        let over = Arc::new(AtomicBool::new(false));
        let withdraws = Withdraws(over.clone());
        let (turn, drafts) = (self.turn.clone(), self.drafts.clone());
        Box::pin(async move {
            let _withdraws = withdraws;
            let asking = tokio::task::spawn_blocking(move || {
                let _turn = turn.lock();
                let is_over = || over.load(Ordering::Acquire);
                if is_over() {
                    return Err("the question was withdrawn".to_owned());
                }
                let mut terminal = Terminal::open().map_err(|error| error.to_string())?;
                Asked { request: &request, terminal: &mut terminal, drafts: &drafts, is_over: &is_over }
                    .answer()
                    .map_err(|error| error.to_string())
            });
            asking.await.map_err(|error| error.to_string())?
        })
    }
}

/// A question that stands.
struct Asked<'a> {
    request: &'a ApprovalRequest,
    terminal: &'a mut Terminal,
    drafts: &'a Store,
    is_over: &'a dyn Fn() -> bool,
}

impl Asked<'_> {
    fn answer(&mut self) -> std::io::Result<Decision> {
        self.terminal.forget_typed();
        self.terminal.print(&question(self.request, Some(FIRST_LINES)))?;
        loop {
            let rules = self.request.offered().to_vec();
            self.terminal.print(&choices(self.request))?;
            let Some(key) = self.terminal.key(self.is_over)? else { return self.withdrawn() };
            self.terminal.print(&format!("{}\n", harmless(&key.to_string()).trim()))?;
            let always = |scope| Decision::AllowAlways { rules: rules.clone(), scope };
            match key.to_ascii_lowercase() {
                'y' => return Ok(Decision::AllowOnce),
                's' if !rules.is_empty() => return Ok(always(Scope::Session)),
                'p' if !rules.is_empty() => return Ok(always(Scope::Project)),
                'u' if !rules.is_empty() => return Ok(always(Scope::User)),
                'r' if !rules.is_empty() => match self.other_rule(&rules)? {
                    Some(decision) => return Ok(decision),
                    None if (self.is_over)() => return self.withdrawn(),
                    None => {}
                },
                'h' if self.offers(&Choice::AllowParts) => match self.parts()? {
                    Some(chosen) => return Ok(Decision::AllowParts(chosen)),
                    None if (self.is_over)() => return self.withdrawn(),
                    None => {}
                },
                'e' => match self.edited()? {
                    Some(input) => return Ok(Decision::AllowEdited(input)),
                    None => self.terminal.print("nothing was changed\n")?,
                },
                'v' => self.terminal.print(&question(self.request, None))?,
                'x' | '?' => self.terminal.print(&explanation(self.request))?,
                'n' | '\u{1b}' => {
                    self.terminal.print("what to do instead (or nothing): ")?;
                    let Some(feedback) = self.terminal.line(self.is_over)? else { return self.withdrawn() };
                    let feedback = Some(feedback.trim().to_owned()).filter(|feedback| !feedback.is_empty());
                    let feedback = feedback.map(|feedback| format!("the user denied the call: {feedback}"));
                    return Ok(Decision::Deny { feedback });
                }
                _ => {}
            }
        }
    }

    fn offers(&self, choice: &Choice) -> bool {
        self.request.choices.contains(choice)
    }

    fn withdrawn(&mut self) -> std::io::Result<Decision> {
        self.terminal.print(&format!("{DIM}(withdrawn){DIM:#}\n"))?;
        Ok(Decision::Deny { feedback: None })
    }

    /// Another rule in place of those that are offered.
    fn other_rule(&mut self, offered: &[Rule]) -> std::io::Result<Option<Decision>> {
        let shown: Vec<String> = offered.iter().map(|rule| harmless(&rule.0)).collect();
        self.terminal.print(&format!("offered: {}\nyour rule: ", shown.join(", ")))?;
        let Some(text) = self.terminal.line(self.is_over)? else { return Ok(None) };
        let rule = match Written::parse(&text) {
            Ok(rule) => Rule(rule.to_string()),
            Err(error) => {
                self.terminal.print(&format!("{BAD}{}{BAD:#}\n", harmless(&error.to_string())))?;
                return Ok(None);
            }
        };
        self.terminal.print("for the [s]ession, the [p]roject or every[u]where? ")?;
        let Some(key) = self.terminal.key(self.is_over)? else { return Ok(None) };
        self.terminal.print("\n")?;
        let scope = match key.to_ascii_lowercase() {
            's' => Scope::Session,
            'p' => Scope::Project,
            'u' => Scope::User,
            _ => return Ok(None),
        };
        Ok(Some(Decision::AllowAlways { rules: vec![rule], scope }))
    }

    /// The parts of the change that somebody agrees to, one after another.
    fn parts(&mut self) -> std::io::Result<Option<Vec<usize>>> {
        let parts = self.request.preview.as_ref().map(|preview| preview.parts.clone()).unwrap_or_default();
        let mut chosen = Vec::new();
        for (n, part) in parts.iter().enumerate() {
            self.terminal.print(&format!(
                "{}part {} of {}: [y]es, [n]o, [q]uit? ",
                coloured(part),
                n + 1,
                parts.len()
            ))?;
            let Some(key) = self.terminal.key(self.is_over)? else { return Ok(None) };
            self.terminal.print("\n")?;
            match key.to_ascii_lowercase() {
                'y' => chosen.push(n),
                'q' => return Ok(None),
                _ => {}
            }
        }
        Ok(Some(chosen))
    }

    /// The arguments as somebody has changed them in their editor.
    fn edited(&mut self) -> std::io::Result<Option<Value>> {
        let editor =
            std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR")).unwrap_or_else(|_| "vi".into());
        let name = format!("input-{}.json", std::process::id());
        let before = serde_json::to_string_pretty(&self.request.input).unwrap_or_default();
        self.drafts.write_fast(&name, before.as_bytes())?;
        let was_content = terminal::edit(&editor, &self.drafts.path(&name))?;
        let after = self.drafts.read(&name)?.unwrap_or_default();
        self.drafts.remove(&name)?;
        match serde_json::from_slice::<Value>(&after) {
            Ok(input) if was_content && input != self.request.input => Ok(Some(input)),
            Ok(_) => Ok(None),
            Err(error) => {
                self.terminal.print(&format!("{BAD}this is no JSON: {error}{BAD:#}\n"))?;
                Ok(None)
            }
        }
    }
}

/// What is asked, with so many lines of what would happen.
fn question(request: &ApprovalRequest, most: Option<usize>) -> String {
    let mut text = String::new();
    let works_for =
        request.works_for.as_ref().map(|parent| format!(", which works for {}", harmless(parent)));
    let _ = writeln!(
        text,
        "\n{BOLD}{}{BOLD:#} wants to run ({}{})",
        harmless(&request.tool),
        harmless(&request.session),
        works_for.unwrap_or_default()
    );
    let _ = writeln!(text, "{DIM}because{DIM:#} {}", harmless(&request.reason));
    let what = match &request.preview {
        Some(preview) if !preview.diff.is_empty() => coloured(&preview.diff),
        _ => input(&request.input),
    };
    let lines: Vec<&str> = what.lines().collect();
    let shown = most.unwrap_or(lines.len()).min(lines.len());
    for line in &lines[..shown] {
        let _ = writeln!(text, "{line}");
    }
    if shown < lines.len() {
        let _ = writeln!(text, "{BOLD}… {} more lines: press v to see them{BOLD:#}", lines.len() - shown);
    }
    text
}

/// The arguments: each on a line of its own, texts as they are.
fn input(input: &Value) -> String {
    let Value::Object(fields) = input else { return visible(&input.to_string()) };
    let mut text = String::new();
    for (name, value) in fields {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ =
            writeln!(text, "  {NAME}{}{NAME:#}: {}", harmless(name), visible(&value).replace('\n', "\n    "));
    }
    text
}

/// Text in which nothing hides: neither behind the edge nor in characters that are not seen.
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
    for c in harmless(text).chars() {
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

fn choices(request: &ApprovalRequest) -> String {
    let mut text = format!("{BOLD}[y]{BOLD:#} once");
    let rules: Vec<String> = request.offered().iter().map(|rule| harmless(&rule.0)).collect();
    if !rules.is_empty() {
        let _ = write!(
            text,
            "  {BOLD}[s]{BOLD:#} for the session  {BOLD}[p]{BOLD:#} for the project  {BOLD}[u]{BOLD:#} everywhere  \
             {BOLD}[r]{BOLD:#} another rule"
        );
    }
    if request.choices.contains(&Choice::AllowParts) {
        let _ = write!(text, "  {BOLD}[h]{BOLD:#} parts");
    }
    let _ = writeln!(
        text,
        "  {BOLD}[e]{BOLD:#} edit  {BOLD}[v]{BOLD:#} all of it  {BOLD}[x]{BOLD:#} explain  {BOLD}[n]{BOLD:#} no"
    );
    if !rules.is_empty() {
        let _ = writeln!(text, "{DIM}always means{DIM:#} {}", rules.join(", "));
    }
    text.push_str("> ");
    text
}

/// What the call claims, why it is asked, and what each answer does.
fn explanation(request: &ApprovalRequest) -> String {
    let mut text = format!("asked because {}\n", harmless(&request.reason));
    for (access, resource) in request.claims.iter() {
        let how = match (access, resource) {
            (_, Resource::Command(_)) => "runs",
            (Access::Read, _) => "reads",
            (Access::Write, _) => "changes",
        };
        let _ = writeln!(text, "  {how} {}", visible(&resource.to_string()));
    }
    let _ = writeln!(text, "in the mode `{}` it would not be asked", request.mode.name());
    if let Some(advice) = &request.advice {
        let _ = writeln!(text, "{}", harmless(advice));
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
