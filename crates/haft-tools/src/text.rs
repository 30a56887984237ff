//! What several dialects write the same way.

mod lines;
mod times;

pub(crate) use lines::{Fidelity, Numbered, count_of, decode, number};
pub(crate) use times::{iso, seconds};
