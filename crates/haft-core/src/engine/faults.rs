//! The faults of the pipeline itself: a panic, a repeated call, a timeout.

use std::time::Duration;

use crate::turn::Earlier;
use crate::{Fault, FaultKind};

pub(super) fn crashed(panic: String) -> Fault {
    Fault::new(FaultKind::Internal, format!("the tool crashed: {panic}"))
        .hint("this is a mistake in the tool, not in the call; try another way")
}

pub(super) fn repeated(earlier: &Earlier) -> Fault {
    Fault::new(
        FaultKind::Redundant,
        format!(
            "the same call was made before in this turn, as `{}`, and nothing it reads has changed",
            earlier.call
        ),
    )
    .hint("use the reply to that call")
    .with("earlier_call", &*earlier.call)
}

pub(super) fn timed_out(limit: Duration) -> Fault {
    Fault::new(FaultKind::Timeout, format!("the call took longer than {} s", limit.as_secs_f64()))
        .with("limit_ms", limit.as_millis() as u64)
}
