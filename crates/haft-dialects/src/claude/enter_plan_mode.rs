//! `EnterPlanMode`: enters plan mode, in which nothing is changed until a plan is approved.

use haft_core::{Category, Context, Fault, FaultKind, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use haft_ops::{EnterPlan, Entered};

/// Begins to plan.
pub(crate) struct EnterPlanMode;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {}

impl Tool for EnterPlanMode {
    const NAME: &'static str = "EnterPlanMode";
    const DESCRIPTION: &'static str = include_str!("enter_plan_mode.md");
    type Input = Input;
    type Op = EnterPlan;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Planning).sensitivity(Sensitivity::Safe).in_plan()
    }

    /// Without a person who approves the plan, nothing could be changed for the rest of the session.
    fn unavailable(cx: &Context) -> Option<Fault> {
        (!cx.session().can_ask_approval()).then(nobody_approves)
    }

    fn lower(_input: &Input, _cx: &Context) -> Result<EnterPlan, Fault> {
        Ok(EnterPlan)
    }

    fn render(_input: &Input, output: Entered, _cx: &Context) -> Result<Reply, Fault> {
        let (but, place) = match &output.file {
            Some(file) => {
                (format!(" but the plan file `{file}`"), "write the plan there, and call ExitPlanMode")
            }
            None => (String::new(), "make a plan, and pass it to ExitPlanMode as `plan`"),
        };
        let text = format!(
            "this session only plans now: nothing can be changed{but}. Look around, ask what is open, {place} for approval"
        );
        let file = output.file.map(|file| file.to_string());
        Ok(Reply::text(text).structured(json!({"planFile": file})))
    }

    fn preview_use(_input: &Input) -> Option<String> {
        Some("plan first".to_owned())
    }
}

/// Says that plan mode cannot be left here.
pub(super) fn nobody_approves() -> Fault {
    Fault::new(FaultKind::Disabled, "nobody can approve a plan in this session")
        .hint("state the plan in your answer, and go on")
}
