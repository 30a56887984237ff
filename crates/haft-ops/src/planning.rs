//! Planning before anything is changed: beginning it, and ending it with a plan that somebody approves of. That
//! nothing is changed meanwhile is held by the engine.

mod wishes;

use std::path::PathBuf;

use haft_core::permissions::Rule;
use haft_core::{AbsPath, Claims, Context, Effect, Fault, FaultKind, Mode, Operation, Preview, Resource};

pub use wishes::{Granted, Wish};

/// No plan is larger.
const MAX_PLAN: u64 = 1 << 20;

/// Where a session may write its plan down: what a host can set.
#[derive(Clone, Debug, Default)]
pub struct PlanPlace(pub Option<PathBuf>);

impl PlanPlace {
    /// The plan file of a session, if there is a place for it.
    pub fn find(cx: &Context) -> Option<AbsPath> {
        let place = cx.session().extension::<Self>();
        let path = place.0.as_ref()?.to_str()?;
        cx.workspace().resolve(cx.workspace().root(), path).ok().map(|place| place.path)
    }
}

/// Begins to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnterPlan;

/// Where the plan goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The plan file; without one, the plan is handed over when planning ends.
    pub file: Option<AbsPath>,
}

impl Operation for EnterPlan {
    type Output = Entered;

    /// Calls before it in a turn may still change something, and those after it may not.
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

/// Ends the planning, once somebody approves of the plan.
#[derive(Clone, Debug)]
pub struct LeavePlan {
    given: Option<String>,
    wishes: Vec<Wish>,
    ready: Option<Plan>,
}

/// A plan, and what is asked for with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is planned.
    pub text: String,
    /// Where it was written down.
    pub file: Option<AbsPath>,
    /// What is allowed with it, wish by wish.
    pub granted: Vec<Granted>,
    /// What cannot be said as rules, and so is not.
    pub not_granted: Vec<Wish>,
}

/// How planning ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The plan is approved of, and this is how permissive the session is now.
    Approved(Plan, Mode),
    /// It waits for an answer by this id; the session still plans.
    Awaiting(String),
}

impl LeavePlan {
    /// With a plan, where none was written down, and what is to be allowed with it.
    pub fn new(given: Option<String>, wishes: Vec<Wish>) -> Self {
        Self { given, wishes, ready: None }
    }

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
    /// Everything that is allowed with it.
    pub fn rules(&self) -> Vec<Rule> {
        self.granted.iter().flat_map(|granted| granted.rules.clone()).collect()
    }

    /// What somebody sees who is to approve of it.
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
