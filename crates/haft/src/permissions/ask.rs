//! Asking somebody: what they are told, what they can answer, and what becomes of the answer. Knows nothing of how a
//! person is reached.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::{Asking, Judge, Mode, Question, Rule, Scope, Verdict, denied};
use crate::activity::{EventKind, What};
use crate::crash::{caught, uncrashed};
use crate::{BoxFuture, Claims, Context, Fault, Preview};

/// What somebody is asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The call.
    pub call: Arc<str>,
    /// The session.
    pub session: Arc<str>,
    /// The session that it works for, if there is one.
    pub works_for: Option<Arc<str>>,
    /// The tool's name.
    pub tool: Arc<str>,
    /// The arguments.
    pub input: Value,
    /// Everything the call may touch.
    pub claims: Claims,
    /// What it would change.
    pub preview: Option<Preview>,
    /// Why it is asked.
    pub reason: String,
    /// How else the user could allow it, where there is a way of its own.
    pub advice: Option<String>,
    /// The mode in which it would not be asked that lets the least else through.
    pub mode: Mode,
    /// The answers that are offered.
    pub choices: Vec<Choice>,
}

impl ApprovalRequest {
    /// The rules that would allow it for good, if that is offered.
    pub fn offered(&self) -> &[Rule] {
        let rules = self.choices.iter().find_map(|choice| match choice {
            Choice::AllowAlways(rules) => Some(rules.as_slice()),
            _ => None,
        });
        rules.unwrap_or_default()
    }
}

/// An answer that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// Just this call.
    AllowOnce,
    /// Every call that these rules cover. Not offered for calls that do extreme harm.
    AllowAlways(Vec<Rule>),
    /// Some parts of the change, and not the others.
    AllowParts,
    /// This call with other arguments.
    Edit,
    /// Not this call.
    Deny,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Just this call.
    AllowOnce,
    /// This call and every later one that the rules cover: those that were offered, or others in their place.
    AllowAlways {
        /// The rules.
        rules: Vec<Rule>,
        /// For how long.
        scope: Scope,
    },
    /// Only these parts of the change, counted from 0 in the preview.
    AllowParts(Vec<usize>),
    /// With these arguments instead; they are decoded and checked again.
    AllowEdited(Value),
    /// No; the model is told the feedback.
    Deny {
        /// What to do instead.
        feedback: Option<String>,
    },
}

/// Somebody who can be asked. An error denies.
pub trait Approver: Send + Sync {
    /// Asks, and waits for the answer for as long as it takes. When the question is withdrawn, because nobody wants
    /// the call any more or another answer has settled it, the future is dropped.
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, String>>;

    /// Whether there is anybody who can be asked about a call. If not, a session's questions go to the engine's approver.
    fn is_there(&self, _call: &str) -> bool {
        true
    }
}

/// Nobody to ask: every question is answered with no.
#[derive(Default)]
pub struct NoApprover {
    how: Option<String>,
}

impl NoApprover {
    /// Says how the user can allow what nobody can be asked about. `{mode}` in it is the name of the mode that
    /// lets the call through and the least else, `{rule}` the rules that would.
    pub fn telling(how: impl Into<String>) -> Self {
        Self { how: Some(how.into()) }
    }
}

impl Approver for NoApprover {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, String>> {
        let ApprovalRequest { tool, reason, advice, mode, .. } = &request;
        let mut feedback = format!("`{tool}` needs permission ({reason}) and there is nobody to ask");
        if let Some(how) = advice.as_ref().or(self.how.as_ref()) {
            feedback = format!("{feedback}; {}", how.replace("{mode}", mode.name()));
        }
        if let ([rule, rest @ ..], None) = (request.offered(), advice) {
            let others = if rest.is_empty() { "" } else { " and the like" };
            feedback = format!("{feedback}, or with the rule `{rule}`{others}");
        }
        Box::pin(std::future::ready(Ok(Decision::Deny { feedback: Some(feedback) })))
    }
}

/// Answers that were given beforehand, one question after another. When there are none left, the answer is no.
#[derive(Debug, Default)]
pub struct Scripted(Mutex<VecDeque<Decision>>);

impl Scripted {
    /// Answers so, in this order.
    pub fn new(answers: impl IntoIterator<Item = Decision>) -> Self {
        Self(Mutex::new(answers.into_iter().collect()))
    }
}

impl Approver for Scripted {
    fn ask(&self, _request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, String>> {
        let answer = self.0.lock().pop_front();
        let answer = answer.ok_or_else(|| "no answer is left for this question".to_owned());
        Box::pin(std::future::ready(answer))
    }
}

/// What has been settled about a call's permission. An input that is rewritten is decoded, claimed and
/// checked again, but neither hooks nor people are asked twice.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) hooked: bool,
    /// A hook said that nobody needs to be asked.
    pub(crate) allowed: bool,
    /// A hook said that somebody must be asked, and why.
    pub(crate) must_ask: Option<String>,
    /// Somebody was asked and did not deny.
    pub(crate) answered: bool,
    /// By what or whom it was allowed.
    pub(crate) by: By,
}

/// By what or whom something was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum By {
    /// Nobody needed to be asked.
    #[default]
    Nobody,
    /// A rule, or a hook.
    Rule(String),
    /// The mode that the session is in.
    Mode(Mode),
    /// A person, and how.
    Person(&'static str),
    /// Whatever the words say.
    Said(String),
}

impl By {
    /// By what something is allowed that nobody is asked about.
    pub(crate) fn verdict(verdict: &Verdict, mode: Mode) -> Self {
        match (verdict, mode) {
            (Verdict::Allow { by, .. }, _) => By::Rule(by.clone()),
            (_, Mode::AcceptEdits | Mode::Bypass) => By::Mode(mode),
            _ => By::Nobody,
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Nobody => f.write_str("nobody needs to be asked"),
            By::Rule(rule) => write!(f, "the rule `{rule}`"),
            By::Mode(mode) => write!(f, "the mode `{}`", mode.name()),
            By::Person(how) => write!(f, "the user, {how}"),
            By::Said(words) => f.write_str(words),
        }
    }
}

impl Settled {
    /// What judges and hooks say together: a hook can ask, or allow what no judge has a word on.
    pub(crate) fn verdict(&self, judged: &Verdict) -> Verdict {
        match (judged, &self.must_ask) {
            (_, Some(reason)) => Verdict::Ask(reason.clone()),
            (Verdict::Abstain, None) if self.allowed => {
                Verdict::Allow { by: "a hook".to_owned(), exactly: true }
            }
            (verdict, None) => verdict.clone(),
        }
    }
}

/// The question to a person, with the answers that are offered.
pub(crate) fn request(
    question: &Question<'_>,
    judges: &[Arc<dyn Judge>],
    verdict: &Verdict,
    preview: Option<Preview>,
    Asking { reason, advice, mode, is_extreme }: Asking,
) -> ApprovalRequest {
    let Question { input, claims, cx, .. } = question;
    let mut choices = vec![Choice::AllowOnce];
    // Where a rule or a hook asks, it asks again however often the user says "always".
    if !is_extreme && !matches!(verdict, Verdict::Ask(_)) {
        let offer = |judge: &Arc<dyn Judge>| uncrashed(|| judge.offer(question)).unwrap_or_default();
        let rules: Vec<Rule> = judges.iter().map(offer).find(|rules| !rules.is_empty()).unwrap_or_default();
        if !rules.is_empty() {
            choices.push(Choice::AllowAlways(rules));
        }
    }
    if preview.as_ref().is_some_and(|preview| preview.parts.len() > 1) {
        choices.push(Choice::AllowParts);
    }
    choices.extend([Choice::Edit, Choice::Deny]);
    ApprovalRequest {
        call: cx.call().clone(),
        session: cx.session().id().clone(),
        works_for: cx.session().parent().map(|parent| parent.id().clone()),
        tool: cx.tool().clone(),
        input: (*input).clone(),
        claims: (*claims).clone(),
        preview,
        reason,
        advice,
        mode,
        choices,
    }
}

/// What a call goes on with.
pub(crate) enum Answer {
    /// As it is.
    Go,
    /// With rules that were remembered.
    Remembered,
    /// As it is, since another answer covers it.
    Settled,
    /// With other arguments.
    Edited(Value),
    /// With some parts of its change.
    Parts(Vec<usize>),
}

/// Asks, and waits for the answer, for so long at most.
pub(crate) async fn ask(
    approver: &dyn Approver,
    judges: &[Arc<dyn Judge>],
    patience: Option<Duration>,
    request: ApprovalRequest,
    cx: &Context,
) -> Result<Answer, Fault> {
    let may_remember = !request.offered().is_empty();
    let parts = request.preview.as_ref().map_or(0, |preview| preview.parts.len());
    cx.emit(EventKind::Asked, || What::Asked { reason: request.reason.clone() });
    let asking = caught(async { approver.ask(request).await });
    let asking = async { asking.await.unwrap_or_else(|panic| Err(format!("it crashed: {panic}"))) };
    let decision = match patience {
        None => asking.await,
        Some(patience) => match tokio::time::timeout(patience, asking).await {
            Ok(decision) => decision,
            Err(_) => Err(format!("there was no answer within {} s", patience.as_secs())),
        },
    };
    let answer = match &decision {
        Ok(Decision::AllowOnce) => "allowed once",
        Ok(Decision::AllowAlways { .. }) => "allowed always",
        Ok(Decision::AllowParts(_)) => "allowed in part",
        Ok(Decision::AllowEdited(_)) => "allowed with other arguments",
        Ok(Decision::Deny { .. }) => "denied",
        Err(_) => "no answer",
    };
    cx.emit(EventKind::Answered, || What::Answered { answer: answer.to_owned() });
    match decision.map_err(|error| denied(format!("nobody could be asked for permission: {error}")))? {
        Decision::AllowOnce => Ok(Answer::Go),
        // An answer that was not offered counts for once.
        Decision::AllowAlways { .. } if !may_remember => Ok(Answer::Go),
        Decision::AllowAlways { rules, scope } => {
            let remember = |judge: &Arc<dyn Judge>| {
                uncrashed(|| judge.remember(&rules, scope, cx))
                    .unwrap_or_else(|panic| Err(format!("it crashed: {panic}")))
            };
            // It was allowed, whether or not somebody can remember that.
            let remembered = judges.iter().any(|judge| remember(judge).is_ok());
            Ok(if remembered { Answer::Remembered } else { Answer::Go })
        }
        Decision::AllowParts(chosen) if chosen.is_empty() || chosen.iter().any(|part| *part >= parts) => {
            Err(denied(format!("the user agreed to no part of the change of `{}`", cx.tool())))
        }
        Decision::AllowParts(chosen) if (0..parts).all(|part| chosen.contains(&part)) => Ok(Answer::Go),
        Decision::AllowParts(chosen) => Ok(Answer::Parts(chosen)),
        Decision::AllowEdited(input) => Ok(Answer::Edited(input)),
        Decision::Deny { feedback } => {
            Err(denied(feedback.unwrap_or_else(|| format!("the user denied `{}`", cx.tool()))))
        }
    }
}
