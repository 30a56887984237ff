//! Questions to people that are no questions of permission: what to do, of several things that could be done. Knows
//! nothing of how a person is reached, nor of what becomes of the answers.

use std::sync::Arc;

use crate::crash::caught;
use crate::events::{EventKind, EventPayload};
use crate::{BoxFuture, Context, Fault, FaultKind};

/// What somebody is asked at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuestionSet {
    /// The call.
    pub call: Arc<str>,
    /// The session. One that works for another has a name of its own.
    pub session: Arc<str>,
    /// The questions.
    pub questions: Vec<Inquiry>,
}

impl QuestionSet {
    /// Questions of a call in a session.
    pub fn new(call: impl Into<Arc<str>>, session: impl Into<Arc<str>>, questions: Vec<Inquiry>) -> Self {
        Self { call: call.into(), session: session.into(), questions }
    }
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// What it is about, in a word or two.
    pub header: String,
    /// The question.
    pub text: String,
    /// The answers that are offered. Another one can always be given in words.
    pub options: Vec<AnswerOption>,
    /// How many of them can be chosen.
    pub choosing: Choosing,
}

/// An answer that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerOption {
    /// In a few words.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// How many answers can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choosing {
    /// One.
    One,
    /// Any number of them.
    Several,
}

/// The answer to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What was chosen of what was offered, counted from 0.
    pub chosen: Vec<usize>,
    /// Another answer, in words.
    pub other: Option<String>,
}

impl Answer {
    /// One of the answers that were offered.
    pub fn option(index: usize) -> Self {
        Self { chosen: vec![index], other: None }
    }

    /// Another answer.
    pub fn other(text: impl Into<String>) -> Self {
        Self { chosen: Vec::new(), other: Some(text.into()) }
    }

    /// Whether it answers a question.
    fn fits(&self, question: &Inquiry) -> bool {
        let count = self.chosen.len() + usize::from(self.other.is_some());
        let within = self.chosen.iter().all(|index| *index < question.options.len());
        let once = self.chosen.iter().enumerate().all(|(at, index)| !self.chosen[..at].contains(index));
        within && once && (question.choosing == Choosing::Several || count == 1)
    }
}

/// Somebody who can be asked questions.
pub trait Respondent: Send + Sync {
    /// Asks, and waits for the answers for as long as it takes: one for each question, in order. When nobody wants to
    /// know any more, the future is dropped.
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, Fault>>;

    /// Whether there is anybody who can be asked by a call. If not, a session's questions go to the engine's respondent.
    fn is_there(&self, _call: &str) -> bool {
        true
    }
}

impl<T: Respondent + ?Sized> Respondent for Arc<T> {
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, Fault>> {
        (**self).answer(set)
    }

    fn is_there(&self, call: &str) -> bool {
        (**self).is_there(call)
    }
}

impl Context {
    /// Asks whoever can be asked, and waits for the answers, as long as answers are waited for.
    pub async fn inquire(&self, questions: Vec<Inquiry>) -> Result<Vec<Answer>, Fault> {
        let engine = self.session().engine();
        let own = self.session().respondent().filter(|own| own.is_there(self.call()));
        let Some(respondent) = own.or(engine.respondent()).cloned() else {
            return Err(unanswered("there is nobody who can be asked".to_owned()));
        };
        let set = QuestionSet::new(self.call().clone(), self.session().id().clone(), questions.clone());
        let first = questions.first().map(|question| question.text.clone()).unwrap_or_default();
        self.emit(EventKind::Asked, || EventPayload::Asked { reason: first });
        let asking = caught(async { respondent.answer(set).await });
        let asking = async {
            asking.await.unwrap_or_else(|panic| Err(Fault::failed(format!("asking crashed: {panic}"))))
        };
        let answers = match engine.patience() {
            None => asking.await,
            Some(patience) => match tokio::time::timeout(patience, asking).await {
                Ok(answers) => answers,
                Err(_) => Err(format!("there was no answer within {} s", patience.as_secs()).into()),
            },
        };
        let answer = if answers.is_ok() { "answered" } else { "no answer" };
        self.emit(EventKind::Answered, || EventPayload::Answered { answer: answer.to_owned() });
        let answers = answers.map_err(|fault| unanswered(fault.message().to_owned()))?;
        let fit = answers.len() == questions.len()
            && answers.iter().zip(&questions).all(|(answer, question)| answer.fits(question));
        match fit {
            true => Ok(answers),
            false => Err(unanswered("the answers do not fit the questions".to_owned())),
        }
    }
}

fn unanswered(why: String) -> Fault {
    Fault::new(FaultKind::Failed, why)
        .hint("go on with the choice that seems best, and say in your answer what you have assumed")
}
