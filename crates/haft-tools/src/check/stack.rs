//! The stack that checkers run on. Parsers recurse as deep as a text is nested, and a model may write anything, so each
//! check gets a stack that is large enough for its text. Only address space is reserved, no memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The smallest stack.
const MIN_STACK: usize = 64 << 20;
/// Stack for each byte of a text. Only a parser knows how deep a text is nested, but a level that
/// [`too_deep`](super::depth::too_deep) does not see takes six bytes or more, and a parser needs some kilobytes for it.
const STACK_FOR_BYTE: usize = 4096;
/// The largest stack.
const MAX_STACK: usize = 2 << 30;

/// Runs a check of texts of up to `bytes` on a stack of its own. `None` if the check panics or there is no room for the
/// stack.
pub(super) fn with_stack<T>(bytes: usize, check: impl FnOnce() -> Option<T>) -> Option<T> {
    let stack = bytes.saturating_mul(STACK_FOR_BYTE).clamp(MIN_STACK, MAX_STACK);
    // A new stack takes about 10 µs, a new thread with such a stack about 45 µs.
    catch_unwind(AssertUnwindSafe(|| stacker::grow(stack, check))).ok().flatten()
}
