//! Dry run: the stages up to the permission, without waiting, asking or changing anything.

use super::Engine;
use crate::permissions::{self, Question};
use crate::permissions::{DryRun, Prediction, Verdict};
use crate::{Call, Claims, Context, Fault, FaultKind, Session};

impl Engine {
    /// Predicts the outcome of a call without running it. Asks no approver and calls no hook.
    pub(crate) async fn dry_run(&self, session: &Session, call: Call) -> Result<DryRun, Fault> {
        let cx = Context::new(session.clone(), 0, call.id, call.name, session.cancel_token().child_token());
        let entry = session.tools().find(cx.tool(), &cx)?;
        let mut input = call.input.into_value();
        entry.decoder.decode(&mut input, entry.tool.spec())?;
        let (mut prepared, claims, verdict) = match self.claim(&entry, &input, &cx) {
            Err(fault) if fault.kind() == FaultKind::Denied => {
                let claims =
                    entry.tool.prepare(&input, &cx).map_or_else(|_| Claims::none(), |call| call.claims());
                return Ok(DryRun { claims, outcome: Prediction::Denied(fault.message().to_owned()) });
            }
            claimed => claimed?,
        };
        prepared.check(&cx).await?;
        let question = Question { spec: entry.tool.spec(), input: &input, claims: &claims, cx: &cx };
        let outcome = match permissions::needs_approval(&question, &verdict, &prepared.approval(&cx)) {
            Ok(Some(needed)) => Prediction::Asked(needed.reason().to_owned()),
            Ok(None) => match verdict {
                Verdict::Allow { by, .. } => Prediction::Allowed(Some(by)),
                _ => Prediction::Allowed(None),
            },
            Err(fault) if matches!(fault.kind(), FaultKind::Denied | FaultKind::Outside) => {
                Prediction::Denied(fault.message().to_owned())
            }
            Err(fault) => return Err(fault),
        };
        Ok(DryRun { claims, outcome })
    }
}
