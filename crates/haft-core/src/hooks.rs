//! Hooks: code or external commands that the engine calls before and after every call of a tool. A hook before a call can
//! deny, allow or rewrite it, and one that fails there denies: hooks fail closed. A hook after a call can add messages for
//! the model. [`CommandHook`] runs the hook scripts that existing agents use.

mod command;
mod scripts;

use std::sync::Arc;

pub use command::{CommandHook, DEFAULT_HOOK_TIMEOUT};
use regex::Regex;
pub use scripts::ScriptPins;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::crash::{catch_panic, catch_panic_async};
use crate::events::{EventKind, EventPayload};
use crate::permissions::denied;
use crate::{BoxFuture, Context, Fault, Mode, Reply};

/// How many times the hooks before a call may rewrite its input.
const MAX_ROUNDS: usize = 5;

/// When a hook is called. The names are those that existing hook scripts use.
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

/// The input of a hook. An external hook reads it as JSON from its standard input, with the fields of the subject beside
/// the others.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HookInput<'a> {
    /// When the hook is called.
    pub hook_event_name: HookEvent,
    /// The id of the session.
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
    /// Another event, with the fields that hook scripts expect for it.
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
    /// The id of the call.
    pub tool_use_id: &'a str,
    /// The reply; only after a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Value>,
    /// The error; only after a call that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A hook's answer. The default answer changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HookAnswer {
    /// The decision about the call, if the hook makes one.
    pub decision: Option<HookDecision>,
    /// The reason for the decision.
    pub reason: Option<String>,
    /// Arguments to use instead, which are decoded and checked again.
    pub updated_input: Option<Value>,
    /// A message for the model beside the reply.
    pub additional_context: Option<String>,
}

impl HookAnswer {
    /// Allows the call without approval.
    pub fn allow() -> Self {
        Self { decision: Some(HookDecision::Allow), ..Self::default() }
    }

    /// Requires approval, for this reason.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self { decision: Some(HookDecision::Ask), reason: Some(reason.into()), ..Self::default() }
    }

    /// Denies the call, for this reason.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self { decision: Some(HookDecision::Deny), reason: Some(reason.into()), ..Self::default() }
    }

    /// Replaces the arguments of the call.
    #[must_use]
    pub fn updated_input(mut self, input: Value) -> Self {
        self.updated_input = Some(input);
        self
    }

    /// Adds a message for the model beside the reply.
    #[must_use]
    pub fn additional_context(mut self, text: impl Into<String>) -> Self {
        self.additional_context = Some(text.into());
        self
    }
}

/// A hook's decision about a call, from mild to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HookDecision {
    /// The call needs no approval. Rules that deny still deny.
    Allow,
    /// The call needs approval.
    Ask,
    /// The call must not run.
    Deny,
}

/// Code that the engine calls before or after calls of tools.
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
    /// The hook's name in messages.
    fn name(&self) -> &str;

    /// Whether the engine should call the hook at this event of this tool.
    fn wants(&self, event: HookEvent, tool: &str) -> bool;

    /// Runs the hook. An error before a call denies the call; after it, the error is only reported.
    fn call<'a>(
        &'a self,
        input: &'a HookInput<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<HookAnswer, Fault>>;
}

/// A pattern for names of tools: a regular expression that matches the whole name, such as `Edit|Write` or `mcp__.*`;
/// empty or `*` for all tools.
#[derive(Clone, Debug)]
pub struct ToolPattern(Option<Regex>);

impl ToolPattern {
    /// Parses a pattern.
    pub fn new(pattern: &str) -> Result<Self, Fault> {
        if pattern.is_empty() || pattern == "*" {
            return Ok(Self(None));
        }
        // The pattern must be valid by itself: `a)|(b` would become valid inside of the group.
        let whole = Regex::new(pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})$")));
        whole.map(|regex| Self(Some(regex))).map_err(|error| {
            Fault::invalid(format!("`{pattern}` is no pattern for tool names: {error}"))
                .hint("a regular expression over the whole name, such as `Edit|Write`; `*` for every tool")
        })
    }

    /// Whether the pattern matches a tool's name.
    pub fn matches(&self, tool: &str) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(tool))
    }
}

/// The combined answer of the hooks before a call.
#[derive(Default)]
pub(crate) struct PreHookAnswer {
    /// Arguments to use instead.
    pub(crate) rewritten: Option<Value>,
    /// Messages for the model.
    pub(crate) notes: Vec<String>,
    /// A hook allows the call without approval.
    pub(crate) allows: bool,
    /// A hook requires approval, for this reason.
    pub(crate) asks: Option<String>,
}

/// Runs the hooks before a call, one after the other; one that fails denies. When a hook rewrites the input, all run
/// again, so that each has seen the input that the call runs with.
pub(crate) async fn before(
    hooks: &[Arc<dyn Hook>],
    input: &Value,
    cx: &Context,
) -> Result<PreHookAnswer, Fault> {
    let mut rewritten: Option<Value> = None;
    for _ in 0..MAX_ROUNDS {
        let seen = rewritten.as_ref().unwrap_or(input).clone();
        let round = round(hooks, &seen, cx).await?;
        match round.rewritten.filter(|now| *now != seen) {
            None => return Ok(PreHookAnswer { rewritten, ..round }),
            Some(now) => rewritten = Some(now),
        }
    }
    Err(denied(format!("denied, because the hooks go on rewriting the input after {MAX_ROUNDS} rounds")))
}

async fn round(hooks: &[Arc<dyn Hook>], input: &Value, cx: &Context) -> Result<PreHookAnswer, Fault> {
    let event = HookEvent::PreToolUse;
    let mut combined = PreHookAnswer::default();
    for hook in hooks.iter().filter(|hook| wants(&***hook, event, cx.tool())) {
        let call = hook_call(combined.rewritten.as_ref().unwrap_or(input), cx);
        let input = hook_input(event, HookSubject::Call(call), cx);
        let answer =
            run_hook(&**hook, &input, cx).await.map_err(|error| denied(failure(&**hook, event, &error)))?;
        combined.notes.extend(answer.additional_context);
        let reason = answer.reason.unwrap_or_else(|| format!("the hook `{}` said so", hook.name()));
        match answer.decision {
            Some(HookDecision::Deny) => {
                return Err(denied(format!("denied by the hook `{}`: {reason}", hook.name())));
            }
            Some(HookDecision::Ask) => combined.asks = Some(reason),
            Some(HookDecision::Allow) => combined.allows = true,
            None => {}
        }
        combined.rewritten = answer.updated_input.or(combined.rewritten);
    }
    Ok(combined)
}

/// Whether any hook wants to be called after a call that has ended.
pub(crate) fn any_wants_after(hooks: &[Arc<dyn Hook>], reply: &Reply, tool: &str) -> bool {
    let event = after_event(reply);
    hooks.iter().any(|hook| wants(&**hook, event, tool))
}

fn after_event(reply: &Reply) -> HookEvent {
    if reply.is_error { HookEvent::PostToolUseFailure } else { HookEvent::PostToolUse }
}

/// Runs the hooks after a call, and returns their messages for the model. They also run after a cancelled call, so only
/// the session's cancellation stops them.
pub(crate) async fn after(
    hooks: &[Arc<dyn Hook>],
    input: &Value,
    fault: Option<&Fault>,
    reply: &Reply,
    cx: &Context,
) -> Vec<String> {
    let event = after_event(reply);
    let after = cx.after_the_call();
    let mut messages = Vec::new();
    for hook in hooks.iter().filter(|hook| wants(&***hook, event, cx.tool())) {
        let mut call = hook_call(input, &after);
        call.tool_response = Some(reply.to_json());
        call.error = fault.map(ToString::to_string);
        let input = hook_input(event, HookSubject::Call(call), &after);
        match run_hook(&**hook, &input, &after).await {
            Ok(answer) => {
                messages.extend(answer.additional_context);
                if answer.decision == Some(HookDecision::Deny) {
                    messages.extend(answer.reason);
                }
            }
            Err(error) => {
                let fault = Fault::failed(failure(&**hook, event, &error));
                cx.emit(EventKind::Fault, || EventPayload::Fault(fault));
            }
        }
    }
    messages
}

/// Whether a hook wants to be called. A hook that panics here is called, so that it fails where failures are handled.
fn wants(hook: &dyn Hook, event: HookEvent, tool: &str) -> bool {
    catch_panic(|| hook.wants(event, tool)).unwrap_or(true)
}

/// Calls a hook, and turns a panic into a fault.
async fn run_hook(hook: &dyn Hook, input: &HookInput<'_>, cx: &Context) -> Result<HookAnswer, Fault> {
    let answer = catch_panic_async(async { hook.call(input, cx).await }).await;
    answer.unwrap_or_else(|panic| Err(Fault::failed(format!("crashed: {panic}"))))
}

fn hook_input<'a>(event: HookEvent, subject: HookSubject<'a>, cx: &'a Context) -> HookInput<'a> {
    HookInput {
        hook_event_name: event,
        session_id: cx.session().id(),
        cwd: cx.cwd().to_string(),
        permission_mode: mode_name(cx.session().mode()),
        subject,
    }
}

fn hook_call<'a>(tool_input: &'a Value, cx: &'a Context) -> HookCall<'a> {
    HookCall { tool_name: cx.tool(), tool_input, tool_use_id: cx.call(), tool_response: None, error: None }
}

/// The mode's name in existing hook scripts.
fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "default",
        Mode::Plan => "plan",
        Mode::AcceptEdits => "acceptEdits",
        Mode::Bypass => "bypassPermissions",
    }
}

/// The message about a hook that failed.
fn failure(hook: &dyn Hook, event: HookEvent, error: &Fault) -> String {
    let what = format!("the {} hook `{}` {}", event.name(), hook.name(), error.message());
    if event == HookEvent::PreToolUse { format!("denied, because {what}") } else { what }
}
