//! How many tokens a text is to a model, by a real tokenizer (`cl100k_base`). Loading it takes a moment, so
//! it is loaded when somebody first asks and kept.

use std::sync::OnceLock;

use tiktoken_rs::CoreBPE;

/// Longer texts are counted by their first part.
const SAMPLE_BYTES: usize = 64 * 1024;

static TOKENIZER: OnceLock<Option<CoreBPE>> = OnceLock::new();

/// The tokens of a text: exact for up to 64 KiB, in proportion beyond.
pub fn count(text: &str) -> usize {
    let sample = &text[..text.floor_char_boundary(SAMPLE_BYTES)];
    let tokens = exact(sample);
    if sample.len() == text.len() {
        tokens
    } else {
        (tokens as u128 * text.len() as u128 / sample.len().max(1) as u128) as usize
    }
}

/// Whether a text is at most this many tokens. A token is at least one byte, so short texts need no count.
pub fn fits(text: &str, tokens: usize) -> bool {
    text.len() <= tokens || count(text) <= tokens
}

fn exact(text: &str) -> usize {
    match TOKENIZER.get_or_init(|| tiktoken_rs::cl100k_base().ok()) {
        Some(tokenizer) => tokenizer.encode_ordinary(text).len(),
        // The vocabulary is compiled in; if it could not be read, no text is shorter than it looks.
        None => text.len(),
    }
}
