//! `Undo`: undoes changes.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use haft_ops::{self as ops, Chosen, Clash, Direction, Undone};
use haft_text::{clip_for_reply, shorten_long_lines};

/// Undoes changes.
pub(crate) struct Undo;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The numbers of the changes to undo; without them the last one of this session
    #[serde(default)]
    #[schemars(length(max = 1000))]
    changes: Vec<u64>,
    /// How many of this session's last changes to undo
    #[schemars(range(min = 1, max = 1000))]
    last: Option<usize>,
    /// Keep what was changed in the files since, where it is in other lines
    #[serde(default)]
    merge: bool,
    /// Make changes again that were undone, instead of undoing them
    #[serde(default)]
    redo: bool,
}

impl Input {
    fn chosen(&self) -> Chosen<'_> {
        Chosen { numbers: &self.changes, field: "changes", last: self.last }
    }
}

impl Tool for Undo {
    const NAME: &'static str = "Undo";
    const DESCRIPTION: &'static str = include_str!("undo.md");
    type Input = Input;
    type Op = ops::Undo;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).max_result(30_000, Cut::Both)
    }

    fn refers_to_earlier_calls(input: &Input) -> bool {
        input.chosen().is_relative()
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Undo, Fault> {
        if input.redo && input.merge {
            return Err(Fault::invalid("`merge` is for undoing; what is redone must be as it was left"));
        }
        let direction = if input.redo { Direction::Redo } else { Direction::Undo };
        let clash = if input.merge { Clash::Merge } else { Clash::Refuse };
        input.chosen().find(direction, clash, cx)
    }

    fn render(input: &Input, output: Undone, _cx: &Context) -> Result<Reply, Fault> {
        let word = if input.redo { "redid" } else { "undid" };
        let lines = output
            .changes
            .iter()
            .map(|(entry, by)| format!("{word} change {} ({}) as change {by}", entry.number, entry.tool));
        let text = format!(
            "{}\n{}",
            lines.collect::<Vec<_>>().join("\n"),
            clip_for_reply(&shorten_long_lines(&output.diff)).trim_end()
        );
        let changes: Vec<_> =
            output.changes.iter().map(|(entry, by)| json!({"change": entry.number, "patch": by})).collect();
        let mut reply =
            Reply::text(text.trim_end()).structured(json!({"changes": changes, "diff": output.diff}));
        for note in output.notes {
            reply = reply.internal(format!("note: {note}"));
        }
        Ok(reply)
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.chosen().shown())
    }
}
