//! haft: one engine for a model's tool calls.
#![doc = include_str!("../README.md")]

mod activity;
mod audit;
mod blocking;
mod call;
mod claim;
mod context;
mod crash;
mod decode;
mod dialect;
mod engine;
mod fault;
mod function;
mod hooks;
pub mod image;
mod invisible;
pub mod journal;
pub mod json;
mod lasting;
mod limits;
mod operation;
mod permissions;
mod planning;
mod preview;
mod questions;
mod registry;
mod render;
mod reply;
mod schedule;
mod seen;
mod session;
mod spec;
mod stats;
pub mod suggest;
pub mod tokens;
mod tool;
mod turn;

pub use activity::{Activity, Event, EventKind, Progress, Subscription, What};
pub use audit::{Audit, AuditLine, Chain, Decided, Ruled};
pub use blocking::blocking;
pub use call::{Call, Input, Uncallable};
pub use claim::{Access, Claims, CommandLine, Resource};
pub use context::{Context, Effect, Now};
pub use decode::{check_schema, takes_string};
pub use dialect::{Dialect, Failed, Outside, Plain, fault_parts, text_fault, text_notes};
pub use engine::{Engine, EngineBuilder};
pub use fault::{Fault, FaultKind};
pub use function::{AsyncBody, Function, blocking_function, function};
pub use haft_sandbox::{AbsPath, Durability, Hash, Stamp, Store, Workspace};
pub use hooks::{
    CommandHook, DEFAULT_HOOK_TIMEOUT, Hook, HookAnswer, HookDecision, HookEvent, HookInput, ToolPattern,
};
pub use invisible::is_invisible;
pub use lasting::{Lasting, LastingValues};
pub use limits::{Cut, CutField, Keeping, Kept, Lost, Swept, cut_json, cut_text};
pub use operation::{Operation, Preview};
pub use permissions::{
    Approval, ApprovalRequest, Approver, Choice, Considered, Decision, Judge, Mode, NoApprover, Question,
    Rule, Scope, Scripted, Sensitivity, Verdict, WouldBe, delicate, is_delicate,
};
pub use planning::{Awaited, PlanAnswer, PlanApprover, PlanRequest, SavedPlanning};
pub use preview::result as preview_result;
pub use questions::{Answer, AnswerOption, Choosing, Inquiry, QuestionSet, Respondent};
pub use registry::{Format, Registry};
pub use reply::{Audience, Block, Body, Content, IntoReply, Reply};
pub use schedule::Policy;
pub use seen::{SavedSeen, Seen, Standing};
pub use session::{PastCall, SavedSession, Session, SessionBuilder, WeakSession};
pub use spec::{DEFAULT_MAX_RESULT, Spec};
pub use stats::{Outcome, Stats, ToolStats};
pub use tool::{BoxFuture, DynTool, Prepared, Tool, Typed};
pub use turn::{CallHandle, Turn};
