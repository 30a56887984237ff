//! The faults of the pipeline itself: a panic, a repeated call, a timeout.

use std::time::Duration;

use crate::{Claims, Fault, FaultKind};

pub(super) fn crashed(panic: String) -> Fault {
    Fault::new(FaultKind::Internal, format!("the tool crashed: {panic}"))
        .hint("this is a mistake in the tool, not in the call; try another way")
}

pub(super) fn repeated(earlier: &str, claims: &Claims) -> Fault {
    let before = format!("the same call was made before in this turn, as `{earlier}`");
    let (message, hint) = match claims.is_read_only() {
        true => (format!("{before}, and nothing it reads has changed"), "use the reply to that call"),
        false => (
            format!("{before}, and nothing has changed since, so it is not carried out twice"),
            "use the reply to that call; if it is meant to happen once more, make the call in the next turn",
        ),
    };
    Fault::new(FaultKind::Redundant, message).hint(hint).with("earlier_call", earlier)
}

pub(super) fn timed_out(limit: Duration) -> Fault {
    Fault::new(FaultKind::Timeout, format!("the call took longer than {} s", limit.as_secs_f64()))
        .with("limit_ms", limit.as_millis() as u64)
}
