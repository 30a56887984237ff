//! Texts that were found to be right, lately. Of a small change of one of them, only the parts around it are read: what
//! an edit costs then depends on the edit, not on the file.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haft::Hash;

use super::{Checker, MAX_BYTES, MAX_LINE, parts};

/// How many texts are remembered.
const REMEMBERED: usize = 64;
/// What is read at once is not longer than this.
const MAX_PART: usize = 16 * 1024;

/// Texts that are right, the latest first, each with the checker that found it so.
#[derive(Default)]
pub(super) struct Lately(Mutex<VecDeque<(Hash, &'static str)>>);

impl Lately {
    /// Remembers a text that is right.
    pub(super) fn was_right(&self, checker: &dyn Checker, text: Hash) {
        let text = (text, checker.name());
        let mut texts = self.texts();
        match texts.iter().position(|known| *known == text) {
            Some(at) => drop(texts.remove(at)),
            None => texts.truncate(REMEMBERED - 1),
        }
        texts.push_front(text);
    }

    /// Whether a text was right, and is after a small change. If not, nothing is known.
    pub(super) fn is_still_right(
        &self,
        checker: &dyn Checker,
        (known, before): (Hash, &str),
        (changed, after): (Hash, &str),
    ) -> bool {
        if after.len() > MAX_BYTES || !self.texts().contains(&(known, checker.name())) {
            return false;
        }
        let Some((was, is)) = parts::around(before, after) else { return false };
        let right = |part: &str| {
            part.len() <= MAX_PART
                && part.split('\n').all(|line| line.len() <= MAX_LINE)
                && checker.is_right_alone(part)
        };
        // A checker that crashes has no result.
        let is_right = catch_unwind(AssertUnwindSafe(|| right(was) && right(is))).unwrap_or_default();
        if is_right {
            self.was_right(checker, changed);
        }
        is_right
    }

    fn texts(&self) -> MutexGuard<'_, VecDeque<(Hash, &'static str)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
