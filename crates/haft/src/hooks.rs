//! Code and commands that see every call before and after it runs. One that comes before a call can deny,
//! allow or rewrite it, and one that fails there denies: no hook fails open.

use std::path::PathBuf;
use std::time::Duration;

use haft_sandbox::process::{self, Exit, Finished};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BoxFuture, Context, Fault, Mode, json, suggest};

/// How long an external hook may take when nothing else is said.
pub const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// How much of what an external hook prints is read.
const MAX_OUTPUT: usize = 1024 * 1024;

/// When a hook is called. The names are those that existing hook scripts know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum HookEvent {
    /// Before a call.
    PreToolUse,
    /// After a call that succeeded.
    PostToolUse,
    /// After a call that failed.
    PostToolUseFailure,
}

impl HookEvent {
    fn name(self) -> &'static str {
        match self {
            HookEvent::PreToolUse => "PreToolUse",
            HookEvent::PostToolUse => "PostToolUse",
            HookEvent::PostToolUseFailure => "PostToolUseFailure",
        }
    }
}

/// What a hook is told. This is also the JSON that an external one reads from its standard input.
#[derive(Debug, Serialize)]
pub struct HookInput<'a> {
    /// When it is called.
    pub hook_event_name: HookEvent,
    /// The session.
    pub session_id: &'a str,
    /// The session's current folder.
    pub cwd: String,
    /// The session's mode.
    pub permission_mode: &'static str,
    /// The tool's name.
    pub tool_name: &'a str,
    /// The arguments.
    pub tool_input: &'a Value,
    /// The call.
    pub tool_use_id: &'a str,
    /// The reply, after a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Value>,
    /// What failed, after a call that did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a hook says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookAnswer {
    /// What it decides; nothing either way when there is none.
    pub decision: Option<HookDecision>,
    /// Why.
    pub reason: Option<String>,
    /// The arguments to use instead; they are decoded and checked again.
    pub updated_input: Option<Value>,
    /// Something the model is told beside the reply.
    pub additional_context: Option<String>,
}

/// What a hook decides, from mild to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookDecision {
    /// Nobody needs to be asked. Rules that deny still deny.
    Allow,
    /// Somebody must be asked.
    Ask,
    /// It must not happen.
    Deny,
}

/// Something that is called before or after calls.
pub trait Hook: Send + Sync {
    /// Which hook it is, for messages.
    fn name(&self) -> &str;

    /// Whether it wants to be called.
    fn wants(&self, event: HookEvent, tool: &str) -> bool;

    /// Is called. An error before a call denies it.
    fn call<'a>(
        &'a self,
        input: &'a HookInput<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<HookAnswer, String>>;
}

/// Which tools a hook wants: a regular expression that matches the whole name, such as `Edit|Write` or
/// `mcp__.*`; empty or `*` for all.
#[derive(Clone, Debug)]
pub struct ToolPattern(Option<Regex>);

impl ToolPattern {
    /// Reads a pattern.
    pub fn new(pattern: &str) -> Result<Self, Fault> {
        if pattern.is_empty() || pattern == "*" {
            return Ok(Self(None));
        }
        // By itself first: what closes the group around it must not pass for a pattern.
        let whole = Regex::new(pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})$")));
        whole.map(|regex| Self(Some(regex))).map_err(|error| {
            Fault::invalid(format!("`{pattern}` is no pattern for tool names: {error}"))
                .hint("a regular expression over the whole name, such as `Edit|Write`; `*` for every tool")
        })
    }

    /// Whether a tool is meant.
    pub fn matches(&self, tool: &str) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(tool))
    }
}

/// An external hook: a shell command that reads JSON and answers by exit code or JSON.
#[derive(Clone, Debug)]
pub struct CommandHook {
    /// When it is called.
    pub event: HookEvent,
    /// For which tools.
    pub tools: ToolPattern,
    /// The command, run by `sh`.
    pub command: String,
    /// The folder it runs in, which it also finds in `HAFT_PROJECT_DIR` and `CLAUDE_PROJECT_DIR`.
    pub dir: PathBuf,
    /// How long it may take.
    pub timeout: Duration,
}

impl Hook for CommandHook {
    fn name(&self) -> &str {
        self.command.trim()
    }

    fn wants(&self, event: HookEvent, tool: &str) -> bool {
        event == self.event && self.tools.matches(tool)
    }

    fn call<'a>(
        &'a self,
        input: &'a HookInput<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<HookAnswer, String>> {
        Box::pin(async move {
            let stdin = serde_json::to_vec(input).map_err(|error| error.to_string())?;
            let run = process::Run {
                program: "sh".into(),
                args: vec!["-c".into(), self.command.clone().into()],
                dir: self.dir.clone(),
                env: vec![
                    ("HAFT_PROJECT_DIR".into(), self.dir.clone().into()),
                    ("CLAUDE_PROJECT_DIR".into(), self.dir.clone().into()),
                ],
                stdin,
                timeout: self.timeout,
                max_output: MAX_OUTPUT,
            };
            let finished = process::run(run, cx.cancelled())
                .await
                .map_err(|error| format!("could not start: {error}"))?;
            answer(&finished, self.timeout)
        })
    }
}

/// The JSON that an external hook may print. Both the nested form and the older flat one are known.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Printed {
    #[serde(rename = "continue")]
    go_on: Option<bool>,
    stop_reason: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
    #[serde(flatten)]
    flat: Specific,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
}

fn answer(finished: &Finished, timeout: Duration) -> Result<HookAnswer, String> {
    let stderr = String::from_utf8_lossy(&finished.stderr);
    let stderr = stderr.trim();
    let because = |what: String| if stderr.is_empty() { what } else { format!("{what}: {stderr}") };
    match finished.exit {
        Exit::Code(0) => {}
        Exit::Code(2) => {
            let reason = if stderr.is_empty() { "it gave no reason".to_owned() } else { stderr.to_owned() };
            let decision = Some(HookDecision::Deny);
            return Ok(HookAnswer { decision, reason: Some(reason), ..HookAnswer::default() });
        }
        Exit::Code(code) => return Err(because(format!("exited with code {code}"))),
        Exit::Signal(signal) => return Err(because(format!("was killed by signal {signal}"))),
        Exit::TimedOut => return Err(because(format!("took longer than {} s", timeout.as_secs_f64()))),
        Exit::Cancelled => return Err("was cancelled".to_owned()),
    }
    let stdout = String::from_utf8_lossy(&finished.stdout);
    if stdout.trim().is_empty() {
        return Ok(HookAnswer::default());
    }
    let nonsense =
        |error: &dyn std::fmt::Display| format!("printed something that is not an answer in JSON ({error})");
    let value = json::parse(stdout.trim()).map_err(|fault| nonsense(&fault.message()))?;
    no_slips(&value)?;
    if let Some(specific) = value.get("hookSpecificOutput").filter(|specific| !specific.is_null()) {
        if !specific.is_object() {
            return Err(nonsense(&format!("`hookSpecificOutput` is {}", json::kind_of(specific))));
        }
        no_slips(specific)?;
    }
    read(serde_json::from_value(value).map_err(|error| nonsense(&error))?)
}

/// The fields that an answer may have, those that say nothing to haft included.
const FIELDS: [&str; 13] = [
    "continue",
    "stopReason",
    "suppressOutput",
    "systemMessage",
    "decision",
    "reason",
    "hookSpecificOutput",
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "additionalContext",
    "terminalSequence",
];

/// A misspelt `permissionDecision` must not be read as no decision. Fields that are unlike every known one
/// may be news from another agent, and are passed over.
fn no_slips(answer: &Value) -> Result<(), String> {
    let unknown = answer.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    for key in unknown.filter(|key| !FIELDS.contains(key)) {
        if let [near] = suggest::nearest(key, FIELDS, 1)[..] {
            return Err(format!("answered with a field `{key}`; did it mean `{near}`?"));
        }
    }
    Ok(())
}

fn read(printed: Printed) -> Result<HookAnswer, String> {
    let specific = printed.hook_specific_output.unwrap_or_default();
    let flat = printed.flat;
    let mut decision = None;
    // An answer that says two things is taken at its strictest.
    for word in [specific.permission_decision, flat.permission_decision, printed.decision] {
        let said = match word.as_deref() {
            None => None,
            Some("allow" | "approve") => Some(HookDecision::Allow),
            Some("ask") => Some(HookDecision::Ask),
            Some("deny" | "block") => Some(HookDecision::Deny),
            Some(other) => return Err(format!("decided `{other}`, which is none of allow, ask and deny")),
        };
        decision = decision.max(said);
    }
    let mut reason =
        specific.permission_decision_reason.or(flat.permission_decision_reason).or(printed.reason);
    if printed.go_on == Some(false) {
        decision = Some(HookDecision::Deny);
        reason = printed.stop_reason.or(reason);
    }
    Ok(HookAnswer {
        decision,
        reason,
        updated_input: specific.updated_input.or(flat.updated_input),
        additional_context: specific.additional_context.or(flat.additional_context),
    })
}

/// The input of a hook for a call.
pub(crate) fn input<'a>(event: HookEvent, cx: &'a Context, tool_input: &'a Value) -> HookInput<'a> {
    HookInput {
        hook_event_name: event,
        session_id: cx.session().id(),
        cwd: cx.cwd().to_string(),
        permission_mode: mode_word(cx.session().mode()),
        tool_name: cx.tool(),
        tool_input,
        tool_use_id: cx.call(),
        tool_response: None,
        error: None,
    }
}

/// The mode as existing hook scripts know it.
fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "default",
        Mode::Plan => "plan",
        Mode::AcceptEdits => "acceptEdits",
        Mode::Bypass => "bypassPermissions",
    }
}

/// A failed hook, for messages.
pub(crate) fn failure(hook: &dyn Hook, event: HookEvent, error: &str) -> String {
    let what = format!("the {} hook `{}` {error}", event.name(), hook.name());
    if event == HookEvent::PreToolUse { format!("denied, because {what}") } else { what }
}
