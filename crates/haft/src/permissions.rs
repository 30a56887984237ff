//! Whether a call may happen. Judges speak first and a judge that fails denies; then the mode and the
//! tool's sensitivity; then, if it must be asked, the approver. Knows nothing of how a person is asked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use haft_sandbox::Workspace;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::activity::{EventKind, What};
use crate::crash::{caught, uncrashed};
use crate::{Access, BoxFuture, Claims, Context, Fault, FaultKind, Preview, Resource, Spec};

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

/// A call that was allowed for good: a tool, or a tool on one subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// The tool's name.
    pub tool: String,
    /// The file, command or host it is about; any when there is none.
    pub subject: Option<String>,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Some(subject) => write!(f, "{}({subject})", self.tool),
            None => f.write_str(&self.tool),
        }
    }
}

impl Rule {
    /// The narrowest rule that covers a call: its tool, and the one thing it is about. None where a call
    /// touches several things, because a rule that names one of them would cover the others too.
    pub(crate) fn covering(tool: &str, claims: &Claims, workspace: &Workspace) -> Option<Rule> {
        let is_file_read = |access, resource: &Resource| match resource {
            Resource::Path(path) => access == Access::Read && workspace.access(path).is_some(),
            _ => false,
        };
        let mut about = claims.iter().filter(|(access, resource)| !is_file_read(*access, resource));
        let subject = match (about.next(), about.next()) {
            (None, _) | (Some((_, Resource::Everything)), None) => None,
            (Some((_, resource)), None) => Some(resource.to_string()),
            (Some(_), Some(_)) => return None,
        };
        Some(Rule { tool: tool.to_owned(), subject })
    }

    fn covers(&self, narrowest: &Rule) -> bool {
        self.tool == narrowest.tool && (self.subject.is_none() || self.subject == narrowest.subject)
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
    Allow,
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
    fn judge(&self, question: &Question<'_>) -> Result<Verdict, String>;
}

/// What somebody is asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The call.
    pub call: Arc<str>,
    /// The session.
    pub session: Arc<str>,
    /// The tool's name.
    pub tool: Arc<str>,
    /// The arguments.
    pub input: Value,
    /// Everything the call may touch.
    pub claims: Claims,
    /// What it would change.
    pub preview: Option<Preview>,
    /// Why it is asked.
    pub reason: String,
    /// How else the user could allow it, where there is a way of its own.
    pub advice: Option<String>,
    /// The mode in which it would not be asked that lets the least else through.
    pub mode: Mode,
    /// The answers that are offered.
    pub choices: Vec<Choice>,
}

/// An answer that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// Just this call.
    AllowOnce,
    /// Every call that the rule covers. Not offered for calls that do extreme harm.
    AllowAlways(Rule),
    /// This call with other arguments.
    Edit,
    /// Not this call.
    Deny,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Just this call.
    AllowOnce,
    /// This call and every later one that the rule covers.
    AllowAlways(Rule),
    /// With these arguments instead; they are decoded and checked again.
    AllowEdited(Value),
    /// No; the model is told the feedback.
    Deny {
        /// What to do instead.
        feedback: Option<String>,
    },
}

/// Somebody who can be asked. An error denies.
pub trait Approver: Send + Sync {
    /// Asks, and waits for the answer for as long as it takes.
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, String>>;
}

/// Nobody to ask: every question is answered with no.
#[derive(Default)]
pub struct NoApprover {
    how: Option<String>,
}

impl NoApprover {
    /// Says how the user can allow what nobody can be asked about. `{mode}` in it is the name of the mode that
    /// lets the call through and the least else.
    pub fn telling(how: impl Into<String>) -> Self {
        Self { how: Some(how.into()) }
    }
}

impl Approver for NoApprover {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, String>> {
        let ApprovalRequest { tool, reason, advice, mode, .. } = &request;
        let mut feedback = format!("`{tool}` needs permission ({reason}) and there is nobody to ask");
        if let Some(how) = advice.as_ref().or(self.how.as_ref()) {
            feedback = format!("{feedback}; {}", how.replace("{mode}", mode.name()));
        }
        Box::pin(std::future::ready(Ok(Decision::Deny { feedback: Some(feedback) })))
    }
}

/// What the judges say together: the strictest word wins, and a judge that fails denies.
pub(crate) fn judge(judges: &[Arc<dyn Judge>], question: &Question<'_>) -> Result<Verdict, Fault> {
    let mut together = Verdict::Abstain;
    for judge in judges {
        let verdict = uncrashed(|| judge.judge(question))
            .unwrap_or_else(|panic| Err(format!("it crashed: {panic}")))
            .map_err(|error| denied(format!("`{}` could not judge the call: {error}", judge.name())))?;
        together = match (together, verdict) {
            (_, Verdict::Deny(reason)) => return Err(denied(reason)),
            (Verdict::Ask(reason), _) | (_, Verdict::Ask(reason)) => Verdict::Ask(reason),
            (Verdict::Allow, _) | (_, Verdict::Allow) => Verdict::Allow,
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
    if mode == Mode::Plan && !(spec.read_only && claims.is_read_only()) {
        return Err(denied(format!("`{}` changes things, and this session only plans", spec.name))
            .hint("finish the plan first; nothing can be changed in plan mode"));
    }
    let is_command = claims.iter().any(|(_, resource)| matches!(resource, Resource::Command(_)));
    let outside = claims.iter().find_map(|(_, resource)| match resource {
        Resource::Path(path) if cx.session().workspace().access(path).is_none() => Some(path),
        _ => None,
    });
    let lies_outside = |path: &haft_sandbox::AbsPath| match cx.name_of(path) {
        Some(name) => {
            let name = cx.workspace().display(&name);
            format!("`{name}` leads to `{path}`, which lies outside of the workspace")
        }
        None => format!("`{path}` lies outside of the workspace"),
    };
    if mode == Mode::Bypass {
        return match outside {
            None => Ok(None),
            // What a command reaches is for its cage to say.
            Some(_) if is_command => Ok(None),
            Some(path) => Err(Fault::new(FaultKind::Outside, lies_outside(path))
                .hint("in this mode nobody is asked; have the user add the folder with `--add-dir`")
                .with("path", path.to_string())),
        };
    }
    let reason = match (verdict, approval, spec.sensitivity) {
        (Verdict::Allow, _, _) => return Ok(None),
        (Verdict::Ask(reason), _, _) => reason.clone(),
        _ if let Some(path) = outside => lies_outside(path),
        _ if let Some(path) = delicate(claims, cx.session().workspace()) => {
            format!("`{}` can make other programs run something", cx.workspace().display(path))
        }
        (_, Approval::NotNeeded, _) | (_, Approval::BySensitivity, Sensitivity::Safe) => return Ok(None),
        (_, Approval::Needed(reason) | Approval::NeededAlways(reason), _) => reason.clone(),
        (_, _, Sensitivity::Extreme) => format!("`{}` can do harm that cannot be undone", spec.name),
        _ => format!("`{}` can change things", spec.name),
    };
    let advice = outside.map(|_| "the user can add the folder with `--add-dir`".to_owned());
    if spec.sensitivity == Sensitivity::Extreme || matches!(approval, Approval::NeededAlways(_)) {
        return Ok(Some(Asking { reason, advice, mode: Mode::Bypass }));
    }
    let narrowest = Rule::covering(&spec.name, claims, cx.session().workspace());
    let asked_by_rule = matches!(verdict, Verdict::Ask(_));
    let granted = |narrowest: &Rule| cx.session().grants().iter().any(|rule| rule.covers(narrowest));
    if !asked_by_rule && narrowest.as_ref().is_some_and(granted) {
        return Ok(None);
    }
    // What the call reaches outside of the session's workspace is no edit of it.
    let may_write = |path| cx.session().workspace().access(path) == Some(haft_sandbox::Access::Write);
    let is_edit = !claims.is_read_only()
        && delicate(claims, cx.session().workspace()).is_none()
        && claims.iter().all(|(access, resource)| match resource {
            Resource::Path(path) => access == Access::Read || may_write(path),
            Resource::Command(_) => true,
            _ => false,
        });
    let enough = if !asked_by_rule && is_edit { Mode::AcceptEdits } else { Mode::Bypass };
    Ok((mode != enough).then_some(Asking { reason, advice, mode: enough }))
}

/// Why somebody must be asked.
pub(crate) struct Asking {
    reason: String,
    advice: Option<String>,
    /// The mode in which nobody would be.
    mode: Mode,
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

/// A place among the claims whose change makes other programs run something.
fn delicate<'a>(claims: &'a Claims, workspace: &Workspace) -> Option<&'a haft_sandbox::AbsPath> {
    let is_delicate =
        |name: &std::ffi::OsStr| DELICATE.iter().any(|delicate| name.eq_ignore_ascii_case(delicate));
    claims.iter().find_map(|(access, resource)| match resource {
        Resource::Path(path) if access == Access::Write => {
            // Where the workspace itself lies does not count.
            let folders = workspace.folders().iter();
            let below = folders.filter_map(|folder| path.as_path().strip_prefix(&folder.path).ok());
            let below = below.min_by_key(|below| below.as_os_str().len()).unwrap_or(path.as_path());
            below.iter().any(is_delicate).then_some(path)
        }
        _ => None,
    })
}

/// What has been settled about a call's permission. An input that is rewritten is decoded, claimed and
/// checked again, but neither hooks nor people are asked twice.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) hooked: bool,
    /// A hook said that nobody needs to be asked.
    pub(crate) allowed: bool,
    /// A hook said that somebody must be asked, and why.
    pub(crate) must_ask: Option<String>,
    /// Somebody was asked and did not deny.
    pub(crate) answered: bool,
}

impl Settled {
    /// What judges and hooks say together: a hook can ask, or allow what no judge has a word on.
    pub(crate) fn verdict(&self, judged: &Verdict) -> Verdict {
        match (judged, &self.must_ask) {
            (_, Some(reason)) => Verdict::Ask(reason.clone()),
            (Verdict::Abstain, None) if self.allowed => Verdict::Allow,
            (verdict, None) => verdict.clone(),
        }
    }
}

/// The question to a person, with the answers that are offered.
pub(crate) fn request(
    question: &Question<'_>,
    verdict: &Verdict,
    preview: Option<Preview>,
    Asking { reason, advice, mode }: Asking,
) -> ApprovalRequest {
    let Question { spec, input, claims, cx } = question;
    let mut choices = vec![Choice::AllowOnce, Choice::Edit, Choice::Deny];
    // Where a rule or a hook asks, it asks again however often the user says "always".
    if spec.sensitivity != Sensitivity::Extreme
        && !matches!(verdict, Verdict::Ask(_))
        && let Some(rule) = Rule::covering(&spec.name, claims, cx.session().workspace())
    {
        choices.insert(1, Choice::AllowAlways(rule));
    }
    ApprovalRequest {
        call: cx.call().clone(),
        session: cx.session().id().clone(),
        tool: cx.tool().clone(),
        input: (*input).clone(),
        claims: (*claims).clone(),
        preview,
        reason,
        advice,
        mode,
        choices,
    }
}

/// Asks, and waits for the answer. An input to go on with instead is returned.
pub(crate) async fn ask(
    approver: &dyn Approver,
    request: ApprovalRequest,
    cx: &Context,
) -> Result<Option<Value>, Fault> {
    let offered = request.choices.iter().find_map(|choice| match choice {
        Choice::AllowAlways(rule) => Some(rule.clone()),
        _ => None,
    });
    cx.emit(EventKind::Asked, || What::Asked { reason: request.reason.clone() });
    let asking = caught(async { approver.ask(request).await });
    let decision = asking.await.unwrap_or_else(|panic| Err(format!("it crashed: {panic}")));
    let answer = match &decision {
        Ok(Decision::AllowOnce) => "allowed once",
        Ok(Decision::AllowAlways(_)) => "allowed always",
        Ok(Decision::AllowEdited(_)) => "allowed with other arguments",
        Ok(Decision::Deny { .. }) => "denied",
        Err(_) => "no answer",
    };
    cx.emit(EventKind::Answered, || What::Answered { answer: answer.to_owned() });
    match decision.map_err(|error| denied(format!("nobody could be asked for permission: {error}")))? {
        Decision::AllowOnce => Ok(None),
        Decision::AllowAlways(rule) => {
            // An answer that was not offered, or is wider, counts for once.
            if offered.is_some_and(|offered| offered.covers(&rule)) {
                cx.session().grant(rule);
            }
            Ok(None)
        }
        Decision::AllowEdited(input) => Ok(Some(input)),
        Decision::Deny { feedback } => {
            Err(denied(feedback.unwrap_or_else(|| format!("the user denied `{}`", cx.tool()))))
        }
    }
}

pub(crate) fn denied(reason: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Denied, reason)
}
