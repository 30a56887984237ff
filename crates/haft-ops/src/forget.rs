//! Dropping what is kept of past calls, so that a conversation stays short. What the model is shown is for whoever
//! leads the conversation, who hears of it.

use std::sync::Arc;

use haft_core::sessions::PastCall;
use haft_core::{Claims, Context, Effect, Fault, FaultKind, Operation, Preview, suggest};

/// More calls are not named to choose from.
const MAX_NAMED: usize = 5;

/// Drops what is kept of past calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forget {
    /// The calls.
    pub calls: Vec<String>,
}

/// A call that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenCall {
    /// Which.
    pub id: String,
    /// What it was.
    pub call: PastCall,
}

impl Forget {
    fn find(&self, cx: &Context) -> Result<Vec<ForgottenCall>, Fault> {
        let find = |id: &String| match cx.session().past_call(id) {
            Some(call) => Ok(ForgottenCall { id: id.clone(), call }),
            None => Err(unknown(id, cx)),
        };
        self.calls.iter().map(find).collect()
    }
}

impl Operation for Forget {
    type Output = Vec<ForgottenCall>;

    /// It waits for whatever came before, which it may be about.
    fn claims(&self) -> Claims {
        Claims::everything()
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        self.find(cx).map(|_| None)
    }

    async fn run(self, cx: &Context) -> Result<Self::Output, Fault> {
        let found = self.find(cx)?;
        for ForgottenCall { id, .. } in &found {
            cx.effect(Effect::Forgotten(Arc::from(id.as_str())));
        }
        Ok(found)
    }
}

fn unknown(id: &str, cx: &Context) -> Fault {
    let fault = Fault::new(FaultKind::NotFound, format!("nothing is kept of a call `{id}`"));
    let all = cx.session().past_calls();
    let latest: Vec<&str> = all.iter().rev().take(MAX_NAMED).map(|id| &**id).collect();
    match latest.as_slice() {
        [] => fault.hint("no call has ended in this session"),
        latest => fault.hint(format!("the latest calls are {}", suggest::or_list(latest))),
    }
}
