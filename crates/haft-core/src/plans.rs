//! Planning before anything is changed: what a session plans in, who may approve of a plan later than at once, and
//! what their answer does. What may be done meanwhile is for the permissions to say; how a plan is made, for tools.

use std::sync::Arc;

use haft_sandbox::{AbsPath, Workspace, names};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::{AuditEntry, AuditOutcome};
use crate::crash::caught;
use crate::permissions::Rule;
use crate::{BoxFuture, Context, Fault, FaultKind, Mode, Session};

/// Somebody who approves of plans in their own time, in place of the person who is asked at once.
pub trait PlanApprover: Send + Sync {
    /// Takes a plan, and gives the id by which [`Session::answer_plan`] is told the answer.
    fn submit(&self, plan: PlanRequest) -> BoxFuture<'_, Result<String, Fault>>;
}

/// A plan that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanRequest {
    /// The session.
    pub session: Arc<str>,
    /// The call that hands it in.
    pub call: Arc<str>,
    /// What is planned.
    pub plan: String,
    /// What is going to be allowed with it.
    pub grants: Vec<Rule>,
}

/// What became of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanAnswer {
    /// It is to be done.
    Approved,
    /// It is not, and what to do instead. The session goes on planning.
    Rejected {
        /// For the model, by way of whoever leads the conversation.
        feedback: Option<String>,
    },
}

/// How a session stands to its plan.
#[derive(Default)]
pub(crate) struct Planning {
    /// The mode before the session began to plan.
    pub(crate) before: Mode,
    /// The file that may be changed while the session only plans.
    pub(crate) file: Option<AbsPath>,
    pub(crate) request: Option<Request>,
}

/// A plan on its way to be approved.
pub(crate) enum Request {
    /// It is being handed in. An answer may be there before the id is known here.
    Submitting { early: Vec<(String, PlanAnswer)> },
    /// It waits for an answer.
    Waiting(PendingPlan),
}

/// A plan that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPlan {
    /// By which id the answer is told.
    pub id: String,
    /// What is allowed once it is approved.
    pub grants: Vec<Rule>,
}

/// What is kept between runs of a session that only plans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedPlanning {
    /// The plan file.
    pub file: Option<String>,
    /// The plan that waits for an answer.
    pub awaited: Option<PendingPlan>,
}

impl Planning {
    pub(crate) fn resume(saved: Option<&SavedPlanning>, mode: Mode, workspace: &Workspace) -> Self {
        let before = if mode == Mode::Plan { Mode::default() } else { mode };
        let file = saved.and_then(|saved| saved.file.as_ref());
        let file = file.and_then(|file| workspace.resolve(workspace.root(), file).ok());
        let awaited = saved.and_then(|saved| saved.awaited.clone());
        Self { before, file: file.map(|place| place.path), request: awaited.map(Request::Waiting) }
    }

    pub(crate) fn save(&self) -> SavedPlanning {
        let awaited = match &self.request {
            Some(Request::Waiting(awaited)) => Some(awaited.clone()),
            _ => None,
        };
        SavedPlanning { file: self.file.as_ref().map(|file| names::show(file.as_path())), awaited }
    }
}

impl Context {
    /// Hands a plan in to whoever approves of plans in their own time. Gives the id under which it waits.
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
            Some(Request::Waiting(awaited)) => Err(awaits(&awaited.id)),
            Some(Request::Submitting { .. }) => Err(awaits("another plan")),
        })?;
        let unsent = Unsent(session);
        let (id, call) = (session.id().clone(), self.call().clone());
        let request = PlanRequest { session: id, call, plan, grants: grants.clone() };
        let submitted = caught(async { approver.submit(request).await }).await;
        let submitted = submitted.unwrap_or_else(|panic| Err(Fault::failed(format!("it crashed: {panic}"))));
        let id = submitted.map_err(|error| {
            Fault::failed(format!("the plan could not be handed in: {}", error.message()))
                .hint("try again later")
        })?;
        std::mem::forget(unsent);
        let early = session.with_planning(|planning| {
            let awaited = PendingPlan { id: id.clone(), grants };
            match planning.request.replace(Request::Waiting(awaited)) {
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

/// Nothing waits for an answer when handing in has failed, or was given up.
struct Unsent<'a>(&'a Session);

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        self.0.with_planning(|planning| planning.request = None);
    }
}

impl Session {
    /// The id of the plan that waits for an answer, if one does.
    pub fn awaited_plan(&self) -> Option<String> {
        self.with_planning(|planning| match &planning.request {
            Some(Request::Waiting(awaited)) => Some(awaited.id.clone()),
            _ => None,
        })
    }

    /// Tells the answer to a plan that was handed in. Only with an approval does the planning end and is allowed what
    /// was asked for with the plan.
    pub fn answer_plan(&self, id: &str, answer: PlanAnswer) -> Result<(), Fault> {
        let awaited = self.with_planning(|planning| match planning.request.take() {
            Some(Request::Waiting(awaited)) if awaited.id == id => Ok(Some(awaited)),
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
        let Some(awaited) = awaited else { return Ok(()) };
        if let Err(error) = self.record_answer(&awaited, &answer) {
            self.with_planning(|planning| planning.request = Some(Request::Waiting(awaited)));
            return Err(Fault::failed(format!(
                "the answer could not be written down, so it does not count: {error}"
            )));
        }
        let how = match answer {
            PlanAnswer::Approved => {
                self.set_plan_file(None);
                self.set_mode(self.mode_after_plan());
                awaited.grants.into_iter().for_each(|rule| self.grant(rule));
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
    /// Writes down what was decided about a plan.
    fn record_answer(&self, awaited: &PendingPlan, answer: &PlanAnswer) -> std::io::Result<()> {
        let Some(audit) = self.engine().audit() else { return Ok(()) };
        let decision = match answer {
            PlanAnswer::Approved => AuditOutcome::Allowed,
            PlanAnswer::Rejected { .. } => AuditOutcome::Denied,
        };
        let grants: Vec<String> = awaited.grants.iter().map(ToString::to_string).collect();
        let cancel = self.cancel_token().child_token();
        let cx = Context::new(self.clone(), 0, awaited.id.as_str().into(), "plan".into(), cancel);
        let by = "whoever approves of plans".to_owned();
        audit.record(AuditEntry::now(&cx, &json!({ "grants": grants }), decision, by), true)
    }
}

fn awaits(what: &str) -> Fault {
    Fault::new(FaultKind::Conflict, format!("a plan waits for approval already, as `{what}`"))
        .hint("wait for the answer to it; nothing can be changed until then")
        .with("request_id", what)
}
