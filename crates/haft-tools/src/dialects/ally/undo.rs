//! `undo`: takes patches back.

use haft::{Context, Fault, FaultKind, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Success, recently_modified, success};
use crate::ops::{self, Clash, Direction, Undone, Which};

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

impl Tool for Undo {
    const NAME: &'static str = "undo";
    const DESCRIPTION: &'static str = include_str!("undo.md");
    type Input = Input;
    type Op = ops::Undo;

    fn spec(spec: Spec) -> Spec {
        spec.category("file").sensitivity(Sensitivity::Sensitive).output::<Success<Output>>()
    }

    fn enabled(cx: &Context) -> bool {
        cx.session().journal().is_some()
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Undo, Fault> {
        let Some(journal) = cx.session().journal() else {
            return Err(Fault::new(FaultKind::Disabled, "this session keeps no journal"));
        };
        let session = cx.session().id().clone();
        let which = match (input.patch_numbers.as_slice(), input.last) {
            ([], last) => Which::Last(last.unwrap_or(1), Some(&session)),
            (numbers, None) => Which::Numbers(numbers),
            _ => return Err(Fault::invalid("give `patch_numbers` or `last`, not both")),
        };
        let clash = if input.merge { Clash::Merge } else { Clash::Refuse };
        ops::Undo::find(journal, &which, Direction::Undo, clash)
    }

    fn render(_input: &Input, output: Undone, cx: &Context) -> Result<Reply, Fault> {
        let Undone { changes, diff, notes } = output;
        let recently_modified = recently_modified(None, cx);
        let (undone, patch_numbers) = changes.into_iter().map(|(entry, by)| (entry.number, by)).unzip();
        Ok(super::noted(success(Output { undone, patch_numbers, diff, recently_modified }), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(match (input.patch_numbers.as_slice(), input.last) {
            ([], last) => format!("the last {}", last.unwrap_or(1)),
            (numbers, _) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        })
    }
}
