//! Trials: a call that runs without counting, so that a person approves what it did and not what it says. Which calls can
//! be tried, and how, is the operation's matter; this module decides when one is, and asks about the effects. Where a call
//! cannot be tried it runs directly, and the person is asked afterwards whether to keep or undo what it changed.

use serde_json::Value;

use crate::audit::AuditOutcome;
use crate::permissions::{self, Approved, DecidedBy, NeededApproval, Stage, Verdict};
use crate::{Context, Fault, FaultKind, Prepared, Preview};

/// How the effects of a call come to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunManner {
    /// At once.
    #[default]
    Direct,
    /// When they are approved: the call runs as a trial.
    Trial,
    /// At once; afterwards the person is asked whether to keep or undo them.
    Reviewed,
}

/// Whether a call should be tried. Whether it can be is [`Operation::trial_obstacle`](crate::Operation::trial_obstacle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialOffer {
    /// Who wants it.
    pub wanted: Wanted,
    /// Whether a trial has no effects at all but those that are asked about: it reaches no network. Only then it replaces
    /// the question about the call itself.
    pub is_confined: bool,
    /// What comes after a call that should be tried and cannot be.
    pub otherwise: Otherwise,
}

/// What comes after a call that should be tried and cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// The person is asked whether to keep or undo what it changed.
    Review,
    /// Nothing: what it changed can be undone later.
    Record,
}

/// Who wants a call to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nobody yet: the person who is asked about the call can choose it.
    IfChosen,
    /// The settings, for calls that need approval.
    InsteadOfQuestion,
    /// The call itself.
    Always,
}

/// What is asked about the effects of a call.
#[derive(Clone, Debug)]
pub struct EffectsQuestion {
    /// What has happened so far.
    pub stage: Stage,
    /// The effects; each part can be kept without the others.
    pub preview: Preview,
    /// Why it is asked, and what to look at.
    pub reason: String,
}

/// What a person decided about the effects of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// All of them count.
    All,
    /// These parts count, by their index in the preview.
    Parts(Vec<usize>),
    /// None of them counts, for this reason.
    Nothing(String),
    /// None of them counts, since nobody could be asked.
    Unanswered(String),
}

impl Context {
    /// Asks which effects of the call are kept, and writes the answer to the audit log. Without an answer, none are.
    pub async fn ask_about_effects(&self, question: EffectsQuestion) -> Result<Kept, Fault> {
        let engine = self.session().engine().clone();
        let EffectsQuestion { stage, preview, reason } = question;
        let request = permissions::request_about_effects(stage, preview, reason, self);
        let approver = engine.approver_of(self);
        let is_reachable = approver.is_reachable();
        let asking = permissions::ask(approver, engine.judges(), engine.answer_timeout(), request, self);
        let answer = tokio::select! {
            answer = asking => answer,
            () = self.cancelled() => return Err(self.cancelled_fault()),
        };
        let (kept, decision, by) = match answer {
            Ok(Approved::Parts(parts)) => {
                (Kept::Parts(parts), AuditOutcome::Allowed, DecidedBy::Person("some of its effects"))
            }
            Ok(Approved::Once) => (Kept::All, AuditOutcome::Allowed, DecidedBy::Person("its effects")),
            // Nothing else is offered, so nothing else is an approval.
            Ok(_) => {
                let why = "the answer is none of those offered".to_owned();
                (Kept::Nothing(why.clone()), AuditOutcome::Denied, DecidedBy::Reason(why))
            }
            Err(fault) if fault.kind() == FaultKind::Denied => {
                let why = fault.message().to_owned();
                let kept =
                    if is_reachable { Kept::Nothing(why.clone()) } else { Kept::Unanswered(why.clone()) };
                (kept, AuditOutcome::Denied, DecidedBy::Reason(why))
            }
            Err(fault) => return Err(fault),
        };
        self.record_effects_decision(decision, by)?;
        Ok(kept)
    }

    /// Writes to the audit log that a rule approved the effects of the call.
    pub fn approved_by_rule(&self, rule: &str) -> Result<(), Fault> {
        self.record_effects_decision(AuditOutcome::Allowed, DecidedBy::Rule(rule.to_owned()))
    }

    fn record_effects_decision(&self, decision: AuditOutcome, by: DecidedBy) -> Result<(), Fault> {
        let input = self.facts().map_or(&Value::Null, |(input, _)| input);
        self.session().engine().record_decision(self, input, decision, by)
    }
}

/// Decides about a call that needs no approval: only its own wish makes it a trial.
pub(crate) fn begin_unasked(call: &dyn Prepared, cx: &Context) {
    if let Some(trial) = call.trial(cx).filter(|trial| trial.wanted == Wanted::Always) {
        match (call.trial_obstacle(cx), trial.otherwise) {
            (None, _) => cx.decide_manner(RunManner::Trial),
            (Some(_), Otherwise::Review) => cx.decide_manner(RunManner::Reviewed),
            (Some(_), Otherwise::Record) => {}
        }
    }
}

/// Decides about a call that needs approval: whether it is tried, and whether that replaces the question about the call
/// itself. A call that should be tried and cannot is asked about, and its reason says what comes afterwards.
pub(crate) fn begin(
    call: &dyn Prepared,
    verdict: &Verdict,
    needed: &mut NeededApproval,
    cx: &Context,
) -> Begun {
    let Some(trial) = call.trial(cx) else { return Begun::Asked { may_try: false } };
    let obstacle = call.trial_obstacle(cx);
    let is_wanted = trial.wanted != Wanted::IfChosen || matches!(verdict, Verdict::Try { .. });
    match obstacle {
        obstacle if !is_wanted => Begun::Asked { may_try: obstacle.is_none() },
        None => {
            cx.decide_manner(RunManner::Trial);
            // A rule that asks, harm that cannot be undone and files outside of the workspace are about the call itself.
            match trial.is_confined && !needed.is_about_more() && !matches!(verdict, Verdict::Ask(_)) {
                true => Begun::Tried,
                false => Begun::Asked { may_try: false },
            }
        }
        Some(why) => {
            let next = match trial.otherwise {
                Otherwise::Review => {
                    cx.decide_manner(RunManner::Reviewed);
                    "afterwards you are asked whether to keep or undo what it changed"
                }
                Otherwise::Record => "what it changes is recorded, and `haft undo` takes it back",
            };
            needed.remark(&format!("it cannot be tried first, since {why}: {next}"));
            Begun::Asked { may_try: false }
        }
    }
}

/// How a call that needs approval goes on.
pub(crate) enum Begun {
    /// It is tried, and its effects are asked about.
    Tried,
    /// A person is asked about it, who may have the choice to try it.
    Asked { may_try: bool },
}
