//! Options for edits: how strictly text must match, and whether placeholders are refused.

/// Options for edits that a model asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// How closely the old text must match the file.
    pub leniency: Leniency,
    /// What happens to a line of new text that stands for omitted code.
    pub placeholders: Placeholders,
}

impl From<Leniency> for EditOptions {
    fn from(leniency: Leniency) -> Self {
        Self { leniency, ..Self::default() }
    }
}

/// How closely the old text of an edit must match the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leniency {
    /// Character by character, apart from line ends.
    Exact,
    /// If there is no exact match, the only place that differs just in white space at the start or end of lines,
    /// look-alike punctuation, or copied line numbers also matches.
    #[default]
    Lenient,
}

/// What happens to a placeholder in new text: a line such as "the rest stays as it is".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placeholders {
    /// Refuse the edit.
    #[default]
    Refuse,
    /// Treat it as ordinary text.
    Keep,
}
