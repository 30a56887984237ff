//! YAML, of one document or several. A template that becomes YAML later is none yet, and is left alone.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Checker, Problem, worded};

/// What the parser says of collections that brackets hold, and which these are.
const OPENERS: &[(&str, char)] =
    &[("while parsing a flow sequence at line ", '['), ("while parsing a flow mapping at line ", '{')];

/// YAML.
pub(super) struct Yaml;

impl Checker for Yaml {
    fn name(&self) -> &'static str {
        "yaml"
    }

    fn can_leave_out_parts(&self) -> bool {
        true
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        for document in serde_yaml_ng::Deserializer::from_str(text) {
            let Err(error) = IgnoredAny::deserialize(document) else { continue };
            let whole = error.to_string();
            if templated(text) || whole.contains("recursion limit") || whole.contains("repetition limit") {
                return None;
            }
            let place = error.location()?;
            let message = worded(whole.split(" at line ").next().unwrap_or(&whole));
            let opened = OPENERS.iter().find_map(|(collection, opener)| {
                let (line, column) = whole.rsplit_once(collection)?.1.split_once(" column ")?;
                Some((line.parse().ok()?, column.parse().ok()?, format!("unclosed `{opener}`")))
            });
            // Where a bracket is not closed, the parser stops on a line that has nothing to do with it.
            let (line, column, message) = opened.filter(|(line, ..)| *line < place.line()).unwrap_or((
                place.line(),
                place.column().max(1),
                message,
            ));
            return Some(vec![Problem { line, column, message }]);
        }
        Some(Vec::new())
    }
}

/// Whether something stands outside of quotes that a template engine will replace.
pub(super) fn templated(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        ["{%", "<%", "{{%", "{#"].iter().any(|mark| line.contains(mark))
            || line.match_indices("{{").any(|(at, _)| !line[..at].ends_with(['$', '"', '\'']))
    })
}
