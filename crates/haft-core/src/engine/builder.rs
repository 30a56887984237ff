//! An engine that is being set up: who is asked, who judges, what listens, and what is kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Inner};
use crate::audit::Audit;
use crate::events::Activity;
use crate::hooks::Hook;
use crate::images::{BySignature, ImageFitter};
use crate::limits::KeptResults;
use crate::permissions::Approver;
use crate::permissions::{Judge, NoApprover};
use crate::plans::PlanApprover;
use crate::questions::Respondent;
use crate::stats::Stats;

/// An engine that is being set up.
pub struct EngineBuilder(Inner);

impl EngineBuilder {
    /// Adds something that is called before and after calls.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.0.hooks.push(Arc::new(hook));
        self
    }

    /// Sets what makes pictures in replies ones that a model can be shown. Unless this is said, they are passed on by what
    /// their first bytes say.
    pub fn images(mut self, fitter: impl ImageFitter + 'static) -> Self {
        self.0.images = Arc::new(fitter);
        self
    }

    /// Adds somebody who judges calls by rules.
    pub fn judge(mut self, judge: impl Judge + 'static) -> Self {
        self.0.judges.push(Arc::new(judge));
        self
    }

    /// Sets who is asked, where a session has nobody of its own. Nobody, unless this is said: what must be asked is then denied.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.0.approver = Arc::new(approver);
        self
    }

    /// Sets who answers the questions of tools. Nobody, unless this is said.
    pub fn respondent(mut self, respondent: impl Respondent + 'static) -> Self {
        self.0.respondent = Some(Arc::new(respondent));
        self
    }

    /// Sets who approves of plans in their own time, in place of whoever is asked at once.
    pub fn plan_approver(mut self, approver: impl PlanApprover + 'static) -> Self {
        self.0.plan_approver = Some(Arc::new(approver));
        self
    }

    /// Sets where it is written down what was decided about calls.
    pub fn audit(mut self, audit: Audit) -> Self {
        self.0.audit = Some(audit);
        self
    }

    /// Sets how long an answer is waited for. What is not answered by then is denied.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.0.patience = Some(patience);
        self
    }

    /// Sets where the whole of a reply is kept that had to be cut.
    pub fn keep_results(mut self, kept: KeptResults) -> Self {
        self.0.kept = Some(kept);
        self
    }

    /// Sets the longest reply of a tool, in characters.
    pub fn max_result(mut self, tool: impl Into<String>, chars: usize) -> Self {
        self.0.max_results.insert(tool.into(), chars);
        self
    }

    /// The engine.
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
            approver: Arc::new(NoApprover::default()),
            respondent: None,
            plan_approver: None,
            images: Arc::new(BySignature),
            kept: None,
            patience: None,
            audit: None,
            max_results: HashMap::new(),
        })
    }
}

impl Engine {
    pub(crate) fn respondent(&self) -> Option<&Arc<dyn Respondent>> {
        self.0.respondent.as_ref()
    }

    /// Who approves of plans in their own time, if anybody does.
    pub fn plan_approver(&self) -> Option<&Arc<dyn PlanApprover>> {
        self.0.plan_approver.as_ref()
    }

    pub(crate) fn patience(&self) -> Option<Duration> {
        self.0.patience
    }
}
