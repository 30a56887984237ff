//! Whether a call may happen. Judges speak first and a judge that fails denies; then the mode and the
//! tool's sensitivity; then, if it must be asked, the approver. Knows nothing of how a person is asked.

mod ask;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub(crate) use ask::{Answer, By, Settled, ask, request};
pub use ask::{ApprovalRequest, Approver, Choice, Decision, NoApprover, Scripted};
use haft_sandbox::{AbsPath, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crash::catch_panic;
use crate::{Access, Claims, Context, Fault, FaultKind, Resource, Spec};

/// How much harm a call can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sensitivity {
    /// Changes nothing: nobody is asked.
    Safe,
    /// Changes something that can be seen to: asked, once or always.
    Sensitive,
    /// Changes much, or what cannot be brought back: asked every time.
    Extreme,
}

/// What a tool says of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// What follows from the tool's sensitivity.
    BySensitivity,
    /// Nobody needs to be asked about this one.
    NotNeeded,
    /// Somebody must be asked about this one, and why.
    Needed(String),
    /// Somebody must be asked about this one every time, since it can do harm that cannot be undone, and why.
    NeededAlways(String),
    /// Somebody must be asked about this one every time, whatever rules say, and why.
    NeededRegardless(String),
}

/// How permissive a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// What is not safe is asked.
    #[default]
    Default,
    /// Nothing is changed.
    Plan,
    /// Changes of files in the workspace are not asked.
    AcceptEdits,
    /// Nothing is asked; what is denied stays denied.
    Bypass,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 4] = [Mode::Default, Mode::Plan, Mode::AcceptEdits, Mode::Bypass];

    /// The one of two that lets less through.
    #[must_use]
    pub fn stricter(self, other: Mode) -> Mode {
        let strict_first = [Mode::Plan, Mode::Default, Mode::AcceptEdits, Mode::Bypass];
        strict_first.into_iter().find(|mode| *mode == self || *mode == other).unwrap_or(self)
    }

    /// The name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::Plan => "plan",
            Mode::AcceptEdits => "accept-edits",
            Mode::Bypass => "bypass",
        }
    }
}

impl FromStr for Mode {
    type Err = Fault;

    fn from_str(name: &str) -> Result<Self, Fault> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            Fault::invalid(format!("no mode `{name}`")).hint("default, plan, accept-edits or bypass")
        })
    }
}

/// A rule about calls, as it is written: `Edit(src/**)`. What it means is for the judge to say that offers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rule(pub String);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// For how long something is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// As long as the session lasts.
    Session,
    /// In this project, on this machine.
    Project,
    /// Everywhere.
    User,
}

impl Scope {
    /// Every scope, the narrowest first.
    pub const ALL: [Scope; 3] = [Scope::Session, Scope::Project, Scope::User];

    /// The name of the scope.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Session => "session",
            Scope::Project => "project",
            Scope::User => "user",
        }
    }
}

/// A call as a judge sees it.
pub struct Question<'a> {
    /// What there is to know of the tool.
    pub spec: &'a Spec,
    /// The arguments, decoded.
    pub input: &'a Value,
    /// Everything the call may touch.
    pub claims: &'a Claims,
    /// Where it is called.
    pub cx: &'a Context,
}

/// What a judge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing either way.
    Abstain,
    /// It may happen, and nobody needs to be asked.
    Allow {
        /// The rule that says so.
        by: String,
        /// Whether the rule means this very call, and not only calls like it. What can do harm that cannot be
        /// undone is allowed in no other way.
        exactly: bool,
    },
    /// Somebody must be asked, and why.
    Ask(String),
    /// It must not happen, and why.
    Deny(String),
}

/// Somebody who judges calls by rules, at once and without asking anybody. An error denies.
pub trait Judge: Send + Sync {
    /// Who judges, for messages.
    fn name(&self) -> &str;

    /// Judges one call.
    fn judge(&self, question: &Question<'_>) -> Result<Verdict, Fault>;

    /// The narrowest rules that together would allow a call for good; none if it should not be.
    fn offer(&self, _question: &Question<'_>) -> Vec<Rule> {
        Vec::new()
    }

    /// Which files must not be read in a session; `None` where there are none. Tools that look at many files in one call
    /// leave these out.
    fn hidden_files(&self, _cx: &Context) -> Option<Arc<dyn HiddenFiles>> {
        None
    }

    /// Remembers rules that somebody has agreed to. From then on the judge allows what they cover.
    fn remember(&self, _rules: &[Rule], _scope: Scope, _cx: &Context) -> Result<(), Fault> {
        Err(Fault::failed("it has no memory"))
    }
}

/// Files whose content must not be read.
pub trait HiddenFiles: Send + Sync {
    /// Whether a file is one of them.
    fn hides(&self, path: &AbsPath) -> bool;
}

/// Every file: what a judge that crashes is taken to hide.
pub(crate) struct Everything;

impl HiddenFiles for Everything {
    fn hides(&self, _path: &AbsPath) -> bool {
        true
    }
}

/// What would become of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRun {
    /// Everything it may touch.
    pub claims: Claims,
    /// What would become of it.
    pub outcome: Prediction,
}

/// What would become of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// It would happen, and nobody would be asked: by this rule, or because nobody needs to be.
    Allowed(Option<String>),
    /// Somebody would be asked, and why.
    Asked(String),
    /// It would not happen, and why.
    Denied(String),
}

impl<J: Judge + ?Sized> Judge for Arc<J> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn judge(&self, question: &Question<'_>) -> Result<Verdict, Fault> {
        (**self).judge(question)
    }

    fn offer(&self, question: &Question<'_>) -> Vec<Rule> {
        (**self).offer(question)
    }

    fn hidden_files(&self, cx: &Context) -> Option<Arc<dyn HiddenFiles>> {
        (**self).hidden_files(cx)
    }

    fn remember(&self, rules: &[Rule], scope: Scope, cx: &Context) -> Result<(), Fault> {
        (**self).remember(rules, scope, cx)
    }
}

/// What the judges say together: the strictest word wins, and a judge that fails denies.
pub(crate) fn judge(judges: &[Arc<dyn Judge>], question: &Question<'_>) -> Result<Verdict, Fault> {
    let mut together = Verdict::Abstain;
    for judge in judges {
        let verdict = catch_panic(|| judge.judge(question))
            .unwrap_or_else(|panic| Err(Fault::failed(format!("it crashed: {panic}"))))
            .map_err(|error| {
                denied(format!("`{}` could not judge the call: {}", judge.name(), error.message()))
            })?;
        together = match (together, verdict) {
            (_, Verdict::Deny(reason)) => return Err(denied(reason)),
            (Verdict::Ask(reason), _) | (_, Verdict::Ask(reason)) => Verdict::Ask(reason),
            (Verdict::Allow { by, exactly }, Verdict::Allow { exactly: also, .. }) => {
                Verdict::Allow { by, exactly: exactly || also }
            }
            (allow @ Verdict::Allow { .. }, _) | (_, allow @ Verdict::Allow { .. }) => allow,
            (Verdict::Abstain, Verdict::Abstain) => Verdict::Abstain,
            (Verdict::Deny(reason), _) => return Err(denied(reason)),
        };
    }
    Ok(together)
}

/// What follows from verdict, mode and sensitivity: `None` when it may happen, or why somebody must be asked.
pub(crate) fn weigh(
    question: &Question<'_>,
    verdict: &Verdict,
    approval: &Approval,
) -> Result<Option<Asking>, Fault> {
    let Question { spec, claims, cx, .. } = question;
    let mode = cx.session().mode();
    let workspace = cx.session_workspace();
    let regardless = matches!(approval, Approval::NeededRegardless(_));
    let is_extreme = regardless
        || spec.sensitivity == Sensitivity::Extreme
        || matches!(approval, Approval::NeededAlways(_));
    if mode == Mode::Plan && !only_plans(spec, claims, cx) {
        return Err(denied(format!("`{}` changes things, and this session only plans", spec.name))
            .hint("finish the plan first; nothing can be changed in plan mode"));
    }
    let is_command = claims.iter().any(|(_, resource)| matches!(resource, Resource::Command(_)));
    let outside = claims.iter().find_map(|(_, resource)| match resource {
        Resource::Path(path) if workspace.access(path).is_none() => Some(path),
        _ => None,
    });
    if mode == Mode::Bypass {
        return match outside {
            None => Ok(None),
            // What a command reaches is for its cage to say.
            Some(_) if is_command => Ok(None),
            Some(path) => Err(Fault::new(FaultKind::Outside, lies_outside(path, cx))
                .hint("in this mode nobody is asked; have the user add the folder with `--add-dir`")
                .at(path.to_string())),
        };
    }
    let runs_code = runs_code(claims, workspace);
    let reason = match (verdict, approval, spec.sensitivity) {
        (Verdict::Allow { exactly, .. }, _, _) if !regardless && (*exactly || !is_extreme) => {
            return Ok(None);
        }
        (Verdict::Ask(reason), _, _) => reason.clone(),
        _ if let Some(path) = outside => lies_outside(path, cx),
        _ if let Some(path) = runs_code => {
            format!("`{}` can make other programs run something", cx.workspace().display(path))
        }
        // What only plans needs nobody's word to write the plan down.
        _ if mode == Mode::Plan && changes_plan(claims, cx) => return Ok(None),
        (_, Approval::NotNeeded, _) | (_, Approval::BySensitivity, Sensitivity::Safe) => return Ok(None),
        (
            _,
            Approval::Needed(reason) | Approval::NeededAlways(reason) | Approval::NeededRegardless(reason),
            _,
        ) => reason.clone(),
        (_, _, Sensitivity::Extreme) => format!("`{}` can do harm that cannot be undone", spec.name),
        _ => format!("`{}` can change things", spec.name),
    };
    let advice = match mode {
        _ if outside.is_some() => Some("the user can add the folder with `--add-dir`".to_owned()),
        Mode::Plan => Some("the user can end the planning by starting in another mode".to_owned()),
        _ => None,
    };
    // What the call reaches outside of the session's workspace is no edit of it.
    let may_write = |path| workspace.access(path) == Some(haft_sandbox::FolderAccess::Write);
    let is_edit = !is_extreme
        && !claims.is_read_only()
        && runs_code.is_none()
        && claims.iter().all(|(access, resource)| match resource {
            Resource::Path(path) => match access {
                Access::Read => workspace.access(path).is_some(),
                Access::Write => may_write(path),
            },
            Resource::Command(_) => true,
            _ => false,
        });
    let asked_by_rule = matches!(verdict, Verdict::Ask(_));
    let enough = if !asked_by_rule && is_edit { Mode::AcceptEdits } else { Mode::Bypass };
    Ok((mode != enough).then_some(Asking { reason, advice, mode: enough, is_extreme }))
}

/// Whether a call is one for somebody who only plans: it changes nothing, or only the plan.
fn only_plans(spec: &Spec, claims: &Claims, cx: &Context) -> bool {
    // A command is known by its claims alone to change nothing.
    let is_command = |resource: &Resource| matches!(resource, Resource::Command(_));
    if spec.in_plan {
        return true;
    }
    let knows = spec.read_only || claims.iter().any(|(_, resource)| is_command(resource));
    knows && claims.is_read_only() || changes_plan(claims, cx)
}

/// Whether a call changes the plan, and nothing else.
fn changes_plan(claims: &Claims, cx: &Context) -> bool {
    let plan = cx.session().plan_file();
    let is_plan = |resource: &Resource| match (resource, &plan) {
        (Resource::Path(path), Some(plan)) => path == plan,
        _ => false,
    };
    !claims.is_read_only()
        && claims.iter().all(|(access, resource)| access == Access::Read || is_plan(resource))
}

fn lies_outside(path: &AbsPath, cx: &Context) -> String {
    match cx.name_of(path) {
        Some(name) => {
            let name = cx.workspace().display(&name);
            format!("`{name}` leads to `{path}`, which lies outside of the workspace")
        }
        None => format!("`{path}` lies outside of the workspace"),
    }
}

/// Why somebody must be asked.
pub(crate) struct Asking {
    reason: String,
    advice: Option<String>,
    /// The mode in which nobody would be.
    mode: Mode,
    /// Whether it can do harm that cannot be undone: it is then asked every time.
    is_extreme: bool,
}

impl Asking {
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }
}

/// Folders and files in which a change makes other programs run what it says.
const DELICATE: [&str; 17] = [
    ".git",
    ".gitmodules",
    ".gitconfig",
    ".husky",
    ".pre-commit-config.yaml",
    ".github",
    ".vscode",
    ".idea",
    ".envrc",
    ".mcp.json",
    ".claude",
    ".bashrc",
    ".zshrc",
    ".profile",
    ".bash_profile",
    ".npmrc",
    ".ssh",
];

/// Whether a change of what has this name makes other programs run something.
pub fn is_code_name(name: &std::ffi::OsStr) -> bool {
    DELICATE.iter().any(|runs_code| name.eq_ignore_ascii_case(runs_code))
}

/// A place among the claims whose change makes other programs run something.
pub fn runs_code<'a>(claims: &'a Claims, workspace: &Workspace) -> Option<&'a AbsPath> {
    claims.iter().find_map(|(access, resource)| match resource {
        Resource::Path(path) if access == Access::Write => {
            // Where the workspace itself lies does not count.
            let folders = workspace.folders().iter();
            let below = folders.filter_map(|folder| path.as_path().strip_prefix(&folder.path).ok());
            let below = below.min_by_key(|below| below.as_os_str().len()).unwrap_or(path.as_path());
            below.iter().any(is_code_name).then_some(path)
        }
        _ => None,
    })
}

pub(crate) fn denied(reason: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Denied, reason)
}
