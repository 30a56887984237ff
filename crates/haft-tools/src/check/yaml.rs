//! YAML, of one document or several. A template that becomes YAML later is none yet, and is left alone.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Checker, Problem, worded};

/// YAML.
pub(super) struct Yaml;

impl Checker for Yaml {
    fn name(&self) -> &'static str {
        "yaml"
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        for document in serde_yaml_ng::Deserializer::from_str(text) {
            let Err(error) = IgnoredAny::deserialize(document) else { continue };
            let whole = error.to_string();
            if templated(text) || whole.contains("recursion limit") || whole.contains("repetition limit") {
                return None;
            }
            let place = error.location()?;
            let message = whole.split(" at line ").next().unwrap_or(&whole);
            let problem =
                Problem { line: place.line(), column: place.column().max(1), message: worded(message) };
            return Some(vec![problem]);
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
