//! What the engine can do, in its own words.

mod ask_user;
mod change;
#[cfg(feature = "commands")]
mod code;
mod forget;
#[cfg(feature = "git")]
mod git;
mod image;
mod list;
mod patch;
mod place;
mod planning;
#[cfg(feature = "project")]
mod project;
mod read;
mod remove;
mod rename;
mod search;
#[cfg(feature = "commands")]
mod shell;
mod todos;
mod tokens;
mod undo;

use haft_core::{AbsPath, Context, Fault, FaultKind};
use haft_journal::JournalError;
use haft_sandbox::{ChangeError, ChangeErrorKind};

pub use ask_user::Inquire;
pub use change::{Change, ChangeRequest, Changed, Existing, Fate, Knowledge, Parents, Same, Terms, To};
#[cfg(feature = "commands")]
pub use code::{Code, CodeRan, Language, Limit, MAX_CODE_BYTES};
pub use forget::{Forget, ForgottenCall};
#[cfg(feature = "git")]
pub use git::{
    Between, Branch, BranchAction, Commit, FileCount, Force, GitAdd, GitBranch, GitCommit, GitDiff,
    GitDiffed, GitLog, GitShow, GitStatus, Repository, Revision, StatusEntry, WorkingTree,
};
pub use haft_text::notebook::{CellEdit, CellKind, CellMode};
pub use haft_text::{Diff, EditOptions, Leniency, LineContent, LineEdit, Occurrences, Placeholders, Replace};
pub use image::{Fitted, ImageProblem, Images};
pub use list::{Depth, List, Listed, Listing, Order, ignore_set};
pub use patch::{Patch, PatchFate, Patched, PatchedFile};
pub use place::{Entry, changeable, existing, existing_all, existing_folder, writable};
pub use planning::{EnterPlan, Entered, Granted, LeavePlan, Left, Plan, PlanPlace, Wish};
#[cfg(feature = "project")]
pub use project::{
    Counts, DependencyKind, Format, Formatted, Formatting, Install, Installed, Manager, Problem, Project,
    ProjectKind, Severity, Verified, Verify, Work,
};
#[cfg(feature = "pdf")]
pub use read::PDF_WORKER;
pub use read::{
    Body, Caps, Encoding, FileRead, Lines, Paged, Pages, Part, Piece, Read, Reading, Sheet, TokenBudget, only,
};
pub use remove::{Remove, Removed};
pub use rename::{Rename, Renamed, Replacing};
pub use search::{
    Beginning, Bounds, Case, FileFound, Filter, Glob, Globbed, Globs, Grep, GrepResult, Hidden, Hit, Ignored,
    Line, LineMode, Miss, Page, Pattern, Replaced, Searching, Sorting, Span, Stopped, Substitution, Sweep,
    Swept, Syntax, Unreadable,
};
#[cfg(feature = "commands")]
pub use shell::{
    Blocked, Command, Foreseen, Kill, Look, Looked, May, Moved, Outcome, Printed, Profile, Program, Ran,
    ReadySandbox, SandboxOptions, Shell, Surroundings, TaskListed, TaskState, Tasks, find_program, in_words,
};
pub use todos::{ChangeTodos, MAX_TODOS, NewTodo, Todo, TodoStatus, Todos, TodosNow};
pub use undo::{Chosen, Clash, Direction, Undo, Undone, Which, difference};

use haft_text::check::Checkers;

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
    pub manner: EditOptions,
    /// What looks at the syntax of changed files.
    pub checkers: Checkers,
}

/// What this crate does in processes of its own in the sandbox, to be named to `haft_sandbox::sandbox::arm_with`.
pub const WORKERS: &[haft_sandbox::sandbox::Worker] = &[
    #[cfg(feature = "pdf")]
    PDF_WORKER,
];

/// Why no command can be run here.
#[cfg(feature = "commands")]
fn without_sandbox() -> Option<Fault> {
    (!haft_sandbox::sandbox::is_armed()).then(|| {
        Fault::new(
            FaultKind::Disabled,
            "commands cannot be run here: this program has not set up the sandbox",
        )
        .hint("call `haft::arm()` first in `main`, before any thread is started")
    })
}

/// Why no file can be changed here.
fn without_journal(cx: &Context) -> Option<Fault> {
    cx.session().journal().is_none().then(|| {
        Fault::new(FaultKind::Disabled, "this session keeps no journal, so no file can be changed")
            .hint("start the session with `.journal(…)`")
    })
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
