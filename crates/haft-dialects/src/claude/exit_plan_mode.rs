//! `ExitPlanMode`: submits the plan for approval.

use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Mode, Reply, Sensitivity, Spec, Tool};

use super::enter_plan_mode::nobody_approves;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use haft_ops::{LeavePlan, Left, Plan, Wish};

/// Ends the planning.
pub(crate) struct ExitPlanMode;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = true))]
pub(crate) struct Input {
    /// What the plan needs to be allowed, by what is done and not by commands
    #[serde(default)]
    #[schemars(length(max = 50))]
    allowed_prompts: Vec<AllowedPrompt>,
    /// The plan, where the session has no plan file
    #[schemars(example = &"1. Read the dates\n2. Test that")]
    plan: Option<String>,
    /// Whether to push the plan to a remote session; that is not possible here
    #[serde(default)]
    push_to_remote: bool,
    /// The id of the remote session
    remote_session_id: Option<String>,
    /// The title of the remote session
    remote_session_title: Option<String>,
    /// The address of the remote session
    remote_session_url: Option<String>,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AllowedPrompt {
    /// The tool
    tool: PromptTool,
    /// What is done with it
    #[schemars(example = &"run tests", length(min = 1))]
    prompt: String,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
enum PromptTool {
    Bash,
}

impl Input {
    fn is_remote(&self) -> bool {
        let named = [&self.remote_session_id, &self.remote_session_title, &self.remote_session_url];
        self.push_to_remote || named.iter().any(|name| name.is_some())
    }
}

impl Tool for ExitPlanMode {
    const NAME: &'static str = "ExitPlanMode";
    const DESCRIPTION: &'static str = include_str!("exit_plan_mode.md");
    type Input = Input;
    type Op = LeavePlan;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Planning).sensitivity(Sensitivity::Sensitive).in_plan()
    }

    /// In plan mode it is offered in any case, so that the model learns what it waits for.
    fn unavailable(cx: &Context) -> Option<Fault> {
        let session = cx.session();
        (session.mode() != Mode::Plan && !session.can_ask_approval()).then(nobody_approves)
    }

    fn lower(input: &Input, _cx: &Context) -> Result<LeavePlan, Fault> {
        let wish = |allowed: &AllowedPrompt| match allowed.tool {
            PromptTool::Bash => Wish { tool: "Bash".to_owned(), meaning: allowed.prompt.clone() },
        };
        Ok(LeavePlan::new(input.plan.clone(), input.allowed_prompts.iter().map(wish).collect()))
    }

    fn approval(_input: &Input, _op: &LeavePlan, cx: &Context) -> Approval {
        match cx.session().engine().plan_approver() {
            // A host that approves plans asynchronously is asked instead of the user.
            Some(_) => Approval::NotNeeded,
            None => Approval::NeededAlways("a plan is to be approved".to_owned()),
        }
    }

    fn render(input: &Input, output: Left, _cx: &Context) -> Result<Reply, Fault> {
        let reply = match output {
            Left::Awaiting(id) => Reply::object(json!({
                "awaitingLeaderApproval": true,
                "requestId": id,
                "message": "the plan waits for approval; nothing can be changed until then",
            })),
            Left::Approved(plan, mode) => {
                let file = plan.file.as_ref().map(ToString::to_string);
                let granted = plan.rules();
                let not_granted: Vec<&str> =
                    plan.not_granted.iter().map(|wish| wish.meaning.as_str()).collect();
                let structured = json!({
                    "plan": plan.text, "filePath": file, "mode": mode.name(),
                    "granted": granted, "notGranted": not_granted,
                });
                Reply::text(approved(&plan)).structured(structured)
            }
        };
        Ok(match input.is_remote() {
            true => reply.internal("note: plans are not pushed to remote sessions here"),
            false => reply,
        })
    }

    fn preview_use(input: &Input) -> Option<String> {
        let first = input.plan.as_ref().and_then(|plan| plan.lines().next());
        Some(first.unwrap_or("the plan is ready").to_owned())
    }
}

fn approved(plan: &Plan) -> String {
    let mut text = "the plan is approved, and things can be changed again. Begin with the work".to_owned();
    let rules: Vec<String> = plan.rules().iter().map(|rule| format!("`{rule}`")).collect();
    if !rules.is_empty() {
        text.push_str(&format!("\nallowed from now on: {}", rules.join(", ")));
    }
    for wish in &plan.not_granted {
        text.push_str(&format!(
            "\nnot allowed: `{}`, which is no chore that is well known here; it will be asked when it comes to it",
            wish.meaning
        ));
    }
    text
}
