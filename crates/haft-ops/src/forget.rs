//! Dropping past calls from a session, so that a conversation stays short. The client that owns the conversation gets an
//! event and decides what the model still sees; this module only changes what the session keeps.

use std::sync::Arc;

use haft_core::sessions::PastCall;
use haft_core::{Claims, Context, Effect, Fault, FaultKind, Operation, Preview, suggest};

/// Maximum number of calls that a fault suggests.
const MAX_NAMED: usize = 5;

/// Drops past calls from the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Ids of the calls.
    pub calls: Vec<String>,
}

/// A call that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenCall {
    /// Its id.
    pub id: String,
    /// What the session kept of it.
    pub call: PastCall,
}

impl Forget {
    /// The calls to drop, or the fault that one of them is unknown.
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

    /// Claims everything, so that it runs after all calls before it: it may drop one of them.
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

/// The fault for an unknown call, with the latest ones.
fn unknown(id: &str, cx: &Context) -> Fault {
    let fault = Fault::new(FaultKind::NotFound, format!("nothing is kept of a call `{id}`"));
    let all = cx.session().past_calls();
    let latest: Vec<&str> = all.iter().rev().take(MAX_NAMED).map(|id| &**id).collect();
    match latest.as_slice() {
        [] => fault.hint("no call has ended in this session"),
        latest => fault.hint(format!("the latest calls are {}", suggest::or_list(latest))),
    }
}
