//! Permissions: whether a call may run. First the judges decide by rules, and a judge that fails denies; then the
//! session's mode and the tool's sensitivity; then, if the call needs approval, the [`Approver`] is asked. Knows nothing
//! of how a person is reached, and nothing of the syntax of rules.

mod ask;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub(crate) use ask::ApprovalAdvice;
pub use ask::{ApprovalRequest, Approver, Choice, Decision, NoApprover, Scripted, Stage};
pub(crate) use ask::{Approved, DecidedBy, Offers, PermissionState, ask, request, request_about_effects};
use haft_sandbox::{AbsPath, Workspace, triggers};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crash::catch_panic;
use crate::{Access, Category, Claims, Context, Fault, FaultKind, Resource, Spec};

/// How much harm a call can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sensitivity {
    /// Changes nothing: needs no approval.
    Safe,
    /// Changes something that can be undone: needs approval, once or for good.
    Sensitive,
    /// Can do harm that cannot be undone: needs approval every time.
    Extreme,
}

/// Whether a tool wants approval for one of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// The tool's sensitivity decides.
    BySensitivity,
    /// The call needs no approval.
    NotNeeded,
    /// The call needs approval, for this reason.
    Needed(String),
    /// The call needs approval every time, for this reason: it can do harm that cannot be undone.
    NeededAlways(String),
    /// The call needs approval every time, even if a rule allows it, for this reason.
    NeededRegardless(String),
}

/// How permissive a session is: which calls run without approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// Calls that are not safe need approval.
    #[default]
    Default,
    /// Calls that change anything but the plan are denied.
    Plan,
    /// Changes of files in the workspace need no approval.
    AcceptEdits,
    /// No call needs approval; rules that deny still deny.
    Bypass,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 4] = [Mode::Default, Mode::Plan, Mode::AcceptEdits, Mode::Bypass];

    /// The less permissive one of two modes.
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

/// A rule about calls in its written form, such as `Edit(src/**)`. The judge that offers it knows what it means.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rule(pub String);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How long and where a granted rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Until the session ends.
    Session,
    /// In this project, on this machine.
    Project,
    /// In every project of this user.
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
#[non_exhaustive]
pub struct Question<'a> {
    /// The tool's specification.
    pub spec: &'a Spec,
    /// The arguments, decoded.
    pub input: &'a Value,
    /// Everything the call may touch.
    pub claims: &'a Claims,
    /// The context of the call.
    pub cx: &'a Context,
}

/// A judge's verdict on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// No rule applies.
    Abstain,
    /// The call may run without approval.
    Allow {
        /// The rule that allows it.
        by: String,
        /// Whether the rule names exactly this call, and not only a pattern that it matches. A call that can do harm that
        /// cannot be undone is allowed in no other way.
        exactly: bool,
    },
    /// The call runs as a [trial](crate::trials) without approval, and its effects need it.
    Try {
        /// The rule that says so.
        by: String,
    },
    /// The call needs approval, for this reason.
    Ask(String),
    /// The call must not run, for this reason.
    Deny(String),
}

/// Decides about calls by rules, synchronously and without asking a person. An error or a panic denies the call.
///
/// ```
/// use haft_core::permissions::{Judge, Question, Verdict};
/// use haft_core::{Access, Engine, Fault, Resource};
///
/// /// Lets no call write into `vendor/`.
/// struct NoVendor;
///
/// impl Judge for NoVendor {
///     fn name(&self) -> &str {
///         "no-vendor"
///     }
///
///     fn judge(&self, question: &Question<'_>) -> Result<Verdict, Fault> {
///         let is_vendored = question.claims.iter().any(|(access, resource)| match resource {
///             Resource::Path(path) => access == Access::Write && path.as_path().iter().any(|part| part == "vendor"),
///             _ => false,
///         });
///         Ok(if is_vendored { Verdict::Deny("`vendor/` is generated".to_owned()) } else { Verdict::Abstain })
///     }
/// }
///
/// let engine = Engine::builder().judge(NoVendor).build();
/// # drop(engine);
/// ```
pub trait Judge: Send + Sync {
    /// The judge's name in messages.
    fn name(&self) -> &str;

    /// Judges one call.
    fn judge(&self, question: &Question<'_>) -> Result<Verdict, Fault>;

    /// The narrowest rules that together would allow the call in future; empty if the judge offers none.
    fn offer(&self, _question: &Question<'_>) -> Vec<Rule> {
        Vec::new()
    }

    /// The files that a session must not read; `None` if there are none. Tools that read many files in one call, such as
    /// searches, skip these.
    fn hidden_files(&self, _cx: &Context) -> Option<Arc<dyn HiddenFiles>> {
        None
    }

    /// Remembers rules that a person has granted. From then on the judge allows the calls that they cover.
    fn remember(&self, _rules: &[Rule], _scope: Scope, _cx: &Context) -> Result<(), Fault> {
        Err(Fault::failed("it has no memory"))
    }
}

/// A set of files whose content must not be read. A [`Judge`] returns one for a session.
///
/// ```
/// use haft_core::AbsPath;
/// use haft_core::permissions::HiddenFiles;
///
/// struct PrivateKeys;
///
/// impl HiddenFiles for PrivateKeys {
///     fn hides(&self, path: &AbsPath) -> bool {
///         path.as_path().extension().is_some_and(|extension| extension == "pem")
///     }
/// }
///
/// assert!(PrivateKeys.hides(&AbsPath::lexical("/keys/server.pem".as_ref())));
/// ```
pub trait HiddenFiles: Send + Sync {
    /// Whether a file must not be read.
    fn hides(&self, path: &AbsPath) -> bool;
}

/// Hides every file: the fallback for a judge that panics.
pub(crate) struct HideAll;

impl HiddenFiles for HideAll {
    fn hides(&self, _path: &AbsPath) -> bool {
        true
    }
}

/// The result of a dry run: see [`Session::dry_run`](crate::Session::dry_run).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DryRun {
    /// Everything the call may touch.
    pub claims: Claims,
    /// Whether it would be allowed.
    pub outcome: Prediction,
}

/// Whether a call would be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// The call would run without approval: by this rule, or because it needs none.
    Allowed(Option<String>),
    /// The call would need approval, for this reason.
    Asked(String),
    /// The call would be denied, for this reason.
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

/// The combined verdict of all judges: the strictest one wins, and a judge that fails denies.
pub(crate) fn judge(judges: &[Arc<dyn Judge>], question: &Question<'_>) -> Result<Verdict, Fault> {
    let mut combined = Verdict::Abstain;
    for judge in judges {
        let verdict = catch_panic(|| judge.judge(question))
            .unwrap_or_else(|panic| Err(Fault::failed(format!("it crashed: {panic}"))))
            .map_err(|error| {
                denied(format!("`{}` could not judge the call: {}", judge.name(), error.message()))
            })?;
        combined = match (combined, verdict) {
            (_, Verdict::Deny(reason)) => return Err(denied(reason)),
            (Verdict::Ask(reason), _) | (_, Verdict::Ask(reason)) => Verdict::Ask(reason),
            (Verdict::Try { by }, _) | (_, Verdict::Try { by }) => Verdict::Try { by },
            (Verdict::Allow { by, exactly }, Verdict::Allow { exactly: also, .. }) => {
                Verdict::Allow { by, exactly: exactly || also }
            }
            (allow @ Verdict::Allow { .. }, _) | (_, allow @ Verdict::Allow { .. }) => allow,
            (Verdict::Abstain, Verdict::Abstain) => Verdict::Abstain,
            (Verdict::Deny(reason), _) => return Err(denied(reason)),
        };
    }
    Ok(combined)
}

/// Whether a call needs approval, by verdict, mode and sensitivity: `None` if it may run without.
pub(crate) fn needs_approval(
    question: &Question<'_>,
    verdict: &Verdict,
    approval: &Approval,
) -> Result<Option<NeededApproval>, Fault> {
    let Question { spec, claims, cx, .. } = question;
    let mode = cx.session().mode();
    let workspace = cx.session_workspace();
    let regardless = matches!(approval, Approval::NeededRegardless(_));
    let is_extreme = regardless
        || spec.sensitivity == Sensitivity::Extreme
        || matches!(approval, Approval::NeededAlways(_));
    if mode == Mode::Plan && !is_allowed_in_plan(question, approval) {
        return Err(denied(format!("`{}` changes things, and this session only plans", spec.name))
            .hint("finish the plan first; nothing can be changed in plan mode"));
    }
    let is_command = claims.iter().any(|(_, resource)| matches!(resource, Resource::Command(_)));
    let is_inside = |access: Access, path: &AbsPath| {
        workspace.access(path).is_some() || access == Access::Read && is_of_system(path)
    };
    let outside = || {
        claims.iter().filter_map(|(access, resource)| match resource {
            Resource::Path(path) if !is_inside(access, path) => Some((access, path)),
            _ => None,
        })
    };
    if mode == Mode::Bypass {
        // What a command can access is decided by the sandbox, which lets it write nothing outside. The same holds for
        // other calls.
        let mut outside = outside().filter(|_| !is_command);
        return match outside
            .find(|(access, path)| *access == Access::Write || haft_sandbox::secrets::holds(path.as_path()))
        {
            None => Ok(None),
            Some((access, path)) => Err(Fault::new(
                FaultKind::Outside,
                match access {
                    Access::Write => lies_outside(path, cx),
                    Access::Read => {
                        format!(
                            "{}, and is too sensitive to be read without a question",
                            lies_outside(path, cx)
                        )
                    }
                },
            )
            .hint("in this mode nobody is asked; have the user add the folder with `--add-dir`")
            .at(path.to_string())),
        };
    }
    let outside = outside().next().map(|(_, path)| path);
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
        // Writing the plan itself needs no approval in plan mode.
        _ if mode == Mode::Plan && changes_plan(claims, cx) => return Ok(None),
        (_, Approval::NotNeeded, _) | (_, Approval::BySensitivity, Sensitivity::Safe) => return Ok(None),
        (Verdict::Try { by }, _, _) => format!("the rule `{by}` says to try it first"),
        (
            _,
            Approval::Needed(reason) | Approval::NeededAlways(reason) | Approval::NeededRegardless(reason),
            _,
        ) => reason.clone(),
        (_, _, Sensitivity::Extreme) => format!("`{}` can do harm that cannot be undone", spec.name),
        _ => effects(claims, cx).unwrap_or_else(|| format!("`{}` can change things", spec.name)),
    };
    let advice = match mode {
        _ if outside.is_some() => Some("the user can add the folder with `--add-dir`".to_owned()),
        Mode::Plan => Some("the user can end the planning by starting in another mode".to_owned()),
        _ => None,
    };
    // A write outside of the session's workspace does not count as an edit of the workspace.
    let may_write = |path| workspace.access(path) == Some(haft_sandbox::FolderAccess::Write);
    let is_edit = !is_extreme
        && !claims.is_read_only()
        && runs_code.is_none()
        && claims.iter().all(|(access, resource)| match resource {
            Resource::Path(path) => match access {
                Access::Read => is_inside(access, path),
                Access::Write => may_write(path),
            },
            Resource::Command(_) => true,
            _ => false,
        });
    let asked_by_rule = matches!(verdict, Verdict::Ask(_) | Verdict::Try { .. });
    let enough = if !asked_by_rule && is_edit { Mode::AcceptEdits } else { Mode::Bypass };
    let is_outside = outside.is_some();
    Ok((mode != enough).then_some(NeededApproval { reason, advice, mode: enough, is_extreme, is_outside }))
}

/// Whether plan mode permits a call: it changes nothing, or only the plan.
fn is_allowed_in_plan(question: &Question<'_>, approval: &Approval) -> bool {
    let Question { spec, claims, cx, .. } = question;
    if spec.in_plan {
        return true;
    }
    // The claims of a command are complete, and so are those of a request to the web. So are those of a call for which its
    // tool wants no approval, even if other calls of the tool change things.
    let is_command = |resource: &Resource| matches!(resource, Resource::Command(_));
    let is_complete = spec.read_only
        || spec.category == Category::Web
        || *approval == Approval::NotNeeded
        || claims.iter().any(|(_, resource)| is_command(resource));
    is_complete && claims.is_read_only() || changes_plan(claims, cx)
}

/// Whether a call changes the plan file, and nothing else.
fn changes_plan(claims: &Claims, cx: &Context) -> bool {
    let plan = cx.session().plan_file();
    let is_plan = |resource: &Resource| match (resource, &plan) {
        (Resource::Path(path), Some(plan)) => path == plan,
        _ => false,
    };
    !claims.is_read_only()
        && claims.iter().all(|(access, resource)| access == Access::Read || is_plan(resource))
}

/// What a call would change or reach, for people, as far as its claims name it: "it changes `a.txt`".
pub fn effects(claims: &Claims, cx: &Context) -> Option<String> {
    let mut changed: Vec<String> = Vec::new();
    let mut reached: Vec<String> = Vec::new();
    for (access, resource) in claims.iter() {
        match (resource, access) {
            (Resource::Path(path), Access::Write) => {
                changed.push(match cx.workspace().display(path).as_str() {
                    "." => "files in the workspace".to_owned(),
                    path => format!("`{path}`"),
                })
            }
            (Resource::State(name), Access::Write) => changed.push(name.to_string()),
            (Resource::Host(host), _) => reached.push(format!("`{host}`")),
            _ => {}
        }
    }
    let parts =
        [("changes", changed), ("reaches", reached)].into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts
        .map(|(verb, names)| {
            let more = names.len().saturating_sub(MAX_NAMED);
            let named = names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
            if more == 0 {
                format!("it {verb} {named}")
            } else {
                format!("it {verb} {named} and {more} more")
            }
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Most files and hosts that the reason of a question names.
const MAX_NAMED: usize = 3;

fn lies_outside(path: &AbsPath, cx: &Context) -> String {
    match cx.alias_of(path) {
        Some(name) => {
            let name = cx.workspace().display(&name);
            format!("`{name}` leads to `{path}`, which lies outside of the workspace")
        }
        None => format!("`{path}` lies outside of the workspace"),
    }
}

/// Why a call needs approval.
pub(crate) struct NeededApproval {
    reason: String,
    advice: Option<String>,
    /// The strictest mode in which the call needs no approval.
    mode: Mode,
    /// Whether the call can do harm that cannot be undone, so that it needs approval every time.
    is_extreme: bool,
    /// Whether the call names files outside of the workspace.
    is_outside: bool,
}

impl NeededApproval {
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether the question is about more than what the call changes in the workspace.
    pub(crate) fn is_about_more(&self) -> bool {
        self.is_extreme || self.is_outside
    }

    /// Adds to the reason.
    pub(crate) fn remark(&mut self, remark: &str) {
        self.reason = format!("{}; {remark}", self.reason);
    }
}

/// Folders in which the system has its programs. Whoever reads there learns nothing about the user.
const SYSTEM_FOLDERS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix"];

/// Whether a path lies where the system has its programs, which calls may read without approval.
pub fn is_of_system(path: &AbsPath) -> bool {
    SYSTEM_FOLDERS.iter().any(|folder| path.as_path().starts_with(folder))
}

/// The first path that the claims write and whose content other programs execute, such as a git hook.
pub fn runs_code<'a>(claims: &'a Claims, workspace: &Workspace) -> Option<&'a AbsPath> {
    claims.iter().find_map(|(access, resource)| match resource {
        Resource::Path(path) if access == Access::Write => {
            // Only names below the workspace's folders count, not those above them.
            let folders = workspace.folders().iter();
            let below = folders.filter_map(|folder| path.as_path().strip_prefix(&folder.path).ok());
            let below = below.min_by_key(|below| below.as_os_str().len()).unwrap_or(path.as_path());
            below.iter().any(triggers::is_asked).then_some(path)
        }
        _ => None,
    })
}

pub(crate) fn denied(reason: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Denied, reason)
}
