//! How many tokens a text is to a model, by a real tokenizer (`cl100k_base`) where the feature `tokens` is on, otherwise
//! estimated. Loading the tokenizer takes a moment, so it is loaded on first use and kept.

#[cfg(feature = "tokens")]
use std::sync::OnceLock;

#[cfg(feature = "tokens")]
use tiktoken_rs::CoreBPE;

/// Longer texts are counted by their first part.
const SAMPLE_BYTES: usize = 64 * 1024;

#[cfg(feature = "tokens")]
static TOKENIZER: OnceLock<Option<CoreBPE>> = OnceLock::new();

/// The tokens of a text: exact for up to 64 KiB, in proportion beyond.
pub(crate) fn count(text: &str) -> usize {
    let sample = &text[..text.floor_char_boundary(SAMPLE_BYTES)];
    let tokens = exact(sample);
    if sample.len() == text.len() {
        tokens
    } else {
        (tokens as u128 * text.len() as u128 / sample.len().max(1) as u128) as usize
    }
}

#[cfg(feature = "tokens")]
fn exact(text: &str) -> usize {
    match TOKENIZER.get_or_init(|| tiktoken_rs::cl100k_base().ok()) {
        Some(tokenizer) => tokenizer.encode_ordinary(text).len(),
        // The vocabulary is compiled in; if it could not be read, no text is shorter than it looks.
        None => text.len(),
    }
}

/// An estimate from above: most tokens of code and prose are longer.
#[cfg(not(feature = "tokens"))]
fn exact(text: &str) -> usize {
    text.len().div_ceil(3)
}
