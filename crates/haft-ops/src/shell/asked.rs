//! Whether a command that has gone quiet waits for an answer. Nobody answers it: its input is closed, but some
//! programs wait all the same.

use std::time::Duration;

/// How long a question has to stand.
pub(super) const QUIET: Duration = Duration::from_secs(5);
/// Questions are no longer than this.
const LONGEST: usize = 300;

/// What questions contain, or end with.
const CONTAINED: [&str; 12] = [
    "(y/n)",
    "[y/n]",
    "(yes/no",
    "[yes/no",
    "press any key",
    "press enter",
    "press return",
    "are you sure",
    "do you want to",
    "proceed?",
    "continue?",
    "overwrite?",
];
const ENDS: [&str; 9] =
    ["password:", "passphrase:", "username:", "login:", "password for", "passcode:", "otp:", ">>>", "(pdb)"];

/// The question that the output ends with, if it ends with one.
pub(super) fn question(printed: &[u8]) -> Option<String> {
    let end = &printed[printed.len().saturating_sub(LONGEST + 1)..];
    let line = end.rsplit(|byte| *byte == b'\n').next()?;
    if line.is_empty() || line.len() > LONGEST {
        return None;
    }
    let line = super::printed::harmless(&String::from_utf8_lossy(line));
    let line = line.trim();
    let small = line.to_lowercase();
    let asks =
        CONTAINED.iter().any(|part| small.contains(part)) || ENDS.iter().any(|end| small.ends_with(end));
    asks.then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::question;

    #[test]
    fn questions_are_told_from_progress() {
        for text in [
            "Remove? [Y/n] ",
            "a\nPassword: ",
            "Do you want to go on (yes/no)? ",
            ">>> ",
            "x\r\x1b[1mProceed?\x1b[0m ",
        ] {
            assert!(question(text.as_bytes()).is_some(), "{text}");
        }
        for text in ["", "done\n", "Continue? [y/n]\n", "compiling 10%", "Downloading: ", "50 of 100 files:"]
        {
            assert!(question(text.as_bytes()).is_none(), "{text}");
        }
        assert!(question("long ".repeat(1000).as_bytes()).is_none());
    }
}
