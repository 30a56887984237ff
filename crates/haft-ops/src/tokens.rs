//! Counting the tokens of a text: with the tokenizer `cl100k_base` if the feature `tokens` is on, otherwise estimated.
//! Loading the tokenizer is slow, so it is loaded on first use and cached for the process.

#[cfg(feature = "tokens")]
use std::sync::OnceLock;

#[cfg(feature = "tokens")]
use tiktoken_rs::CoreBPE;

/// Bytes of a text that are tokenized; the count of a longer text is extrapolated.
const SAMPLE_BYTES: usize = 64 * 1024;

#[cfg(feature = "tokens")]
static TOKENIZER: OnceLock<Option<CoreBPE>> = OnceLock::new();

/// Number of tokens of a text: exact up to [`SAMPLE_BYTES`], extrapolated beyond.
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
        // The vocabulary is compiled in. Should it fail to load, one token per byte is an upper bound.
        None => text.len(),
    }
}

/// A conservative estimate of three bytes per token: most tokens of code and prose are longer.
#[cfg(not(feature = "tokens"))]
fn exact(text: &str) -> usize {
    text.len().div_ceil(3)
}
