//! Code and commands that see every call before and after it runs. One that comes before a call can deny,
//! allow or rewrite it, and one that fails there denies: no hook fails open.

mod command;

use std::sync::Arc;

pub use command::{CommandHook, DEFAULT_HOOK_TIMEOUT};
use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::crash::{catch_panic, caught};
use crate::events::{EventKind, EventPayload};
use crate::permissions::denied;
use crate::{BoxFuture, Context, Fault, Mode, Reply};

/// How often the hooks before a call see an input that they rewrite.
const MAX_ROUNDS: usize = 5;

/// When a hook is called. The names are those that existing hook scripts know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum HookEvent {
    /// Before a call.
    PreToolUse,
    /// After a call that succeeded.
    PostToolUse,
    /// After a call that failed.
    PostToolUseFailure,
}

impl HookEvent {
    /// The name of the event.
    pub fn name(self) -> &'static str {
        match self {
            HookEvent::PreToolUse => "PreToolUse",
            HookEvent::PostToolUse => "PostToolUse",
            HookEvent::PostToolUseFailure => "PostToolUseFailure",
        }
    }
}

/// What a hook is told. This is also the JSON that an external one reads from its standard input, with the fields of the
/// subject beside the others.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HookInput<'a> {
    /// When it is called.
    pub hook_event_name: HookEvent,
    /// The session.
    pub session_id: &'a str,
    /// The session's current folder.
    pub cwd: String,
    /// The session's mode.
    pub permission_mode: &'static str,
    /// What the event is about.
    #[serde(flatten)]
    pub subject: HookSubject<'a>,
}

impl<'a> HookInput<'a> {
    /// The call that the event is about, if it is about one.
    pub fn call(&self) -> Option<&HookCall<'a>> {
        match &self.subject {
            HookSubject::Call(call) => Some(call),
            HookSubject::Fields(_) => None,
        }
    }
}

/// What an event is about.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum HookSubject<'a> {
    /// A call of a tool.
    Call(HookCall<'a>),
    /// Anything else, by the fields that hook scripts know for the event.
    Fields(Map<String, Value>),
}

/// A call of a tool, as hooks see it.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HookCall<'a> {
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
#[non_exhaustive]
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

impl HookAnswer {
    /// Nobody needs to be asked.
    pub fn allow() -> Self {
        Self { decision: Some(HookDecision::Allow), ..Self::default() }
    }

    /// Somebody must be asked, and why.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self { decision: Some(HookDecision::Ask), reason: Some(reason.into()), ..Self::default() }
    }

    /// It must not happen, and why.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self { decision: Some(HookDecision::Deny), reason: Some(reason.into()), ..Self::default() }
    }

    /// Other arguments are used.
    #[must_use]
    pub fn updated_input(mut self, input: Value) -> Self {
        self.updated_input = Some(input);
        self
    }

    /// The model is told something beside the reply.
    #[must_use]
    pub fn additional_context(mut self, text: impl Into<String>) -> Self {
        self.additional_context = Some(text.into());
        self
    }
}

/// What a hook decides, from mild to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HookDecision {
    /// Nobody needs to be asked. Rules that deny still deny.
    Allow,
    /// Somebody must be asked.
    Ask,
    /// It must not happen.
    Deny,
}

/// Something that is called before or after calls.
///
/// ```
/// use haft_core::hooks::{Hook, HookAnswer, HookEvent, HookInput};
/// use haft_core::{BoxFuture, Context, Engine, Fault};
///
/// /// Keeps commands from pushing.
/// struct NoPush;
///
/// impl Hook for NoPush {
///     fn name(&self) -> &str {
///         "no-push"
///     }
///
///     fn wants(&self, event: HookEvent, tool: &str) -> bool {
///         event == HookEvent::PreToolUse && tool == "Bash"
///     }
///
///     fn call<'a>(&'a self, input: &'a HookInput<'a>, _cx: &'a Context) -> BoxFuture<'a, Result<HookAnswer, Fault>> {
///         let pushes = input.call().is_some_and(|call| call.tool_input["command"].to_string().contains("git push"));
///         let answer = if pushes { HookAnswer::deny("a person pushes") } else { HookAnswer::default() };
///         Box::pin(std::future::ready(Ok(answer)))
///     }
/// }
///
/// let engine = Engine::builder().hook(NoPush).build();
/// # drop(engine);
/// ```
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
    ) -> BoxFuture<'a, Result<HookAnswer, Fault>>;
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

/// What the hooks before a call say together.
#[derive(Default)]
pub(crate) struct Before {
    /// The arguments to go on with instead.
    pub(crate) rewritten: Option<Value>,
    /// What the model is told.
    pub(crate) notes: Vec<String>,
    /// Nobody needs to be asked.
    pub(crate) allowed: bool,
    /// Somebody must be asked, and why.
    pub(crate) must_ask: Option<String>,
}

/// Calls the hooks that come before a call, one after the other. One that fails denies. When one has
/// rewritten the input, all are called again, so that each has seen what is run.
pub(crate) async fn before(hooks: &[Arc<dyn Hook>], input: &Value, cx: &Context) -> Result<Before, Fault> {
    let mut rewritten: Option<Value> = None;
    for _ in 0..MAX_ROUNDS {
        let seen = rewritten.as_ref().unwrap_or(input).clone();
        let round = round(hooks, &seen, cx).await?;
        match round.rewritten.filter(|now| *now != seen) {
            None => return Ok(Before { rewritten, ..round }),
            Some(now) => rewritten = Some(now),
        }
    }
    Err(denied(format!("denied, because the hooks go on rewriting the input after {MAX_ROUNDS} rounds")))
}

async fn round(hooks: &[Arc<dyn Hook>], input: &Value, cx: &Context) -> Result<Before, Fault> {
    let event = HookEvent::PreToolUse;
    let mut said = Before::default();
    for hook in hooks.iter().filter(|hook| wants(&***hook, event, cx.tool())) {
        let call = about_call(said.rewritten.as_ref().unwrap_or(input), cx);
        let told = told(event, HookSubject::Call(call), cx);
        let answer =
            ask(&**hook, &told, cx).await.map_err(|error| denied(failure(&**hook, event, &error)))?;
        said.notes.extend(answer.additional_context);
        let reason = answer.reason.unwrap_or_else(|| format!("the hook `{}` said so", hook.name()));
        match answer.decision {
            Some(HookDecision::Deny) => {
                return Err(denied(format!("denied by the hook `{}`: {reason}", hook.name())));
            }
            Some(HookDecision::Ask) => said.must_ask = Some(reason),
            Some(HookDecision::Allow) => said.allowed = true,
            None => {}
        }
        said.rewritten = answer.updated_input.or(said.rewritten);
    }
    Ok(said)
}

/// Whether one of the hooks wants to hear of a call that is over.
pub(crate) fn listen(hooks: &[Arc<dyn Hook>], reply: &Reply, tool: &str) -> bool {
    let event = after_event(reply);
    hooks.iter().any(|hook| wants(&**hook, event, tool))
}

fn after_event(reply: &Reply) -> HookEvent {
    if reply.is_error { HookEvent::PostToolUseFailure } else { HookEvent::PostToolUse }
}

/// Calls the hooks that come after a call. They cannot undo it; what they say is passed on. A call that was
/// cancelled is heard of like any other, so they are stopped only with the session.
pub(crate) async fn after(
    hooks: &[Arc<dyn Hook>],
    input: &Value,
    fault: Option<&Fault>,
    reply: &Reply,
    cx: &Context,
) -> Vec<String> {
    let event = after_event(reply);
    let after = cx.after_the_call();
    let mut said = Vec::new();
    for hook in hooks.iter().filter(|hook| wants(&***hook, event, cx.tool())) {
        let mut call = about_call(input, &after);
        call.tool_response = Some(reply.to_json());
        call.error = fault.map(ToString::to_string);
        let told = told(event, HookSubject::Call(call), &after);
        match ask(&**hook, &told, &after).await {
            Ok(answer) => {
                said.extend(answer.additional_context);
                if answer.decision == Some(HookDecision::Deny) {
                    said.extend(answer.reason);
                }
            }
            Err(error) => {
                let fault = Fault::failed(failure(&**hook, event, &error));
                cx.emit(EventKind::Fault, || EventPayload::Fault(fault));
            }
        }
    }
    said
}

/// Whether a hook wants to be called. One that crashes is called, and can then fail as a hook does.
fn wants(hook: &dyn Hook, event: HookEvent, tool: &str) -> bool {
    catch_panic(|| hook.wants(event, tool)).unwrap_or(true)
}

/// Calls a hook. A panic in it is a failure like any other.
async fn ask(hook: &dyn Hook, told: &HookInput<'_>, cx: &Context) -> Result<HookAnswer, Fault> {
    let answer = caught(async { hook.call(told, cx).await }).await;
    answer.unwrap_or_else(|panic| Err(Fault::failed(format!("crashed: {panic}"))))
}

/// What a hook is told of an event.
fn told<'a>(event: HookEvent, subject: HookSubject<'a>, cx: &'a Context) -> HookInput<'a> {
    HookInput {
        hook_event_name: event,
        session_id: cx.session().id(),
        cwd: cx.cwd().to_string(),
        permission_mode: mode_word(cx.session().mode()),
        subject,
    }
}

fn about_call<'a>(tool_input: &'a Value, cx: &'a Context) -> HookCall<'a> {
    HookCall { tool_name: cx.tool(), tool_input, tool_use_id: cx.call(), tool_response: None, error: None }
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
fn failure(hook: &dyn Hook, event: HookEvent, error: &Fault) -> String {
    let what = format!("the {} hook `{}` {}", event.name(), hook.name(), error.message());
    if event == HookEvent::PreToolUse { format!("denied, because {what}") } else { what }
}
