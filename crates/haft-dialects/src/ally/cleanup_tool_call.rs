//! `cleanup_tool_call`: drops results of earlier calls from the context.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Success, success};
use haft_ops::{Forget, ForgottenCall};

/// Drops results.
pub(crate) struct CleanupToolCall;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The ids of the calls
    #[schemars(example = ["call_1"], length(min = 1, max = 100))]
    tool_call_ids: Vec<String>,
}

/// The reply of `cleanup_tool_call`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The calls whose results are dropped
    cleaned: Vec<Cleaned>,
    /// What happened
    message: String,
}

/// A call whose result is dropped.
#[derive(Serialize, JsonSchema)]
struct Cleaned {
    /// Its id
    tool_call_id: String,
    /// The tool that was called
    tool_name: String,
}

impl Tool for CleanupToolCall {
    const NAME: &'static str = "cleanup_tool_call";
    const DESCRIPTION: &'static str = include_str!("cleanup_tool_call.md");
    type Input = Input;
    type Op = Forget;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Utility).sensitivity(Sensitivity::Safe).in_plan().output::<Success<Output>>()
    }

    fn lower(input: &Input, _cx: &Context) -> Result<Forget, Fault> {
        Ok(Forget { calls: input.tool_call_ids.clone() })
    }

    fn render(_input: &Input, output: Vec<ForgottenCall>, _cx: &Context) -> Result<Reply, Fault> {
        let cleaned: Vec<Cleaned> = output
            .into_iter()
            .map(|ForgottenCall { id, call }| Cleaned { tool_call_id: id, tool_name: call.tool.to_string() })
            .collect();
        let message = match cleaned.len() {
            1 => "the result of 1 call is dropped".to_owned(),
            count => format!("the results of {count} calls are dropped"),
        };
        Ok(success(Output { cleaned, message }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.tool_call_ids.join(", "))
    }
}
