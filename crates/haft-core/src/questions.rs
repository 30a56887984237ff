//! Questions of tools to a person, such as which of several options to take. A [`Respondent`] answers them; tools ask by
//! [`Context::ask_user`]. Approval of calls is another matter: see [`permissions`](crate::permissions). Knows nothing of
//! how a person is reached.

use std::sync::Arc;

use crate::crash::catch_panic_async;
use crate::events::{EventKind, EventPayload};
use crate::{BoxFuture, Context, Fault, FaultKind};

/// Questions that are asked together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuestionSet {
    /// The id of the call that asks.
    pub call: Arc<str>,
    /// The id of the session.
    pub session: Arc<str>,
    /// The questions.
    pub questions: Vec<UserQuestion>,
}

impl QuestionSet {
    /// Questions of a call in a session.
    pub fn new(
        call: impl Into<Arc<str>>,
        session: impl Into<Arc<str>>,
        questions: Vec<UserQuestion>,
    ) -> Self {
        Self { call: call.into(), session: session.into(), questions }
    }
}

/// A question with the answers to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserQuestion {
    /// The topic, in a word or two.
    pub header: String,
    /// The question.
    pub text: String,
    /// The answers to choose from. A person can always write another one.
    pub options: Vec<AnswerOption>,
    /// Whether a person can choose several of them.
    pub choosing: Selection,
}

/// An answer that a person can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerOption {
    /// The answer, in a few words.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// How many answers can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Exactly one.
    One,
    /// Any number.
    Several,
}

/// The answer to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The indices of the chosen options, counted from 0.
    pub chosen: Vec<usize>,
    /// Another answer, as text.
    pub other: Option<String>,
}

impl Answer {
    /// Chooses one of the options.
    pub fn option(index: usize) -> Self {
        Self { chosen: vec![index], other: None }
    }

    /// Gives an answer that is not among the options.
    pub fn other(text: impl Into<String>) -> Self {
        Self { chosen: Vec::new(), other: Some(text.into()) }
    }

    /// Whether the answer is a valid one for a question.
    fn fits(&self, question: &UserQuestion) -> bool {
        let count = self.chosen.len() + usize::from(self.other.is_some());
        let within = self.chosen.iter().all(|index| *index < question.options.len());
        let once = self.chosen.iter().enumerate().all(|(at, index)| !self.chosen[..at].contains(index));
        within && once && (question.choosing == Selection::Several || count == 1)
    }
}

/// Answers the questions of tools, usually by asking a person.
///
/// ```
/// use haft_core::questions::{Answer, QuestionSet, Respondent};
/// use haft_core::{BoxFuture, Engine, Fault};
///
/// /// Always chooses the first option.
/// struct First;
///
/// impl Respondent for First {
///     fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, Fault>> {
///         let answers = set.questions.iter().map(|_| Answer::option(0)).collect();
///         Box::pin(std::future::ready(Ok(answers)))
///     }
/// }
///
/// let engine = Engine::builder().respondent(First).build();
/// # drop(engine);
/// ```
pub trait Respondent: Send + Sync {
    /// Asks, and waits for the answers: one for each question, in order. The engine drops the future when the call is
    /// cancelled or the answer takes too long.
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, Fault>>;

    /// Whether a person can be reached for a call. If not, the engine asks its own respondent instead of the session's.
    fn is_there(&self, _call: &str) -> bool {
        true
    }

    /// Whether a person can be reached at all. If not, tools that ask questions are not offered.
    fn is_reachable(&self) -> bool {
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

    fn is_reachable(&self) -> bool {
        (**self).is_reachable()
    }
}

impl Context {
    /// Asks the session's respondent, or the engine's, and waits for the answers until the engine's timeout.
    pub async fn ask_user(&self, questions: Vec<UserQuestion>) -> Result<Vec<Answer>, Fault> {
        let engine = self.session().engine();
        let own = self.session().respondent().filter(|own| own.is_there(self.call()));
        let Some(respondent) = own.or(engine.respondent()).cloned() else {
            return Err(unanswered("there is nobody who can be asked".to_owned()));
        };
        let set = QuestionSet::new(self.call().clone(), self.session().id().clone(), questions.clone());
        let first = questions.first().map(|question| question.text.clone()).unwrap_or_default();
        self.emit(EventKind::Asked, || EventPayload::Asked { reason: first });
        let asking = catch_panic_async(async { respondent.answer(set).await });
        let asking = async {
            asking.await.unwrap_or_else(|panic| Err(Fault::failed(format!("asking crashed: {panic}"))))
        };
        let asking = self.waiting_for_person(asking);
        let answers = match engine.answer_timeout() {
            None => asking.await,
            Some(timeout) => match tokio::time::timeout(timeout, asking).await {
                Ok(answers) => answers,
                Err(_) => Err(format!("there was no answer within {} s", timeout.as_secs()).into()),
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
