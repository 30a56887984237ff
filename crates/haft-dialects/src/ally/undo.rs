//! `undo`: undoes patches.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Success, recently_modified, shown_diff, success};
use haft_ops::{self as ops, Chosen, Clash, Direction, Undone};

/// Undoes patches.
pub(crate) struct Undo;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Patch numbers to undo (default: the last patch of this session)
    #[serde(default)]
    #[schemars(length(max = 1000))]
    patch_numbers: Vec<u64>,
    /// Undo this many of the last patches
    #[schemars(range(min = 1, max = 1000))]
    last: Option<usize>,
    /// Keep later changes of the same files where they are in other lines
    #[serde(default)]
    merge: bool,
}

/// The reply of `undo`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The patches that were undone
    undone: Vec<u64>,
    /// The numbers under which that was recorded
    patch_numbers: Vec<u64>,
    /// What happened to the files
    diff: String,
    /// Files that were modified last
    recently_modified: Vec<String>,
}

impl Input {
    fn chosen(&self) -> Chosen<'_> {
        Chosen { numbers: &self.patch_numbers, field: "patch_numbers", last: self.last }
    }
}

impl Tool for Undo {
    const NAME: &'static str = "undo";
    const DESCRIPTION: &'static str = include_str!("undo.md");
    type Input = Input;
    type Op = ops::Undo;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).output::<Success<Output>>()
    }

    fn refers_to_earlier_calls(input: &Input) -> bool {
        input.chosen().is_relative()
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Undo, Fault> {
        let clash = if input.merge { Clash::Merge } else { Clash::Refuse };
        input.chosen().find(Direction::Undo, clash, cx)
    }

    fn render(_input: &Input, output: Undone, cx: &Context) -> Result<Reply, Fault> {
        let Undone { changes, diff, notes } = output;
        let diff = shown_diff(&diff);
        let recently_modified = recently_modified(None, cx);
        let (undone, patch_numbers) = changes.into_iter().map(|(entry, by)| (entry.number, by)).unzip();
        Ok(super::with_notes(success(Output { undone, patch_numbers, diff, recently_modified }), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.chosen().shown())
    }
}
