//! Plan mode: the plan file, the asynchronous approval of a plan by a [`PlanApprover`], and the effect of its answer.
//! Which calls may run in plan mode is decided by [`permissions`](crate::permissions); how a plan is written, by tools.

use std::sync::Arc;

use haft_sandbox::{AbsPath, Workspace, names};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::{AuditEntry, AuditOutcome, Flush};
use crate::crash::catch_panic_async;
use crate::permissions::Rule;
use crate::{BoxFuture, Context, Fault, FaultKind, Mode, Session};

/// Approves plans asynchronously: it takes a plan now, and the answer may come much later, such as after a review.
///
/// ```
/// use haft_core::plans::{PlanApprover, PlanRequest};
/// use haft_core::{BoxFuture, Engine, Fault};
///
/// /// Files plans for review. The reviewer calls `Session::answer_plan` with the id.
/// struct ReviewQueue;
///
/// impl PlanApprover for ReviewQueue {
///     fn submit(&self, plan: PlanRequest) -> BoxFuture<'_, Result<String, Fault>> {
///         Box::pin(async move { Ok(format!("review-{}", plan.call)) })
///     }
/// }
///
/// let engine = Engine::builder().plan_approver(ReviewQueue).build();
/// # drop(engine);
/// ```
pub trait PlanApprover: Send + Sync {
    /// Takes a plan, and returns the id under which [`Session::answer_plan`] reports the answer.
    fn submit(&self, plan: PlanRequest) -> BoxFuture<'_, Result<String, Fault>>;
}

/// A plan that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanRequest {
    /// The id of the session.
    pub session: Arc<str>,
    /// The id of the call that submits the plan.
    pub call: Arc<str>,
    /// The text of the plan.
    pub plan: String,
    /// The rules that approval of the plan grants.
    pub grants: Vec<Rule>,
}

/// The answer to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanAnswer {
    /// The plan is approved, and plan mode ends.
    Approved,
    /// The plan is rejected, and plan mode goes on.
    Rejected {
        /// What to do instead; part of the event that reports the answer.
        feedback: Option<String>,
    },
}

/// The state of a session's plan mode.
#[derive(Default)]
pub(crate) struct Planning {
    /// The mode before plan mode, to which the session returns.
    pub(crate) before: Mode,
    /// The file that calls may change in plan mode.
    pub(crate) file: Option<AbsPath>,
    pub(crate) request: Option<Request>,
}

/// A plan that was submitted for approval.
pub(crate) enum Request {
    /// The approver has not returned an id yet. Answers may arrive before it does.
    Submitting { early: Vec<(String, PlanAnswer)> },
    /// The plan waits for an answer.
    Waiting(PendingPlan),
}

/// A plan that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingPlan {
    /// The id under which the answer is reported.
    pub id: String,
    /// The rules that approval grants.
    pub grants: Vec<Rule>,
}

/// The saved form of a session's plan mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SavedPlanning {
    /// The plan file.
    pub file: Option<String>,
    /// The plan that waits for an answer. States that were saved before it had this name say `awaited`.
    #[serde(alias = "awaited")]
    pub pending: Option<PendingPlan>,
}

impl Planning {
    pub(crate) fn resume(saved: Option<&SavedPlanning>, mode: Mode, workspace: &Workspace) -> Self {
        let before = if mode == Mode::Plan { Mode::default() } else { mode };
        let file = saved.and_then(|saved| saved.file.as_ref());
        let file = file.and_then(|file| workspace.resolve(workspace.root(), file).ok());
        let pending = saved.and_then(|saved| saved.pending.clone());
        Self { before, file: file.map(|place| place.path), request: pending.map(Request::Waiting) }
    }

    pub(crate) fn save(&self) -> SavedPlanning {
        let pending = match &self.request {
            Some(Request::Waiting(pending)) => Some(pending.clone()),
            _ => None,
        };
        SavedPlanning { file: self.file.as_ref().map(|file| names::show(file.as_path())), pending }
    }
}

impl Context {
    /// Submits a plan to the engine's [`PlanApprover`], and returns the id under which it waits for an answer.
    pub async fn submit_plan(&self, plan: String, grants: Vec<Rule>) -> Result<String, Fault> {
        let session = self.session();
        let Some(approver) = session.engine().plan_approver().cloned() else {
            return Err(Fault::new(FaultKind::Disabled, "plans are not handed in here"));
        };
        session.with_planning(|planning| match &planning.request {
            None => {
                planning.request = Some(Request::Submitting { early: Vec::new() });
                Ok(())
            }
            Some(Request::Waiting(pending)) => Err(already_pending(&pending.id)),
            Some(Request::Submitting { .. }) => Err(already_pending("another plan")),
        })?;
        let withdraw = WithdrawOnDrop(session);
        let (id, call) = (session.id().clone(), self.call().clone());
        let request = PlanRequest { session: id, call, plan, grants: grants.clone() };
        let submitted = catch_panic_async(async { approver.submit(request).await }).await;
        let submitted = submitted.unwrap_or_else(|panic| Err(Fault::failed(format!("it crashed: {panic}"))));
        let id = submitted.map_err(|error| {
            Fault::failed(format!("the plan could not be handed in: {}", error.message()))
                .hint("try again later")
        })?;
        std::mem::forget(withdraw);
        let early = session.with_planning(|planning| {
            let pending = PendingPlan { id: id.clone(), grants };
            match planning.request.replace(Request::Waiting(pending)) {
                Some(Request::Submitting { early }) => early,
                _ => Vec::new(),
            }
        });
        if let Some((_, answer)) = early.into_iter().find(|(early, _)| *early == id) {
            session.answer_plan(&id, answer)?;
        }
        Ok(id)
    }
}

/// Withdraws the request when submitting fails or the call is dropped.
struct WithdrawOnDrop<'a>(&'a Session);

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        self.0.with_planning(|planning| planning.request = None);
    }
}

impl Session {
    /// The id of the plan that waits for an answer, if one does.
    pub fn pending_plan(&self) -> Option<String> {
        self.with_planning(|planning| match &planning.request {
            Some(Request::Waiting(pending)) => Some(pending.id.clone()),
            _ => None,
        })
    }

    /// Reports the answer to a submitted plan. Approval ends plan mode and grants the rules that the plan asked for; a
    /// rejection changes neither.
    pub fn answer_plan(&self, id: &str, answer: PlanAnswer) -> Result<(), Fault> {
        let pending = self.with_planning(|planning| match planning.request.take() {
            Some(Request::Waiting(pending)) if pending.id == id => Ok(Some(pending)),
            Some(Request::Submitting { mut early }) => {
                early.push((id.to_owned(), answer.clone()));
                planning.request = Some(Request::Submitting { early });
                Ok(None)
            }
            other => {
                planning.request = other;
                Err(Fault::new(FaultKind::NotFound, format!("no plan `{id}` waits for an answer")))
            }
        })?;
        let Some(pending) = pending else { return Ok(()) };
        if let Err(error) = self.record_answer(&pending, &answer) {
            self.with_planning(|planning| planning.request = Some(Request::Waiting(pending)));
            return Err(Fault::failed(format!(
                "the answer could not be written down, so it does not count: {error}"
            )));
        }
        let how = match answer {
            PlanAnswer::Approved => {
                self.set_plan_file(None);
                self.set_mode(self.mode_after_plan());
                pending.grants.into_iter().for_each(|rule| self.grant(rule));
                "the plan was approved".to_owned()
            }
            PlanAnswer::Rejected { feedback: None } => "the plan was rejected".to_owned(),
            PlanAnswer::Rejected { feedback: Some(feedback) } => {
                format!("the plan was rejected: {feedback}")
            }
        };
        self.context().finished(id, &how);
        Ok(())
    }
}

impl Session {
    /// Writes the answer to the audit log.
    fn record_answer(&self, pending: &PendingPlan, answer: &PlanAnswer) -> std::io::Result<()> {
        let Some(audit) = self.engine().audit() else { return Ok(()) };
        let decision = match answer {
            PlanAnswer::Approved => AuditOutcome::Allowed,
            PlanAnswer::Rejected { .. } => AuditOutcome::Denied,
        };
        let grants: Vec<String> = pending.grants.iter().map(ToString::to_string).collect();
        let cancel = self.cancel_token().child_token();
        let cx = Context::new(self.clone(), 0, pending.id.as_str().into(), "plan".into(), cancel);
        let by = "whoever approves of plans".to_owned();
        audit.record(AuditEntry::now(&cx, &json!({ "grants": grants }), decision, by), Flush::Now)
    }
}

fn already_pending(what: &str) -> Fault {
    Fault::new(FaultKind::Conflict, format!("a plan waits for approval already, as `{what}`"))
        .hint("wait for the answer to it; nothing can be changed until then")
        .with("request_id", what)
}
