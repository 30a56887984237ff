//! Configures an engine: judges, approvers, hooks, the audit log, timeouts and limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Inner};
use crate::audit::Audit;
use crate::events::Activity;
use crate::hooks::Hook;
use crate::images::{BySignature, ImageFitter};
use crate::limits::ResultStore;
use crate::permissions::{ApprovalAdvice, ApprovalRequest, Approver, Judge, NoApprover};
use crate::plans::PlanApprover;
use crate::questions::Respondent;
use crate::stats::Stats;

/// Configures an [`Engine`]. Everything is optional.
pub struct EngineBuilder(Inner);

impl EngineBuilder {
    /// Adds a hook, which is called before and after calls.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.0.hooks.push(Arc::new(hook));
        self
    }

    /// Sets what decodes and scales images in replies. Default: images pass unchanged if their first bytes are those of a
    /// format that models take.
    pub fn images(mut self, fitter: impl ImageFitter + 'static) -> Self {
        self.0.images = Arc::new(fitter);
        self
    }

    /// Adds a judge, which allows, denies or asks about calls by rules.
    pub fn judge(mut self, judge: impl Judge + 'static) -> Self {
        self.0.judges.push(Arc::new(judge));
        self
    }

    /// Sets who approves calls in sessions without an approver of their own. Default: [`NoApprover`], which denies every
    /// call that needs approval.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.0.approver = Arc::new(approver);
        self
    }

    /// Sets who answers the questions of tools in sessions without a respondent of their own. Default: none.
    pub fn respondent(mut self, respondent: impl Respondent + 'static) -> Self {
        self.0.respondent = Some(Arc::new(respondent));
        self
    }

    /// Sets who approves plans asynchronously. Default: none, and the approver is asked about a plan like about a call.
    pub fn plan_approver(mut self, approver: impl PlanApprover + 'static) -> Self {
        self.0.plan_approver = Some(Arc::new(approver));
        self
    }

    /// Sets the audit log, to which the engine writes every decision about a call.
    pub fn audit(mut self, audit: Audit) -> Self {
        self.0.audit = Some(audit);
        self
    }

    /// Sets the timeout for answers of approvers and respondents. A call that is not answered in time is denied. Default:
    /// no timeout.
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.0.answer_timeout = Some(timeout);
        self
    }

    /// Sets how the user can allow a call that needs approval, other than by answering the question. The text goes to the
    /// model with a denial, and to the user. Default: only what the engine itself knows.
    ///
    /// ```
    /// use haft_core::Engine;
    ///
    /// let engine = Engine::builder()
    ///     .approval_advice(|request| {
    ///         let rule = request.offered().first()?;
    ///         Some(format!("the user can add `{rule}` to the rules of the project"))
    ///     })
    ///     .build();
    /// # drop(engine);
    /// ```
    pub fn approval_advice(
        mut self,
        advise: impl Fn(&ApprovalRequest) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.0.approval_advice = Some(Arc::new(advise));
        self
    }

    /// Sets where the engine offloads the full text of replies that it cuts.
    pub fn keep_results(mut self, kept: ResultStore) -> Self {
        self.0.kept = Some(kept);
        self
    }

    /// Sets the longest reply of a tool, in characters, instead of the limit in its [`Spec`](crate::Spec).
    pub fn max_result(mut self, tool: impl Into<String>, chars: usize) -> Self {
        self.0.max_results.insert(tool.into(), chars);
        self
    }

    /// Builds the engine.
    pub fn build(self) -> Engine {
        Engine(Arc::new(self.0))
    }
}

impl Default for EngineBuilder {
    fn default() -> Self {
        Self(Inner {
            activity: Activity::default(),
            stats: Stats::new(),
            hooks: Vec::new(),
            judges: Vec::new(),
            approver: Arc::new(NoApprover),
            respondent: None,
            plan_approver: None,
            images: Arc::new(BySignature),
            kept: None,
            answer_timeout: None,
            approval_advice: None,
            audit: None,
            max_results: HashMap::new(),
        })
    }
}

impl Engine {
    pub(crate) fn respondent(&self) -> Option<&Arc<dyn Respondent>> {
        self.0.respondent.as_ref()
    }

    /// Who approves plans asynchronously, if the engine has such an approver.
    pub fn plan_approver(&self) -> Option<&Arc<dyn PlanApprover>> {
        self.0.plan_approver.as_ref()
    }

    pub(crate) fn has_hooks(&self) -> bool {
        !self.0.hooks.is_empty()
    }

    pub(crate) fn approver(&self) -> &dyn Approver {
        &*self.0.approver
    }

    pub(crate) fn approval_advice(&self) -> Option<&Arc<ApprovalAdvice>> {
        self.0.approval_advice.as_ref()
    }

    pub(crate) fn answer_timeout(&self) -> Option<Duration> {
        self.0.answer_timeout
    }
}
