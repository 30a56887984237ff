//! Questions to stateless clients, which a server cannot send requests: it answers a request with the questions, and the
//! client repeats the request with the answers. The answers of earlier rounds are kept here, under an unguessable
//! `requestState` that is valid once and for the same request only.

use std::collections::VecDeque;

use haft_sandbox::random_id;
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{InputRequest, InputRequests, InputRequiredResult, InputResponses};
use serde_json::Value;
use tokio::sync::Notify;

/// The most requests that wait to be repeated. Beyond that the oldest loses its answers.
const MAX_PENDING: usize = 256;
/// The most bytes of answers kept for one request.
const MAX_ANSWERS: usize = 1024 * 1024;

/// One round of a request.
pub(super) struct Round {
    answers: InputResponses,
    number: usize,
    questions: Mutex<InputRequests>,
    question_added: Notify,
}

impl Round {
    /// The answer to a question, if an earlier round got one.
    pub(super) fn answer(&self, name: &str) -> Option<&Value> {
        self.answers.get(name)
    }

    /// The number of earlier rounds.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Adds a question. Never resolves: the answer comes with the next round.
    pub(super) async fn ask<T>(&self, name: &str, request: InputRequest) -> T {
        self.questions.lock().insert(name.to_owned(), request);
        self.question_added.notify_one();
        std::future::pending().await
    }

    /// Waits until there is a question.
    pub(super) async fn asked(&self) {
        self.question_added.notified().await;
    }
}

/// Requests that wait to be repeated, with their answers so far. The oldest comes first.
#[derive(Default)]
pub(super) struct PendingRounds(Mutex<VecDeque<Pending>>);

struct Pending {
    state: String,
    request: String,
    answers: InputResponses,
    number: usize,
}

impl PendingRounds {
    /// Begins a round of a request, with the answers and the `requestState` that it carries.
    pub(super) fn begin(
        &self,
        request: &str,
        answers: Option<InputResponses>,
        state: Option<&str>,
    ) -> Result<Round, ErrorData> {
        let (mut known, number) = match state {
            None => (InputResponses::new(), 0),
            Some(state) => {
                let mut all = self.0.lock();
                let index =
                    all.iter().position(|pending| pending.state == state && pending.request == request);
                let pending = index.and_then(|index| all.remove(index)).ok_or_else(unknown_state)?;
                (pending.answers, pending.number + 1)
            }
        };
        known.extend(answers.unwrap_or_default());
        Ok(Round { answers: known, number, questions: Mutex::default(), question_added: Notify::new() })
    }

    /// Ends a round. Returns the questions to answer the request with, if there are any.
    pub(super) fn end(
        &self,
        request: String,
        round: &Round,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let questions = std::mem::take(&mut *round.questions.lock());
        if questions.is_empty() {
            return Ok(None);
        }
        let answers = round.answers.clone();
        let size = serde_json::to_string(&answers).map_or(usize::MAX, |text| text.len());
        if size > MAX_ANSWERS {
            let message = format!("the answers have {size} bytes, and {MAX_ANSWERS} are the most");
            return Err(ErrorData::invalid_params(message, None));
        }
        let state = random_id();
        let mut all = self.0.lock();
        if all.len() >= MAX_PENDING {
            all.pop_front();
        }
        all.push_back(Pending { state: state.clone(), request, answers, number: round.number });
        Ok(Some(InputRequiredResult::new(Some(questions), Some(state))))
    }
}

fn unknown_state() -> ErrorData {
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

    async fn ask(round: &Round, name: &str) {
        tokio::select! {
            () = round.ask(name, question()) => {}
            () = round.asked() => {}
        }
    }

    #[tokio::test]
    async fn later_rounds_have_the_answers_of_earlier_ones() {
        let pending = PendingRounds::default();
        let first = pending.begin("call a", None, None).unwrap();
        ask(&first, "one").await;
        let state = pending.end("call a".to_owned(), &first).unwrap().unwrap().request_state.unwrap();
        let answers = InputResponses::from([("one".to_owned(), json!(1))]);
        let second = pending.begin("call a", Some(answers), Some(&state)).unwrap();
        ask(&second, "two").await;
        let state = pending.end("call a".to_owned(), &second).unwrap().unwrap().request_state.unwrap();
        let answers = InputResponses::from([("two".to_owned(), json!(2))]);
        let third = pending.begin("call a", Some(answers), Some(&state)).unwrap();
        assert_eq!((third.answer("one"), third.answer("two")), (Some(&json!(1)), Some(&json!(2))));
        assert_eq!(third.number(), 2);
        assert!(pending.end("call a".to_owned(), &third).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_state_is_valid_once_and_for_the_same_request() {
        let pending = PendingRounds::default();
        let round = pending.begin("call a", None, None).unwrap();
        ask(&round, "one").await;
        let state = pending.end("call a".to_owned(), &round).unwrap().unwrap().request_state.unwrap();
        assert!(pending.begin("call b", None, Some(&state)).is_err());
        assert!(pending.begin("call a", None, Some(&format!("{state}x"))).is_err());
        assert!(pending.begin("call a", None, Some(&state)).is_ok());
        assert!(pending.begin("call a", None, Some(&state)).is_err());
    }

    #[tokio::test]
    async fn pending_rounds_and_answers_are_bounded() {
        let pending = PendingRounds::default();
        let mut states = Vec::new();
        for _ in 0..MAX_PENDING + 1 {
            let round = pending.begin("r", None, None).unwrap();
            ask(&round, "one").await;
            states.push(pending.end("r".to_owned(), &round).unwrap().unwrap().request_state.unwrap());
        }
        assert!(pending.begin("r", None, Some(&states[0])).is_err());
        assert!(pending.begin("r", None, Some(&states[1])).is_ok());
        let long = InputResponses::from([("x".to_owned(), json!("y".repeat(MAX_ANSWERS)))]);
        let round = pending.begin("r", Some(long), None).unwrap();
        ask(&round, "one").await;
        assert!(pending.end("r".to_owned(), &round).is_err());
    }
}
