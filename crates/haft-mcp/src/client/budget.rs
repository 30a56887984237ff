//! Bounds a server's questions to the user, so that it can neither flood nor wear out a person until something is
//! confirmed by mistake.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The most questions of a server that wait for an answer.
const MAX_OPEN: usize = 3;
/// The most questions of a server within [`WINDOW`].
const MAX_RECENT: usize = 10;
/// The time in which questions are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts the questions of one server.
#[derive(Default)]
pub(super) struct QuestionBudget(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    open: usize,
    recent: VecDeque<Instant>,
    /// Whether the user was told that questions are declined, in this window.
    told: Option<Instant>,
}

/// A question that may be asked; it counts as open until this is dropped.
pub(super) struct OpenQuestion<'a>(&'a QuestionBudget);

/// A question that is declined.
#[derive(Debug, PartialEq)]
pub(super) struct Declined {
    /// Why, for the server and the user.
    pub(super) reason: String,
    /// Whether the user should be told: once for many questions.
    pub(super) is_news: bool,
}

impl QuestionBudget {
    /// Takes a question into account, or declines it.
    pub(super) fn admit(&self, now: Instant) -> Result<OpenQuestion<'_>, Declined> {
        let mut counts = self.0.lock();
        while counts.recent.front().is_some_and(|asked| now.saturating_duration_since(*asked) >= WINDOW) {
            counts.recent.pop_front();
        }
        let reason = match (counts.open, counts.recent.len()) {
            (MAX_OPEN.., _) => format!("{MAX_OPEN} of its questions still wait for an answer"),
            (_, MAX_RECENT..) => {
                format!("it has asked {MAX_RECENT} questions within {} seconds", WINDOW.as_secs())
            }
            _ => {
                counts.open += 1;
                counts.recent.push_back(now);
                return Ok(OpenQuestion(self));
            }
        };
        let is_news = counts.told.is_none_or(|told| now.saturating_duration_since(told) >= WINDOW);
        if is_news {
            counts.told = Some(now);
        }
        Err(Declined { reason, is_news })
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.0.lock().open -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_few_questions_are_open_at_a_time() {
        let (budget, now) = (QuestionBudget::default(), Instant::now());
        let open: Vec<_> = (0..MAX_OPEN).map(|_| budget.admit(now).ok().unwrap()).collect();
        let first = budget.admit(now).err().unwrap();
        assert!(first.is_news && first.reason.contains("wait for an answer"), "{first:?}");
        assert!(!budget.admit(now).err().unwrap().is_news, "once is enough");
        drop(open);
        assert!(budget.admit(now).is_ok());
    }

    #[test]
    fn questions_are_counted_over_a_minute() {
        let (budget, now) = (QuestionBudget::default(), Instant::now());
        for _ in 0..MAX_RECENT {
            drop(budget.admit(now).ok().unwrap());
        }
        assert!(budget.admit(now).err().unwrap().reason.contains("within 60 seconds"));
        assert!(budget.admit(now + WINDOW).is_ok());
    }
}
