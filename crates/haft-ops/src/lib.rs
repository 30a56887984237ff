//! The operations of haft: reading, changing and searching files, running commands, git, project tools, undo. Each
//! operation is a struct with resolved paths that says what it claims, checks itself and runs. No operation knows JSON,
//! a tool's name or a dialect, and all access to files and processes goes through `haft-sandbox`.

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
    GitDiffed, GitLog, GitPush, GitShow, GitStatus, PushPlan, PushStatus, Pushed, Repository, Revision,
    StatusEntry, WorkingTree,
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
    Body, Caps, DocumentKind, Encoding, FileRead, Lines, Paged, Pages, Part, Piece, Read, Reading, Sheet,
    TokenBudget, document_kind, only, show_document,
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
    Blocked, ChangeKind, Command, CommandChanges, EffectsCount, FileChange, Foreseen, KeptChanges, Kill,
    Look, Looked, May, Moved, Outcome, Printed, Profile, Program, Ran, ReadySandbox, SandboxOptions, Shell,
    Surroundings, TaskListed, TaskState, Tasks, TrialResult, TrialWish, find_program, in_words,
};
pub use todos::{ChangeTodos, MAX_TODOS, NewTodo, Todo, TodoStatus, Todos, TodosNow};
pub use undo::{Chosen, Clash, Direction, Undo, Undone, Which, difference};

use haft_text::check::Checkers;

/// Size in bytes up to which files are read on the async thread and remembered whole; larger ones are read on a blocking
/// thread.
const SMALL: u64 = 256 * 1024;
/// Maximum size in bytes of a file to change.
const MAX_CHANGED: u64 = 1 << 30;
/// Maximum size in bytes of a file that is hashed although only a part of it is read.
const MAX_HASHED: u64 = 256 << 20;
/// Maximum size in bytes of a file for a syntax check.
const MAX_CHECKED: u64 = 1 << 20;

/// Edit settings of a session.
#[derive(Clone, Default)]
pub struct Editing {
    /// How closely old text must match the file, and whether placeholders for omitted code are allowed.
    pub options: EditOptions,
    /// Syntax checkers for changed files.
    pub checkers: Checkers,
}

/// Workers of this crate that run in sandboxed processes of their own; pass them to `haft_sandbox::sandbox::arm_with`.
pub const WORKERS: &[haft_sandbox::sandbox::Worker] = &[
    #[cfg(feature = "pdf")]
    PDF_WORKER,
];

/// The fault for commands in a program that has not armed the sandbox; none if it has.
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

/// The fault for changes in a session without a journal; none if it has one.
fn without_journal(cx: &Context) -> Option<Fault> {
    cx.session().journal().is_none().then(|| {
        Fault::new(FaultKind::Disabled, "this session keeps no journal, so no file can be changed")
            .hint("start the session with `.journal(…)`")
    })
}

/// The fault for an entry that cannot be examined before it is moved or deleted, with the path as the caller gave it.
fn examine_fault(mut error: ChangeError, display_name: &str) -> Fault {
    let denied = matches!(error.kind, ChangeErrorKind::Denied(_));
    error.path = display_name.to_owned();
    let fault = Fault::from(error);
    match denied {
        true => fault.hint("the journal must read it to be able to bring it back; make it readable first"),
        false => fault,
    }
}

/// The fault for a failure of the journal, with the path as the caller gave it.
fn journal_fault(error: JournalError, path: &AbsPath, display_name: &str, cx: &Context) -> Fault {
    match error {
        JournalError::Change(mut error) => {
            if error.path == cx.workspace().display(path) {
                error.path = display_name.to_owned();
            }
            error.into()
        }
        error => error.into(),
    }
}
