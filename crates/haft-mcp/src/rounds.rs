//! Questions where a server may not ask: the request is answered with them, and the client makes it again with the
//! answers. What earlier rounds were told is kept here meanwhile, under a name that nobody can guess and that counts once,
//! and only for the same request.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use parking_lot::{Mutex, MutexGuard};
use rmcp::ErrorData;
use rmcp::model::{InputRequest, InputRequests, InputRequiredResult, InputResponses};
use serde_json::Value;
use tokio::sync::Notify;

/// So many requests may wait to be made again. The oldest one begins anew.
const MAX_KEPT: usize = 256;
/// More is not kept of what a client has answered.
const MAX_ANSWERS: usize = 1024 * 1024;

/// A name that nobody can guess.
pub(crate) fn unguessable() -> String {
    let part = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", part(), part())
}

/// One round of a request.
pub(crate) struct Rounds {
    answers: InputResponses,
    number: usize,
    asked: Mutex<InputRequests>,
    wanted: Notify,
}

impl Rounds {
    /// What has been answered so far, if anything has.
    pub(crate) fn answer(&self, name: &str) -> Option<&Value> {
        self.answers.get(name)
    }

    /// How many rounds there were before.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Asks, in vain: the answer comes to the next round.
    pub(crate) async fn ask<T>(&self, name: &str, request: InputRequest) -> T {
        self.asked().insert(name.to_owned(), request);
        self.wanted.notify_one();
        std::future::pending().await
    }

    /// Waits until something is asked.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    fn asked(&self) -> MutexGuard<'_, InputRequests> {
        self.asked.lock()
    }
}

/// The answers of requests that will be made again.
#[derive(Default)]
pub(crate) struct Kept(Mutex<VecDeque<Waiting>>);

struct Waiting {
    name: String,
    request: String,
    answers: InputResponses,
    number: usize,
}

impl Kept {
    /// Begins a round of a request, which came with answers and perhaps with the name of an earlier round.
    pub(crate) fn begin(
        &self,
        request: &str,
        answers: Option<InputResponses>,
        name: Option<&str>,
    ) -> Result<Rounds, ErrorData> {
        let (mut known, number) = match name {
            None => (InputResponses::new(), 0),
            Some(name) => {
                let mut kept = self.kept();
                let at = kept.iter().position(|waiting| waiting.name == name && waiting.request == request);
                let waiting = at.and_then(|at| kept.remove(at)).ok_or_else(unknown)?;
                (waiting.answers, waiting.number + 1)
            }
        };
        known.extend(answers.unwrap_or_default());
        Ok(Rounds { answers: known, number, asked: Mutex::default(), wanted: Notify::new() })
    }

    /// Ends a round: what the client is answered if something was asked in it.
    pub(crate) fn end(
        &self,
        request: String,
        rounds: &Rounds,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let asked = std::mem::take(&mut *rounds.asked());
        if asked.is_empty() {
            return Ok(None);
        }
        let answers = rounds.answers.clone();
        let size = serde_json::to_string(&answers).map_or(usize::MAX, |text| text.len());
        if size > MAX_ANSWERS {
            let told = format!("the answers have {size} bytes, and {MAX_ANSWERS} are the most");
            return Err(ErrorData::invalid_params(told, None));
        }
        let name = unguessable();
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(Waiting { name: name.clone(), request, answers, number: rounds.number });
        Ok(Some(InputRequiredResult::new(Some(asked), Some(name))))
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.0.lock()
    }
}

fn unknown() -> ErrorData {
    ErrorData::invalid_params(
        "there is no such `requestState` for this request, or it was used already: make the request without it",
        None,
    )
}

#[cfg(test)]
mod tests {
    use rmcp::model::ElicitRequest;
    use serde_json::json;

    use super::*;

    fn question() -> InputRequest {
        let params = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
        let request: ElicitRequest =
            serde_json::from_value(json!({"method": "elicitation/create", "params": params})).unwrap();
        InputRequest::Elicitation(request)
    }

    async fn asked(rounds: &Rounds, name: &str) {
        tokio::select! {
            () = rounds.ask(name, question()) => {}
            () = rounds.wanted() => {}
        }
    }

    #[tokio::test]
    async fn answers_of_earlier_rounds_are_there_in_later_ones() {
        let kept = Kept::default();
        let first = kept.begin("call a", None, None).unwrap();
        asked(&first, "one").await;
        let name = kept.end("call a".to_owned(), &first).unwrap().unwrap().request_state.unwrap();
        let answers = InputResponses::from([("one".to_owned(), json!(1))]);
        let second = kept.begin("call a", Some(answers), Some(&name)).unwrap();
        asked(&second, "two").await;
        let name = kept.end("call a".to_owned(), &second).unwrap().unwrap().request_state.unwrap();
        let answers = InputResponses::from([("two".to_owned(), json!(2))]);
        let third = kept.begin("call a", Some(answers), Some(&name)).unwrap();
        assert_eq!((third.answer("one"), third.answer("two")), (Some(&json!(1)), Some(&json!(2))));
        assert_eq!(third.number(), 2);
        assert!(kept.end("call a".to_owned(), &third).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_round_is_gone_on_with_once_and_by_the_same_request() {
        let kept = Kept::default();
        let rounds = kept.begin("call a", None, None).unwrap();
        asked(&rounds, "one").await;
        let name = kept.end("call a".to_owned(), &rounds).unwrap().unwrap().request_state.unwrap();
        assert!(kept.begin("call b", None, Some(&name)).is_err());
        assert!(kept.begin("call a", None, Some(&format!("{name}x"))).is_err());
        assert!(kept.begin("call a", None, Some(&name)).is_ok());
        assert!(kept.begin("call a", None, Some(&name)).is_err());
    }

    #[tokio::test]
    async fn not_more_is_kept_than_there_is_room_for() {
        let kept = Kept::default();
        let mut names = Vec::new();
        for _ in 0..MAX_KEPT + 1 {
            let rounds = kept.begin("r", None, None).unwrap();
            asked(&rounds, "one").await;
            names.push(kept.end("r".to_owned(), &rounds).unwrap().unwrap().request_state.unwrap());
        }
        assert!(kept.begin("r", None, Some(&names[0])).is_err());
        assert!(kept.begin("r", None, Some(&names[1])).is_ok());
        let long = InputResponses::from([("x".to_owned(), json!("y".repeat(MAX_ANSWERS)))]);
        let rounds = kept.begin("r", Some(long), None).unwrap();
        asked(&rounds, "one").await;
        assert!(kept.end("r".to_owned(), &rounds).is_err());
    }
}
