//! Heuristic for prompts: whether a silent command waits for an answer. A command's input is closed, but some programs read
//! from the terminal or retry for ever. Knows nothing of processes.

use std::time::Duration;

/// Time of silence after which a prompt counts as unanswered.
pub(super) const QUIET: Duration = Duration::from_secs(5);
/// Longest prompt in bytes.
const MAX_PROMPT: usize = 300;

/// Texts that only prompts contain, in lower case.
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
/// Texts with which prompts end, in lower case.
const ENDS: [&str; 9] =
    ["password:", "passphrase:", "username:", "login:", "password for", "passcode:", "otp:", ">>>", "(pdb)"];

/// The prompt at the end of the output, if there is one.
pub(super) fn prompt_in(printed: &[u8]) -> Option<String> {
    let end = &printed[printed.len().saturating_sub(MAX_PROMPT + 1)..];
    let line = end.rsplit(|byte| *byte == b'\n').next()?;
    if line.is_empty() || line.len() > MAX_PROMPT {
        return None;
    }
    let line = super::printed::without_controls(&String::from_utf8_lossy(line));
    let line = line.trim();
    let lower = line.to_lowercase();
    let is_prompt =
        CONTAINED.iter().any(|part| lower.contains(part)) || ENDS.iter().any(|end| lower.ends_with(end));
    is_prompt.then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::prompt_in;

    #[test]
    fn distinguishes_prompts_from_progress() {
        for text in [
            "Remove? [Y/n] ",
            "a\nPassword: ",
            "Do you want to go on (yes/no)? ",
            ">>> ",
            "x\r\x1b[1mProceed?\x1b[0m ",
        ] {
            assert!(prompt_in(text.as_bytes()).is_some(), "{text}");
        }
        for text in ["", "done\n", "Continue? [y/n]\n", "compiling 10%", "Downloading: ", "50 of 100 files:"]
        {
            assert!(prompt_in(text.as_bytes()).is_none(), "{text}");
        }
        assert!(prompt_in("long ".repeat(1000).as_bytes()).is_none());
    }
}
