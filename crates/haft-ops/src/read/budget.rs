//! The token budget of a read call. The estimate is a heuristic: it tokenizes a sample of each text and scales the result
//! to the whole length. Knows nothing of files: it sees only what was read of them.

use haft_core::{Context, Fault, FaultKind};

use crate::tokens;

use super::{Body, FileRead, TokenBudget};

/// Bytes of a text to tokenize for an estimate of its tokens per byte.
const TOKEN_SAMPLE: usize = 10 * 1024;

/// Running total of the tokens of the files read so far.
pub(super) struct TokenTally {
    budget: TokenBudget,
    tokens: usize,
    files: Vec<String>,
}

impl TokenTally {
    pub(super) fn new(budget: TokenBudget) -> Self {
        Self { budget, tokens: 0, files: Vec::new() }
    }

    /// Adds a file. Fails once the total exceeds the budget.
    pub(super) fn add(&mut self, file: &FileRead, cx: &Context) -> Result<(), Fault> {
        let Body::Lines(lines) = &file.body else { return Ok(()) };
        let text = &lines.text;
        let numbers = lines.count as usize * self.budget.per_line;
        // A token is at least one byte, so a text this short fits whatever it says. A third of its bytes is the usual
        // share, good enough for the sum.
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
