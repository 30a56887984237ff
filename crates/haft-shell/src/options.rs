//! Options as GNU programs read them, from the side of whoever has to find one: `-o x`, `-ox`, `-abo x`, `--output x`,
//! `--output=x`, `--out=x`. `--` ends nothing here, since it may be another option's value.

/// Options that make a harmless program write or run something.
pub(super) struct Options {
    /// Single letters.
    pub(super) short: &'static str,
    /// Letters with a value, behind which nothing in the same word is an option.
    pub(super) valued: &'static str,
    /// Long ones. Any beginning of one counts.
    pub(super) long: &'static [&'static str],
}

impl Options {
    /// The first word that is one of these options, or could be.
    pub(super) fn find<'a>(&self, mut args: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        args.find(|arg| self.contains(arg))
    }

    fn contains(&self, arg: &str) -> bool {
        if arg.starts_with("--") {
            let name = arg.split('=').next().unwrap_or(arg);
            return name.len() > 2 && self.long.iter().any(|long| long.starts_with(name));
        }
        let Some(letters) = arg.strip_prefix('-') else { return false };
        let letters = letters.chars().take_while(|c| !self.valued.contains(*c));
        letters.into_iter().any(|c| self.short.contains(c))
    }
}

/// Whether anything stands behind the first word that is not an option. Some programs take no options there any
/// more, and what looks like one is the name of a file.
pub(super) fn goes_on_behind_operand<'a>(args: impl Iterator<Item = &'a str>) -> bool {
    let mut args = args.skip_while(|arg| *arg != "--" && *arg != "-" && arg.starts_with('-'));
    if args.next() == Some("--") {
        args.next();
    }
    args.next().is_some()
}
