//! The stack that checkers run on. Parsers recurse as deep as a text is nested, and a model may write anything, so each
//! check has a stack that is large enough for its text. It is address space that is reserved, not memory that is used.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The smallest stack.
const MIN_STACK: usize = 64 << 20;
/// Stack for each byte of a text. How deep a text is nested cannot be told without parsing it, but a level that
/// [`too_deep`](super::depth::too_deep) overlooks takes six bytes and more, and a parser some kilobytes for it.
const STACK_FOR_BYTE: usize = 4096;
/// The largest stack.
const MAX_STACK: usize = 2 << 30;

/// Runs a check of texts of at most so many bytes on a stack of its own. `None` if the check panics or there is no room
/// for the stack.
pub(super) fn with_stack<T>(bytes: usize, check: impl FnOnce() -> Option<T>) -> Option<T> {
    let stack = bytes.saturating_mul(STACK_FOR_BYTE).clamp(MIN_STACK, MAX_STACK);
    // A new stack for each check costs about ten microseconds: less than handing the check to a thread that keeps one.
    catch_unwind(AssertUnwindSafe(|| stacker::grow(stack, check))).ok().flatten()
}
