//! What the engine can do, in its own words.

mod change;
mod code;
mod forget;
mod git;
mod inquire;
mod list;
mod patch;
mod place;
mod planning;
mod project;
mod read;
mod remove;
mod rename;
mod search;
mod shell;
mod todos;
mod undo;

use haft::journal::JournalError;
use haft::{AbsPath, Context, Fault};
use haft_sandbox::{ChangeError, ChangeErrorKind};

pub use crate::text::notebook::{CellEdit, CellKind, CellMode};
pub use crate::text::{Diff, Leniency, LineContent, LineEdit, Manner, Occurrences, Placeholders, Replace};
pub use change::{Asked, Change, Changed, Existing, Fate, Knowledge, Parents, Same, Terms, To};
pub use code::{Code, CodeRan, Language, Limit, MAX_CODE_BYTES};
pub use forget::{Forget, ForgottenCall};
pub use git::{
    Between, Branch, BranchAction, Commit, FileCount, Force, GitAdd, GitBranch, GitCommit, GitDiff,
    GitDiffed, GitLog, GitShow, GitStatus, Repository, Revision, Standing, StatusEntry,
};
pub use inquire::Inquire;
pub use list::{Depth, List, Listed, Listing, Order, ignore_set};
pub use patch::{Patch, PatchFate, Patched, PatchedFile};
pub use place::{Entry, changeable, existing, existing_all, existing_folder, writable};
pub use planning::{EnterPlan, Entered, Granted, LeavePlan, Left, Plan, PlanPlace, Wish};
pub use project::{
    Counts, Format, Formatted, Formatting, Install, Installed, Kept, Manager, Problem, Project, ProjectKind,
    Severity, Verified, Verify, Work,
};
pub use read::{
    Body, Caps, Encoding, FileRead, Lines, Paged, Pages, Part, Piece, Read, Reading, Sheet, TokenBudget, only,
};
pub use remove::{Remove, Removed};
pub use rename::{Rename, Renamed, Replacing};
pub use search::{
    Beginning, Bounds, Case, FileFound, Filter, Found, Glob, Globbed, Globs, Grep, Hidden, Hit, Ignored,
    Line, Miss, Page, Pattern, Replaced, Searching, Sorting, Span, Stopped, Substitution, Sweep, Swept,
    Syntax, Unreadable, What,
};
pub use shell::{
    Blocked, Caging, Command, Foreseen, Held, Kill, Look, Looked, May, Moved, Outcome, Printed, Profile,
    Program, Ran, Shell, Surroundings, TaskListed, TaskState, Tasks, find_program, in_words,
};
pub use todos::{ChangeTodos, MAX_TODOS, NewTodo, Todo, TodoStatus, Todos, TodosNow};
pub use undo::{Chosen, Clash, Direction, Undo, Undone, Which, difference};

use crate::check::Checkers;

/// Files up to this size are read where the call runs, and remembered whole; larger ones are read on a
/// thread that may block.
const SMALL: u64 = 256 * 1024;
/// Larger files are not changed.
const MAX_CHANGED: u64 = 1 << 30;
/// A file that was read in part is hashed up to this size.
const MAX_HASHED: u64 = 256 << 20;
/// The syntax of larger files is not checked.
const MAX_CHECKED: u64 = 1 << 20;

/// How files are changed: what a session can set.
#[derive(Clone, Default)]
pub struct Editing {
    /// How the text that a model writes is taken.
    pub manner: Manner,
    /// What looks at the syntax of changed files.
    pub checkers: Checkers,
}

/// A failure to look at what is to be moved or removed, told by the path that was asked for.
fn unseen(mut error: ChangeError, named: &str) -> Fault {
    let denied = matches!(error.kind, ChangeErrorKind::Denied(_));
    error.path = named.to_owned();
    let fault = Fault::from(error);
    match denied {
        true => fault.hint("the journal must read it to be able to bring it back; make it readable first"),
        false => fault,
    }
}

/// A failure of the journal, told by the path that was asked for.
fn named(error: JournalError, path: &AbsPath, named: &str, cx: &Context) -> Fault {
    match error {
        JournalError::Change(mut error) => {
            if error.path == cx.workspace().display(path) {
                error.path = named.to_owned();
            }
            error.into()
        }
        error => error.into(),
    }
}
