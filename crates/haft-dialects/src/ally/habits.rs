//! Suggestions for calls that another way would do better: several files in one `read`, and tools instead of commands.
//! Each is made once in a while only, since a model that knows better need not hear it again.

#[cfg(feature = "commands")]
use std::collections::HashSet;
use std::sync::Arc;

use haft_core::Context;
use parking_lot::Mutex;

/// So many files that are read one by one in a turn are a habit.
const SINGLE_READS: usize = 3;

/// Programs, and the tool that does the same for the model.
#[cfg(feature = "commands")]
const INSTEAD: [(&str, &str); 9] = [
    ("cat", "`read` shows files with line numbers, and several at once"),
    ("head", "`read` shows a part of a file with `limit`"),
    ("tail", "`read` shows a part of a file with `offset`"),
    ("ls", "`ls` lists directories"),
    ("find", "`glob` finds files"),
    ("grep", "`grep` searches files"),
    ("rg", "`grep` searches files"),
    ("sed", "`edit` and `line_edit` change files so that it can be undone"),
    ("awk", "`grep` searches files, and `read` shows parts of them"),
];

/// What the session has done so far that there are suggestions for.
#[derive(Default)]
pub(super) struct Habits(Mutex<State>);

#[derive(Default)]
struct State {
    turn: u64,
    /// The calls of the turn that read one file, each another one, in the order in which they came.
    single_reads: Vec<(Arc<str>, String)>,
    #[cfg(feature = "commands")]
    programs: HashSet<&'static str>,
}

/// Counts a read of one file. Calls come in the order of the message, whichever ends first.
pub(super) fn count_read(file: &str, cx: &Context) {
    let habits = cx.session().extension::<Habits>();
    let mut state = habits.0.lock();
    if state.turn != cx.turn() {
        (state.turn, state.single_reads) = (cx.turn(), Vec::new());
    }
    let is_known = state.single_reads.iter().any(|(_, known)| known == file);
    if state.single_reads.len() < SINGLE_READS && !is_known {
        state.single_reads.push((cx.call().clone(), file.to_owned()));
    }
}

/// The suggestion for a read, once in a turn.
pub(super) fn of_read(cx: &Context) -> Option<String> {
    let habits = cx.session().extension::<Habits>();
    let state = habits.0.lock();
    let last = state.single_reads.get(SINGLE_READS - 1);
    let is_habit = state.turn == cx.turn() && last.is_some_and(|(call, _)| call == cx.call());
    is_habit.then(|| "several files can be read in one call: name them all in `file_paths`".to_owned())
}

/// The suggestion for a command that a tool stands for, once in a session.
#[cfg(feature = "commands")]
pub(super) fn of_command(command: &str, cx: &Context) -> Option<String> {
    let parsed = haft_shell::parse(command);
    let [only] = parsed.commands() else { return None };
    let (program, instead) = INSTEAD.iter().find(|(program, _)| *program == only.name())?;
    let habits = cx.session().extension::<Habits>();
    let is_new = habits.0.lock().programs.insert(program);
    is_new.then(|| format!("there are tools for this: {instead}; the command `{program}` is not needed"))
}
