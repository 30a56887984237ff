//! Finds options in the forms that GNU programs accept: `-o x`, `-ox`, `-abo x`, `--output x`, `--output=x`, `--out=x`.
//! `--` does not end the search, since it may be another option's value.

/// Options that make a harmless program write or run something.
pub(super) struct Options {
    /// Single letters.
    pub(super) short: &'static str,
    /// Letters that take a value: the rest of the word behind one is no option.
    pub(super) valued: &'static str,
    /// Long options. Any prefix of one counts, as with `getopt_long`.
    pub(super) long: &'static [&'static str],
}

impl Options {
    /// The first argument that is, or could be, one of these options.
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

/// Whether any argument follows the first operand. Some programs accept no options there, and take an argument that
/// looks like one as a file name.
pub(super) fn has_args_after_operand<'a>(args: impl Iterator<Item = &'a str>) -> bool {
    let mut args = args.skip_while(|arg| *arg != "--" && *arg != "-" && arg.starts_with('-'));
    if args.next() == Some("--") {
        args.next();
    }
    args.next().is_some()
}
