//! The operation that asks the user questions with answers to choose from. Knows nothing of how the questions reach the
//! user: the engine passes them to the host's respondent.

use haft_core::questions::{Answer, UserQuestion};
use haft_core::{Claims, Context, Fault, Operation, Preview, Resource};

/// Asks the user one or more questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquire {
    /// The questions.
    pub questions: Vec<UserQuestion>,
}

impl Operation for Inquire {
    type Output = Vec<Answer>;

    /// Calls with questions run one after the other, because one person answers them.
    fn claims(&self) -> Claims {
        Claims::none().write(Resource::State("questions".into()))
    }

    /// Rejects duplicates: replies identify an answer by the question's text and the label.
    async fn check(&mut self, _cx: &Context) -> Result<Option<Preview>, Fault> {
        let texts = self.questions.iter().map(|question| question.text.as_str());
        if let Some(text) = duplicate(texts) {
            return Err(Fault::invalid(format!("`{text}` is asked twice")).hint("ask each question once"));
        }
        for question in &self.questions {
            if let Some(label) = duplicate(question.options.iter().map(|option| option.label.as_str())) {
                let message = format!("`{}` offers `{label}` twice", question.text);
                return Err(Fault::invalid(message).hint("give each answer a label of its own"));
            }
        }
        Ok(None)
    }

    async fn run(self, cx: &Context) -> Result<Vec<Answer>, Fault> {
        cx.ask_user(self.questions).await
    }
}

/// The first text that occurs twice, apart from spaces around it.
fn duplicate<'a>(texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = Vec::new();
    for text in texts.map(str::trim) {
        if seen.contains(&text) {
            return Some(text);
        }
        seen.push(text);
    }
    None
}
