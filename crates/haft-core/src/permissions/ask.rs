//! Approval by a person: the request, the possible answers, and how an answer is applied. Knows nothing of how a person
//! is reached.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::{Judge, Mode, NeededApproval, Question, Rule, Scope, Verdict, denied};
use crate::crash::{catch_panic, catch_panic_async};
use crate::events::{EventKind, EventPayload};
use crate::{AbsPath, Access, BoxFuture, Claims, Context, Fault, FaultKind, Preview, Resource, Workspace};

/// A request for approval of one call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The id of the call.
    pub call: Arc<str>,
    /// The id of the session.
    pub session: Arc<str>,
    /// The id of the session that delegated work to it, if any.
    pub works_for: Option<Arc<str>>,
    /// The tool's name.
    pub tool: Arc<str>,
    /// The arguments.
    pub input: Value,
    /// Everything the call may touch.
    pub claims: Claims,
    /// What the call would change.
    pub preview: Option<Preview>,
    /// The session's workspace, for the names of paths.
    workspace: Workspace,
    /// What is asked.
    pub stage: Stage,
    /// Why the call needs approval.
    pub reason: String,
    /// Whether the call can do harm that cannot be undone.
    pub is_dangerous: bool,
    /// How the user can allow the call other than by answering, such as a command to run: see
    /// [`EngineBuilder::approval_advice`](crate::EngineBuilder::approval_advice).
    pub advice: Option<String>,
    /// The strictest mode in which the call needs no approval.
    pub mode: Mode,
    /// The answers to offer.
    pub choices: Vec<Choice>,
}

impl ApprovalRequest {
    /// The rules that [`Choice::AllowAlways`] offers; empty if it is not offered.
    pub fn offered(&self) -> &[Rule] {
        let rules = self.choices.iter().find_map(|choice| match choice {
            Choice::AllowAlways(rules) => Some(rules.as_slice()),
            _ => None,
        });
        rules.unwrap_or_default()
    }

    /// The call in one line, for places that show no more: `Bash: python3 app.py`, `Edit app.py (+1 −1)`.
    pub fn headline(&self) -> String {
        let call = self.call_in_one_line();
        match self.stage {
            Stage::Before => call,
            Stage::Tried => format!("Keep what this would change? {call}"),
            Stage::Untriable => format!("Run this directly? {call}"),
            Stage::Done => format!("Keep what this has changed? {call}"),
        }
    }

    fn call_in_one_line(&self) -> String {
        let command = self.claims.iter().find_map(|(_, resource)| match resource {
            Resource::Command(line) => Some(line.text()),
            _ => None,
        });
        if let Some(command) = command {
            return format!("{}: {}", self.tool, one_line(command));
        }
        let mut paths = self.claims.iter().filter_map(|(access, resource)| match resource {
            Resource::Path(path) if self.claims.is_read_only() || access == Access::Write => Some(path),
            _ => None,
        });
        let Some(path) = paths.next() else {
            return format!("{}: {}", self.tool, one_line(&self.input.to_string()));
        };
        let mut text = format!("{} {}", self.tool, one_line(&self.display_path(path)));
        match paths.count() {
            0 => {}
            others => text = format!("{text} and {others} more"),
        }
        if let Some(Preview { diff, .. }) = &self.preview {
            let count = |sign: char, header: &str| {
                diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(header)).count()
            };
            let (added, removed) = (count('+', "+++"), count('-', "---"));
            if added + removed > 0 {
                text = format!("{text} (+{added} −{removed})");
            }
        }
        text
    }

    /// A path as the user knows it: relative to the workspace if it is inside.
    fn display_path(&self, path: &AbsPath) -> String {
        self.workspace.display(path)
    }

    /// A denial for the model, with the advice for the user.
    pub fn with_advice(&self, denial: String) -> String {
        match &self.advice {
            Some(advice) => format!("{denial}; {advice}"),
            None => denial,
        }
    }
}

/// The first line of a text, and how many follow; cut where it is long.
fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let mut shown: String = first.chars().take(MAX_CHARS).collect();
    if shown.len() < first.len() {
        shown.push('…');
    }
    match lines.count() {
        0 => shown,
        1 => format!("{shown} (and 1 more line)"),
        more => format!("{shown} (and {more} more lines)"),
    }
}

/// What a person is asked about a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Whether it may run.
    #[default]
    Before,
    /// Which of its effects are kept: it has run as a trial, and none of them counts yet.
    Tried,
    /// Whether it may run directly, since it cannot be tried.
    Untriable,
    /// Whether its effects are kept or undone: it has run directly.
    Done,
}

/// Says how the user can allow a call other than by answering.
pub(crate) type ApprovalAdvice = dyn Fn(&ApprovalRequest) -> Option<String> + Send + Sync;

/// An answer that a person can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// Allow this call only.
    AllowOnce,
    /// Allow every call that these rules cover. Not offered for calls that can do harm that cannot be undone.
    AllowAlways(Vec<Rule>),
    /// Allow this call only, and let it reach the network.
    AllowWithNetwork,
    /// Run this call as a trial, and ask about its effects afterwards.
    Try,
    /// Allow some parts of the change, and not the others.
    AllowParts,
    /// Allow this call with other arguments.
    Edit,
    /// Deny this call.
    Deny,
}

/// A person's answer to an [`ApprovalRequest`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// Allow this call only.
    AllowOnce,
    /// Allow this call and every later one that the rules cover: those that were offered, or others instead.
    AllowAlways {
        /// The rules.
        rules: Vec<Rule>,
        /// How long and where they apply.
        scope: Scope,
    },
    /// Allow this call only, and let it reach the network. Counts as [`Decision::AllowOnce`] where that is not offered.
    AllowWithNetwork,
    /// Run this call as a trial, and ask about its effects afterwards. Denies the call where that is not offered.
    Try,
    /// Ask again about the call with these arguments instead, so that the person sees what they would change.
    Revise(Value),
    /// Allow only these parts of the change, counted from 0 in the preview.
    AllowParts(Vec<usize>),
    /// Allow the call with these arguments instead, which are decoded and checked again.
    AllowEdited(Value),
    /// Deny the call.
    Deny {
        /// What the model should do instead; the reply quotes it.
        feedback: Option<String>,
    },
}

/// Asks a person for approval. An error or a panic denies the call.
///
/// ```
/// use haft_core::permissions::{ApprovalRequest, Approver, Decision};
/// use haft_core::{BoxFuture, Engine, Fault};
///
/// /// Approves everything in a scratch session. A real approver would ask a person.
/// struct Scratch;
///
/// impl Approver for Scratch {
///     fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
///         let decision = match request.session.starts_with("scratch-") {
///             true => Decision::AllowOnce,
///             false => Decision::Deny { feedback: Some(format!("do it without {}", request.tool)) },
///         };
///         Box::pin(std::future::ready(Ok(decision)))
///     }
/// }
///
/// let engine = Engine::builder().approver(Scratch).build();
/// # drop(engine);
/// ```
pub trait Approver: Send + Sync {
    /// Asks, and waits for the answer. The engine drops the future to withdraw the question: when the call is
    /// cancelled, when the answer takes too long, or when an answer to another question covers this call.
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>>;

    /// Whether a person can be reached about a call. If not, the engine asks its own approver instead of the session's.
    fn is_there(&self, _call: &str) -> bool {
        true
    }

    /// Whether a person can be reached at all. If not, tools that would wait for one are not offered.
    fn is_reachable(&self) -> bool {
        true
    }
}

impl<T: Approver + ?Sized> Approver for Arc<T> {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        (**self).ask(request)
    }

    fn is_there(&self, call: &str) -> bool {
        (**self).is_there(call)
    }

    fn is_reachable(&self) -> bool {
        (**self).is_reachable()
    }
}

/// Denies every call that needs approval: for programs without a person to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoApprover;

impl Approver for NoApprover {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        let ApprovalRequest { tool, reason, .. } = &request;
        let denial = match request.stage {
            Stage::Before => format!("`{tool}` needs permission ({reason}) and there is nobody to ask"),
            _ => "there is nobody to ask".to_owned(),
        };
        Box::pin(std::future::ready(Ok(Decision::Deny { feedback: Some(request.with_advice(denial)) })))
    }

    fn is_reachable(&self) -> bool {
        false
    }
}

/// Answers requests from a prepared list, in order, and denies once the list is empty: for tests and scripts.
#[derive(Debug, Default)]
pub struct Scripted(Mutex<VecDeque<Decision>>);

impl Scripted {
    /// An approver that gives these answers, in this order.
    pub fn new(answers: impl IntoIterator<Item = Decision>) -> Self {
        Self(Mutex::new(answers.into_iter().collect()))
    }
}

impl Approver for Scripted {
    fn ask(&self, _request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        let answer = self.0.lock().pop_front();
        let answer = answer.ok_or_else(|| Fault::failed("no answer is left for this question"));
        Box::pin(std::future::ready(answer))
    }
}

/// How far the permission of a call has come. A rewritten input is decoded, claimed and checked again, but neither hooks
/// nor people are asked twice.
#[derive(Default)]
pub(crate) struct PermissionState {
    /// The hooks before the call have run.
    pub(crate) hooks_ran: bool,
    /// A hook allowed the call without approval.
    pub(crate) hook_allows: bool,
    /// A hook asked for approval, for this reason.
    pub(crate) hook_asks: Option<String>,
    /// The approver has approved the call.
    pub(crate) approved: bool,
    /// What allowed the call, for the audit log.
    pub(crate) by: DecidedBy,
}

/// What decided about a call, for the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum DecidedBy {
    /// The call needed no approval.
    #[default]
    NotNeeded,
    /// A rule, or a hook.
    Rule(String),
    /// The session's mode.
    Mode(Mode),
    /// A person, with the kind of answer.
    Person(&'static str),
    /// Its effects are asked about, so the call itself was not.
    Trial,
    /// The reason for which it was denied.
    Reason(String),
}

impl DecidedBy {
    /// What allowed a call without approval.
    pub(crate) fn verdict(verdict: &Verdict, mode: Mode) -> Self {
        match (verdict, mode) {
            (Verdict::Allow { by, .. } | Verdict::Try { by }, _) => DecidedBy::Rule(by.clone()),
            (_, Mode::AcceptEdits | Mode::Bypass) => DecidedBy::Mode(mode),
            _ => DecidedBy::NotNeeded,
        }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecidedBy::NotNeeded => f.write_str("nobody needs to be asked"),
            DecidedBy::Rule(rule) => write!(f, "the rule `{rule}`"),
            DecidedBy::Mode(mode) => write!(f, "the mode `{}`", mode.name()),
            DecidedBy::Person(how) => write!(f, "the user, {how}"),
            DecidedBy::Trial => f.write_str("a trial, whose effects are asked about"),
            DecidedBy::Reason(reason) => f.write_str(reason),
        }
    }
}

impl PermissionState {
    /// The combined verdict of judges and hooks: a hook can ask for approval, or allow a call on which the judges abstain.
    pub(crate) fn verdict(&self, judged: &Verdict) -> Verdict {
        match (judged, &self.hook_asks) {
            (_, Some(reason)) => Verdict::Ask(reason.clone()),
            (Verdict::Abstain, None) if self.hook_allows => {
                Verdict::Allow { by: "a hook".to_owned(), exactly: true }
            }
            (verdict, None) => verdict.clone(),
        }
    }
}

/// The request for a person about the effects of a call.
pub(crate) fn request_about_effects(
    stage: Stage,
    preview: Preview,
    reason: String,
    cx: &Context,
) -> ApprovalRequest {
    let (input, claims) = cx.facts().cloned().unwrap_or_else(|| (Value::Null, Claims::none()));
    let parts = (stage == Stage::Tried && preview.parts.len() > 1).then_some(Choice::AllowParts);
    let choices = [Choice::AllowOnce].into_iter().chain(parts).chain([Choice::Deny]).collect();
    ApprovalRequest {
        call: cx.call().clone(),
        session: cx.session().id().clone(),
        works_for: cx.session().parent().map(|parent| parent.id().clone()),
        tool: cx.tool().clone(),
        input,
        claims,
        preview: Some(preview),
        workspace: cx.session_workspace().clone(),
        stage,
        reason,
        is_dangerous: false,
        advice: None,
        mode: Mode::Bypass,
        choices,
    }
}

/// Answers that only some calls can be given.
#[derive(Clone, Copy, Default)]
pub(crate) struct Offers {
    /// The call can be given the network.
    pub(crate) network: bool,
    /// The call can be tried.
    pub(crate) trial: bool,
}

/// The request for a person, with the answers to offer.
pub(crate) fn request(
    question: &Question<'_>,
    judges: &[Arc<dyn Judge>],
    verdict: &Verdict,
    preview: Option<Preview>,
    offers: Offers,
    NeededApproval { reason, advice, mode, is_extreme, is_outside: _ }: NeededApproval,
) -> ApprovalRequest {
    let Question { input, claims, cx, .. } = question;
    let mut choices = vec![Choice::AllowOnce];
    // A rule or a hook that asks for approval would ask again, so "always" is not offered.
    if !is_extreme && !matches!(verdict, Verdict::Ask(_)) {
        let offer = |judge: &Arc<dyn Judge>| catch_panic(|| judge.offer(question)).unwrap_or_default();
        let rules: Vec<Rule> = judges.iter().map(offer).find(|rules| !rules.is_empty()).unwrap_or_default();
        if !rules.is_empty() {
            choices.push(Choice::AllowAlways(rules));
        }
    }
    choices.extend(offers.network.then_some(Choice::AllowWithNetwork));
    choices.extend(offers.trial.then_some(Choice::Try));
    if preview.as_ref().is_some_and(|preview| preview.parts.len() > 1) {
        choices.push(Choice::AllowParts);
    }
    choices.extend([Choice::Edit, Choice::Deny]);
    let mut request = ApprovalRequest {
        call: cx.call().clone(),
        session: cx.session().id().clone(),
        works_for: cx.session().parent().map(|parent| parent.id().clone()),
        tool: cx.tool().clone(),
        input: (*input).clone(),
        claims: (*claims).clone(),
        preview,
        workspace: cx.session_workspace().clone(),
        stage: Stage::Before,
        reason,
        is_dangerous: is_extreme,
        advice,
        mode,
        choices,
    };
    if let Some(advise) = cx.session().engine().approval_advice() {
        request.advice = catch_panic(|| advise(&request)).unwrap_or_default().or(request.advice);
    }
    request
}

/// How an approved call goes on.
pub(crate) enum Approved {
    /// As it is, this time.
    Once,
    /// As it is, and a judge has remembered the rules.
    Always,
    /// As it is, since an answer to another question covers it.
    ByOtherAnswer,
    /// As it is, this time, with the network.
    WithNetwork,
    /// As a trial.
    AsTrial,
    /// With other arguments.
    Edited(Value),
    /// Not yet: with other arguments it is asked about again.
    Revised(Value),
    /// With some parts of its change.
    Parts(Vec<usize>),
}

/// Asks the approver, waits for the answer until the timeout, and has the judges remember granted rules.
pub(crate) async fn ask(
    approver: &dyn Approver,
    judges: &[Arc<dyn Judge>],
    timeout: Option<Duration>,
    request: ApprovalRequest,
    cx: &Context,
) -> Result<Approved, Fault> {
    let may_remember = !request.offered().is_empty();
    let may_give_network = request.choices.contains(&Choice::AllowWithNetwork);
    let may_try = request.choices.contains(&Choice::Try);
    let parts = request.preview.as_ref().map_or(0, |preview| preview.parts.len());
    cx.emit(EventKind::Asked, || EventPayload::Asked { reason: request.reason.clone() });
    let asking = catch_panic_async(async { approver.ask(request).await });
    let asking =
        async { asking.await.unwrap_or_else(|panic| Err(Fault::failed(format!("it crashed: {panic}")))) };
    let asking = cx.waiting_for_person(asking);
    let decision = match timeout {
        None => asking.await,
        Some(timeout) => match tokio::time::timeout(timeout, asking).await {
            Ok(decision) => decision,
            Err(_) => {
                let message = format!("there was no answer within {} s", timeout.as_secs());
                Err(Fault::new(FaultKind::Timeout, message))
            }
        },
    };
    let answer = match &decision {
        Ok(Decision::AllowOnce) => "allowed once",
        Ok(Decision::AllowAlways { .. }) => "allowed always",
        Ok(Decision::AllowWithNetwork) => "allowed once, with the network",
        Ok(Decision::Try) => "to be tried first",
        Ok(Decision::Revise(_)) => "other arguments",
        Ok(Decision::AllowParts(_)) => "allowed in part",
        Ok(Decision::AllowEdited(_)) => "allowed with other arguments",
        Ok(Decision::Deny { .. }) => "denied",
        Err(_) => "no answer",
    };
    cx.emit(EventKind::Answered, || EventPayload::Answered { answer: answer.to_owned() });
    match decision
        .map_err(|error| denied(format!("nobody could be asked for permission: {}", error.message())))?
    {
        Decision::AllowOnce => Ok(Approved::Once),
        Decision::AllowWithNetwork if may_give_network => Ok(Approved::WithNetwork),
        Decision::AllowWithNetwork => Ok(Approved::Once),
        Decision::Try if may_try => Ok(Approved::AsTrial),
        Decision::Try => Err(denied(format!("`{}` cannot be tried", cx.tool()))),
        Decision::Revise(input) => Ok(Approved::Revised(input)),
        // "Always" was not offered: it counts as "once".
        Decision::AllowAlways { .. } if !may_remember => Ok(Approved::Once),
        Decision::AllowAlways { rules, scope } => {
            let remember = |judge: &Arc<dyn Judge>| {
                catch_panic(|| judge.remember(&rules, scope, cx))
                    .unwrap_or_else(|panic| Err(Fault::failed(format!("it crashed: {panic}"))))
            };
            // The call is approved even if no judge can remember the rules.
            let remembered = judges.iter().any(|judge| remember(judge).is_ok());
            Ok(if remembered { Approved::Always } else { Approved::Once })
        }
        Decision::AllowParts(chosen) if chosen.is_empty() || chosen.iter().any(|part| *part >= parts) => {
            Err(denied(format!("the user agreed to no part of the change of `{}`", cx.tool())))
        }
        Decision::AllowParts(chosen) if (0..parts).all(|part| chosen.contains(&part)) => Ok(Approved::Once),
        Decision::AllowParts(chosen) => Ok(Approved::Parts(chosen)),
        Decision::AllowEdited(input) => Ok(Approved::Edited(input)),
        Decision::Deny { feedback } => {
            Err(denied(feedback.unwrap_or_else(|| format!("the user denied `{}`", cx.tool()))))
        }
    }
}
