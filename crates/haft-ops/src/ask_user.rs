//! Asking the user what to do. Who is asked, and how, is the engine's matter.

use haft_core::questions::{Answer, UserQuestion};
use haft_core::{Claims, Context, Fault, Operation, Preview, Resource};

/// Asks the user some questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquire {
    /// The questions.
    pub questions: Vec<UserQuestion>,
}

impl Operation for Inquire {
    type Output = Vec<Answer>;

    /// One question after the other: whoever answers is one person.
    fn claims(&self) -> Claims {
        Claims::none().write(Resource::State("questions".into()))
    }

    /// Answers are told by question and label, so each must mean one thing.
    async fn check(&mut self, _cx: &Context) -> Result<Option<Preview>, Fault> {
        let texts = self.questions.iter().map(|question| question.text.as_str());
        if let Some(text) = twice(texts) {
            return Err(Fault::invalid(format!("`{text}` is asked twice")).hint("ask each question once"));
        }
        for question in &self.questions {
            if let Some(label) = twice(question.options.iter().map(|option| option.label.as_str())) {
                let told = format!("`{}` offers `{label}` twice", question.text);
                return Err(Fault::invalid(told).hint("give each answer a label of its own"));
            }
        }
        Ok(None)
    }

    async fn run(self, cx: &Context) -> Result<Vec<Answer>, Fault> {
        cx.ask_user(self.questions).await
    }
}

fn twice<'a>(texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = Vec::new();
    for text in texts.map(str::trim) {
        if seen.contains(&text) {
            return Some(text);
        }
        seen.push(text);
    }
    None
}
