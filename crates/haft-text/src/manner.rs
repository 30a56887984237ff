//! How the text that a model writes is taken.

/// How the text that a model writes is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// What is made of a text that is not found.
    pub leniency: Leniency,
    /// What is made of a line that stands for code left out.
    pub placeholders: Placeholders,
}

impl From<Leniency> for EditOptions {
    fn from(leniency: Leniency) -> Self {
        Self { leniency, ..Self::default() }
    }
}

/// What is made of a text that is not found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leniency {
    /// A mismatch.
    Exact,
    /// It is taken for the one place that differs in nothing but white space at the ends of lines,
    /// look-alike punctuation, or copied line numbers.
    #[default]
    Lenient,
}

/// What is made of a line such as "the rest stays as it is" in new text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placeholders {
    /// It is refused.
    #[default]
    Refuse,
    /// It is text like any other.
    Keep,
}
