//! `AskUserQuestion`: asks the user what to do.

use haft_core::questions::{Answer, AnswerOption, Selection, UserQuestion};
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use haft_ops::Inquire;

/// Asks the user.
pub(crate) struct AskUserQuestion;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The questions, 1 to 4
    #[schemars(length(min = 1, max = 4))]
    questions: Vec<QuestionInput>,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct QuestionInput {
    /// The whole question
    #[schemars(example = &"Which library should read the dates?", length(min = 1))]
    question: String,
    /// What it is about, in at most 12 characters
    #[schemars(example = &"Library", length(min = 1, max = 12))]
    header: String,
    /// The answers to choose from, 2 to 4; the user can always give another one
    #[schemars(length(min = 2, max = 4))]
    #[schemars(example = [
        Choice::new("chrono", "It is in use elsewhere in the project"),
        Choice::new("jiff", "It knows time zones better"),
    ])]
    options: Vec<Choice>,
    /// Whether several answers can be chosen
    #[serde(default)]
    multi_select: bool,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Choice {
    /// The answer, in one to five words
    #[schemars(length(min = 1))]
    label: String,
    /// What it means or leads to
    description: String,
}

impl Choice {
    fn new(label: &str, description: &str) -> Self {
        Self { label: label.to_owned(), description: description.to_owned() }
    }
}

impl Tool for AskUserQuestion {
    const NAME: &'static str = "AskUserQuestion";
    const DESCRIPTION: &'static str = include_str!("ask_user_question.md");
    type Input = Input;
    type Op = Inquire;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Planning).sensitivity(Sensitivity::Safe).in_plan().asks_user()
    }

    fn lower(input: &Input, _cx: &Context) -> Result<Inquire, Fault> {
        let option = |choice: &Choice| AnswerOption {
            label: choice.label.clone(),
            description: choice.description.clone(),
        };
        let question = |question: &QuestionInput| UserQuestion {
            header: question.header.clone(),
            text: question.question.clone(),
            options: question.options.iter().map(option).collect(),
            choosing: if question.multi_select { Selection::Several } else { Selection::One },
        };
        Ok(Inquire { questions: input.questions.iter().map(question).collect() })
    }

    fn render(input: &Input, answers: Vec<Answer>, _cx: &Context) -> Result<Reply, Fault> {
        let mut text = "the user answered:".to_owned();
        let mut by_question = Map::new();
        for (question, answer) in input.questions.iter().zip(answers) {
            let answer = answer_text(question, &answer);
            text.push_str(&format!("\n\"{}\": {answer}", question.question));
            by_question.insert(question.question.clone(), Value::String(answer));
        }
        Ok(Reply::text(text).structured(json!({"questions": input.questions, "answers": by_question})))
    }

    fn preview_use(input: &Input) -> Option<String> {
        input.questions.first().map(|question| question.question.clone())
    }
}

/// The chosen labels and the user's own words.
fn answer_text(question: &QuestionInput, answer: &Answer) -> String {
    let labels = answer.chosen.iter().filter_map(|index| question.options.get(*index));
    let parts: Vec<&str> =
        labels.map(|choice| choice.label.as_str()).chain(answer.other.as_deref()).collect();
    if parts.is_empty() { "none of them".to_owned() } else { parts.join(", ") }
}
