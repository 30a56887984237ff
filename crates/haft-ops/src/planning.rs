//! The operations that enter and leave plan mode: the model plans first, and the session allows changes once the user has
//! approved the plan. The engine enforces that a session in plan mode changes nothing.

mod wishes;

use std::path::PathBuf;

use haft_core::permissions::Rule;
use haft_core::{AbsPath, Claims, Context, Effect, Fault, FaultKind, Mode, Operation, Preview, Resource};

pub use wishes::{Granted, Wish};

/// Largest plan in bytes.
const MAX_PLAN: u64 = 1 << 20;

/// Path of the plan file, the only file that a session in plan mode may write. The host sets it.
#[derive(Clone, Debug, Default)]
pub struct PlanPlace(pub Option<PathBuf>);

impl PlanPlace {
    /// Path of the session's plan file, if the host has set one inside the workspace.
    pub fn find(cx: &Context) -> Option<AbsPath> {
        let place = cx.session().extension::<Self>();
        let path = place.0.as_ref()?.to_str()?;
        cx.workspace().resolve(cx.workspace().root(), path).ok().map(|place| place.path)
    }
}

/// Enters plan mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnterPlan;

/// Result of entering plan mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The plan file; without one, the call that leaves plan mode contains the plan.
    pub file: Option<AbsPath>,
}

impl Operation for EnterPlan {
    type Output = Entered;

    /// Runs alone: earlier calls of a turn may still change something, later ones may not.
    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Everything)
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        match (cx.session().mode(), cx.session().plan_file()) {
            (Mode::Plan, Some(file)) => {
                Err(Fault::new(FaultKind::Conflict, "this session only plans already")
                    .hint(format!("write the plan into `{}`", cx.workspace().display(&file))))
            }
            (Mode::Plan, None) => Err(Fault::new(FaultKind::Conflict, "this session only plans already")),
            _ => Ok(None),
        }
    }

    async fn run(self, cx: &Context) -> Result<Entered, Fault> {
        let file = PlanPlace::find(cx);
        cx.effect(Effect::PlanFile(file.clone()));
        cx.effect(Effect::Mode(Mode::Plan));
        Ok(Entered { file })
    }
}

/// Leaves plan mode, once the user approves the plan.
#[derive(Clone, Debug)]
pub struct LeavePlan {
    given: Option<String>,
    wishes: Vec<Wish>,
    /// The plan that `check` read and the user saw.
    ready: Option<Plan>,
}

/// A plan, and the permissions that come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Text of the plan.
    pub text: String,
    /// The plan file.
    pub file: Option<AbsPath>,
    /// Requested permissions that became rules.
    pub granted: Vec<Granted>,
    /// Requested permissions that no rule expresses and that are therefore not granted.
    pub not_granted: Vec<Wish>,
}

/// Result of leaving plan mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The user approved the plan, and the session is in this mode now.
    Approved(Plan, Mode),
    /// The plan is pending under this request id; the session remains in plan mode.
    Awaiting(String),
}

impl LeavePlan {
    /// `given` is the plan for a session without a plan file; `wishes` are the permissions that it requests.
    pub fn new(given: Option<String>, wishes: Vec<Wish>) -> Self {
        Self { given, wishes, ready: None }
    }

    /// Takes the plan that `check` made, or reads it.
    async fn plan(&mut self, cx: &Context) -> Result<Plan, Fault> {
        if let Some(plan) = self.ready.take() {
            return Ok(plan);
        }
        let file = cx.session().plan_file();
        let written = file.as_ref().and_then(|file| cx.workspace().open_file(file).ok());
        let written = match written {
            Some(open) if open.stat.size > MAX_PLAN => {
                return Err(Fault::new(FaultKind::TooLarge, "the plan is larger than a megabyte")
                    .hint("say it in fewer words"));
            }
            Some(open) => {
                let unread =
                    |error: std::io::Error| Fault::failed(format!("the plan cannot be read: {error}"));
                haft_core::blocking(move || open.read_whole(MAX_PLAN).map_err(unread)).await?
            }
            None => Vec::new(),
        };
        let written = String::from_utf8_lossy(&written).into_owned();
        let given = self.given.clone().unwrap_or_default();
        let text = if written.trim().is_empty() { given } else { written };
        if text.trim().is_empty() {
            let fault = Fault::new(FaultKind::NotFound, "there is no plan yet");
            return Err(match &file {
                Some(file) => fault.hint(format!("write it into `{}` first", cx.workspace().display(file))),
                None => fault.hint("this session has no plan file; hand the plan over with the call"),
            });
        }
        let (granted, not_granted) = wishes::grant(&self.wishes, cx);
        Ok(Plan { text, file, granted, not_granted })
    }
}

impl Plan {
    /// All rules that the approval of the plan adds to the session.
    pub fn rules(&self) -> Vec<Rule> {
        self.granted.iter().flat_map(|granted| granted.rules.clone()).collect()
    }

    /// Text of the plan and its permissions, for the user's approval.
    fn shown(&self) -> String {
        let mut shown = self.text.trim_end().to_owned();
        if !self.granted.is_empty() {
            shown.push_str("\n\nallowed with it, as long as the session lasts:");
        }
        for Granted { wish, rules } in &self.granted {
            for rule in rules {
                shown.push_str(&format!("\n  {rule}  ({})", wish.meaning));
            }
        }
        if !self.not_granted.is_empty() {
            shown.push_str("\n\nasked for, and not allowed with it:");
        }
        for wish in &self.not_granted {
            shown.push_str(&format!("\n  {}: {}", wish.tool, wish.meaning));
        }
        shown.push('\n');
        shown
    }
}

impl Operation for LeavePlan {
    type Output = Left;

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Everything)
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        if cx.session().mode() != Mode::Plan {
            return Err(Fault::new(
                FaultKind::Conflict,
                "this session is not planning, so there is no plan to end",
            )
            .hint("go on with the work, or begin to plan first"));
        }
        if let Some(id) = cx.session().pending_plan() {
            return Err(Fault::new(
                FaultKind::Conflict,
                format!("the plan waits for approval already, as `{id}`"),
            )
            .hint("wait for the answer; nothing can be changed until then")
            .with("request_id", id));
        }
        let plan = self.plan(cx).await?;
        let preview = Preview::new(plan.shown());
        self.ready = Some(plan);
        Ok(Some(preview))
    }

    async fn run(mut self, cx: &Context) -> Result<Left, Fault> {
        let plan = self.plan(cx).await?;
        if cx.session().engine().plan_approver().is_some() {
            let rules = plan.rules();
            return cx.submit_plan(plan.shown(), rules).await.map(Left::Awaiting);
        }
        let mode = cx.session().mode_after_plan();
        for rule in plan.rules() {
            cx.effect(Effect::Granted(rule));
        }
        cx.effect(Effect::PlanFile(None));
        cx.effect(Effect::Mode(mode));
        Ok(Left::Approved(plan, mode))
    }
}
