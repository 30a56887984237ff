//! Tools' questions to the client's user, as one form: per question a field for the choices, and one for free text.

use haft_core::questions::{Answer, QuestionSet, Respondent, Selection, UserQuestion};
use haft_core::{BoxFuture, Fault};
use serde_json::{Map, Value, json};

use haft_core::visible;

use super::approve::{ClientUser, hash};
use super::caller::FormAnswer;

impl Respondent for ClientUser {
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, Fault>> {
        Box::pin(async move {
            let caller = self.caller(&set.call).ok_or("the client has gone")?;
            let message = match set.questions.as_slice() {
                [only] => visible(&only.text),
                _ => "Please answer these questions.".to_owned(),
            };
            let form = form(&set.questions);
            let name = format!("questions-{}", hash(&form.to_string()));
            let answer = caller.elicit(&name, message, form).await;
            match answer? {
                FormAnswer::Accepted(content) => Ok(answers(&set.questions, &content)),
                FormAnswer::Declined | FormAnswer::Dismissed => {
                    Err(Fault::failed("the user does not want to answer"))
                }
            }
        })
    }

    fn is_there(&self, call: &str) -> bool {
        self.caller(call).is_some()
    }

    fn is_reachable(&self) -> bool {
        self.is_reachable()
    }
}

fn form(questions: &[UserQuestion]) -> Value {
    let mut fields = Map::new();
    for (index, question) in questions.iter().enumerate() {
        let choices: Vec<Value> = question
            .options
            .iter()
            .map(|option| {
                let meaning = if option.description.is_empty() { "" } else { ": " };
                let title = format!("{}{meaning}{}", visible(&option.label), visible(&option.description));
                json!({"const": option.label, "title": title})
            })
            .collect();
        let (title, text) = (visible(&question.header), visible(&question.text));
        if !choices.is_empty() {
            let field = match question.choosing {
                Selection::One => {
                    json!({"type": "string", "title": title, "description": text, "oneOf": choices})
                }
                Selection::Several => {
                    json!({"type": "array", "title": title, "description": text, "items": {"anyOf": choices}})
                }
            };
            fields.insert(format!("answer_{}", index + 1), field);
        }
        let title = format!("{title}, in other words");
        let other = json!({"type": "string", "title": title, "description": text});
        fields.insert(format!("other_{}", index + 1), other);
    }
    json!({"type": "object", "properties": fields})
}

/// Reads the form. Free text overrides the choice of a question with one answer.
fn answers(questions: &[UserQuestion], content: &Value) -> Vec<Answer> {
    let answer = |(index, question): (usize, &UserQuestion)| {
        let choice = content.get(format!("answer_{}", index + 1));
        let labels: Vec<&str> = match choice {
            Some(Value::Array(labels)) => labels.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(label)) => vec![label],
            _ => Vec::new(),
        };
        let position = |label: &&str| question.options.iter().position(|option| option.label == **label);
        let mut chosen: Vec<usize> = labels.iter().filter_map(position).collect();
        let other = content.get(format!("other_{}", index + 1)).and_then(Value::as_str);
        let other = other.filter(|text| !text.trim().is_empty()).map(str::to_owned);
        if other.is_some() && question.choosing == Selection::One {
            chosen.clear();
        }
        Answer { chosen, other }
    };
    questions.iter().enumerate().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use haft_core::questions::AnswerOption;

    use super::*;

    fn inquiry(choosing: Selection) -> UserQuestion {
        let option = |label: &str| AnswerOption { label: label.to_owned(), description: "it".to_owned() };
        let options = vec![option("a"), option("b")];
        UserQuestion { header: "H".to_owned(), text: "which?".to_owned(), options, choosing }
    }

    #[test]
    fn a_form_has_fields_for_choices_and_free_text() {
        let form = form(&[inquiry(Selection::One), inquiry(Selection::Several)]);
        assert_eq!(form["properties"]["answer_1"]["oneOf"][1], json!({"const": "b", "title": "b: it"}));
        assert_eq!(form["properties"]["answer_2"]["items"]["anyOf"][0]["const"], "a");
        assert_eq!(form["properties"]["other_2"]["type"], "string");
    }

    #[test]
    fn a_filled_form_becomes_answers() {
        let questions = [inquiry(Selection::One), inquiry(Selection::Several), inquiry(Selection::One)];
        let content = json!({"answer_1": "b", "answer_2": ["b", "a"], "answer_3": "a", "other_3": "c"});
        let expected = [Answer::option(1), Answer { chosen: vec![1, 0], other: None }, Answer::other("c")];
        assert_eq!(answers(&questions, &content), expected);
    }
}
