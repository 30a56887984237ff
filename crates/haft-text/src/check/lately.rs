//! Texts that were found to be right, lately. Of a small change of one of them, only the parts around it are read, and those
//! once: what that costs depends on the change, not on the file.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_sandbox::Hash;
use haft_sandbox::{BESIDE_STACK, Beside, beside};

use super::{Checked, Checker, MAX_BYTES, MAX_LINE, STACK_FOR_BYTE, parts};

/// How many texts are remembered, and how many parts.
const REMEMBERED: usize = 64;
/// A longer part is not read so. However deep one of that length is nested, there is enough of the stack.
const MAX_PART: usize = 16 * 1024;
const _: () = assert!(MAX_PART * STACK_FOR_BYTE <= BESIDE_STACK);
/// What is left of a stack for everything else.
const SPARE_STACK: usize = 256 << 10;

/// What was found to be right. Texts and parts are kept apart: what is right as a whole may not be so inside of a text.
#[derive(Default)]
pub(super) struct Lately {
    texts: Right,
    parts: Right,
}

/// What is right, the latest first, each with where the checker is that found it so.
#[derive(Default)]
struct Right(Mutex<VecDeque<(Hash, usize)>>);

impl Right {
    fn add(&self, checker: &dyn Checker, text: Hash) {
        let text = (text, place(checker));
        let mut texts = self.all();
        match texts.iter().position(|known| *known == text) {
            Some(at) => drop(texts.remove(at)),
            None => texts.truncate(REMEMBERED - 1),
        }
        texts.push_front(text);
    }

    fn has(&self, checker: &dyn Checker, text: Hash) -> bool {
        self.all().contains(&(text, place(checker)))
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<(Hash, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lately {
    /// Remembers a text that is right.
    pub(super) fn was_right(&self, checker: &dyn Checker, text: Hash) {
        self.texts.add(checker, text);
    }

    /// Whether a text is known to be right.
    pub(super) fn knows(&self, checker: &dyn Checker, text: Hash) -> bool {
        self.texts.has(checker, text)
    }

    /// Whether a text that was right is so after a change of some parts. If not, nothing is known.
    pub(super) fn is_still_right(&self, checker: &dyn Checker, parts: [&str; 2], changed: Hash) -> bool {
        let right = |part: &str| {
            let hash = Hash::of(part.as_bytes());
            let is_right = self.parts.has(checker, hash) || checker.is_right_alone(part);
            if is_right {
                self.parts.add(checker, hash);
            }
            is_right
        };
        // A checker that crashes has no result.
        let all = AssertUnwindSafe(|| parts.into_iter().all(right));
        let is_right = catch_unwind(all).unwrap_or_default();
        if is_right {
            self.was_right(checker, changed);
        }
        is_right
    }
}

/// A brief look at a small change, still to be taken.
pub struct Brief {
    pub(super) checker: Arc<dyn Checker>,
    pub(super) lately: Arc<Lately>,
    pub(super) parts: [String; 2],
    pub(super) changed: Hash,
}

/// A brief look that is taken.
pub enum Glance {
    Taken(Option<Checked>),
    Beside(Beside<Option<Checked>>),
}

impl Brief {
    /// Takes it: here where the stack is large enough for whatever the parts may be, which takes less time than to have
    /// another thread begin, else beside.
    pub fn begin(self) -> Glance {
        let longest = self.parts.iter().map(String::len).max().unwrap_or(0);
        let wanted = longest * STACK_FOR_BYTE * 2 + SPARE_STACK;
        if stacker::remaining_stack().is_some_and(|left| left >= wanted) {
            return Glance::Taken(self.take());
        }
        match beside(move || self.take()) {
            Ok(beside) => Glance::Beside(beside),
            Err(_) => Glance::Taken(None),
        }
    }

    fn take(self) -> Option<Checked> {
        let [was, is] = &self.parts;
        self.lately.is_still_right(&*self.checker, [was, is], self.changed).then(|| Checked {
            checker: self.checker.name(),
            errors: Vec::new(),
            more: 0,
            existing: 0,
        })
    }
}

impl Glance {
    /// What was seen; nothing where all of the text has to be read.
    pub fn seen(self) -> Option<Checked> {
        match self {
            Self::Taken(seen) => seen,
            Self::Beside(seeing) => seeing.wait().ok().flatten(),
        }
    }
}

/// The parts around a small change, as they were and as they are, if it is enough to read those.
pub(super) fn parts(before: &str, after: &str) -> Option<(String, String)> {
    let (was, is) = parts::around(before, after).filter(|_| after.len() <= MAX_BYTES)?;
    let is_small = |part: &str| part.len() <= MAX_PART && part.split('\n').all(|line| line.len() <= MAX_LINE);
    (is_small(was) && is_small(is)).then(|| (was.to_owned(), is.to_owned()))
}

/// By what a checker is told from others: some have the same name.
fn place(checker: &dyn Checker) -> usize {
    std::ptr::from_ref(checker).addr()
}
