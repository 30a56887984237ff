//! Exit status of a command in words, for replies.

use haft_sandbox::Exit;

/// Exit status in words; `None` after exit code 0.
pub fn in_words(exit: Exit) -> Option<String> {
    Some(match exit {
        Exit::Code(0) => return None,
        Exit::Code(code @ 126) => format!("exit code {code}: it was found but cannot be executed"),
        Exit::Code(code @ 127) => format!("exit code {code}: a program was not found"),
        Exit::Code(code @ 129..=192) => {
            format!("exit code {code}: a program was ended by {}", signal_name(code - 128))
        }
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("ended by {}", signal_name(signal)),
        Exit::TimedOut => "it was stopped at its time limit".to_owned(),
        Exit::Cancelled => "it was cancelled".to_owned(),
    })
}

/// A duration in seconds: `120 s`, `0.5 s`.
pub(super) fn seconds(duration: std::time::Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} s", (duration.as_secs_f64() * 1000.0).round() / 1000.0),
    }
}

/// Name of a signal, with the usual cause where it has one.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL (an illegal instruction)",
        6 => "SIGABRT (it aborted)",
        7 => "SIGBUS (a memory error)",
        8 => "SIGFPE (an arithmetic error)",
        9 => "SIGKILL (killed, perhaps for want of memory)",
        11 => "SIGSEGV (a memory error)",
        13 => "SIGPIPE (nobody reads its output)",
        15 => "SIGTERM",
        24 => "SIGXCPU (it used up its processor time)",
        25 => "SIGXFSZ (a file became too large)",
        31 => "SIGSYS (a forbidden system call)",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}
