//! What files cost as a model counts, so that no call returns more than it may. Counts a sample and
//! reckons the rest from it.

use haft_core::{Context, Fault, FaultKind};

use crate::tokens;

use super::{Body, FileRead, TokenBudget};

/// How much of a text is tokenized to tell how dense it is.
const TOKEN_SAMPLE: usize = 10 * 1024;

/// What the files read so far cost.
pub(super) struct Spent {
    budget: TokenBudget,
    tokens: usize,
    files: Vec<String>,
}

impl Spent {
    pub(super) fn new(budget: TokenBudget) -> Self {
        Self { budget, tokens: 0, files: Vec::new() }
    }

    /// Counts a file in. The first one that goes beyond the budget ends the reading.
    pub(super) fn add(&mut self, file: &FileRead, cx: &Context) -> Result<(), Fault> {
        let Body::Lines(lines) = &file.body else { return Ok(()) };
        let text = &lines.text;
        let numbers = lines.count as usize * self.budget.per_line;
        // Every token is at least a byte: a text this short fits without being counted.
        let tokens = if text.len() + numbers + self.tokens <= self.budget.max {
            text.len() / 3 + numbers
        } else {
            let sample = &text[..text.floor_char_boundary(TOKEN_SAMPLE)];
            let density = tokens::count(sample) as f64 / sample.len().max(1) as f64;
            (text.len() as f64 * density) as usize + numbers
        };
        self.tokens += tokens;
        self.files.push(format!("`{}` about {tokens}", cx.workspace().display(&file.path)));
        let max = self.budget.max;
        if self.tokens <= max {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::TooLarge,
            format!(
                "that is about {} tokens or more, and at most {max} can be read at once: {}",
                self.tokens,
                self.files.join(", ")
            ),
        )
        .hint("read fewer files at once, or a part of them with `limit` and `offset`")
        .with("estimated_tokens", self.tokens)
        .with("limit", max))
    }
}
