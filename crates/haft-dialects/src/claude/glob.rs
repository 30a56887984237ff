//! `Glob`: finds files by name, those changed last first.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::searches;
use haft_ops::{self as ops, Filter, Globbed, Globs};
use haft_text::count_of;

/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 30_000;
/// The most files: more do not fit into a reply, however short their names are.
const MAX_FILES: usize = 10_000;
/// Characters reserved for notes.
const FOR_NOTES: usize = 500;

/// Finds files.
pub(crate) struct Glob;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The pattern that file names must fit
    #[schemars(example = "**/*.rs")]
    pattern: String,
    /// The directory to search in; the working directory if left out
    #[schemars(length(min = 1))]
    path: Option<String>,
}

impl Tool for Glob {
    const NAME: &'static str = "Glob";
    const DESCRIPTION: &'static str = include_str!("glob.md");
    type Input = Input;
    type Op = ops::Glob;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(MAX_RESULT_CHARS, Cut::Start)
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Glob, Fault> {
        let folder = ops::existing_folder(input.path.as_deref().unwrap_or("."), &cx.cwd(), cx)?.path;
        let globs = Globs::new(&input.pattern, &folder, cx)?;
        Ok(ops::Glob { globs, filter: Filter::default(), limit: MAX_FILES, preview: None })
    }

    fn render(input: &Input, output: Globbed, cx: &Context) -> Result<Reply, Fault> {
        let mut text = String::new();
        let mut files = Vec::new();
        for hit in &output.hits {
            let line = searches::display_hit(hit, cx);
            if text.len() + line.len() + 1 > MAX_RESULT_CHARS - FOR_NOTES {
                break;
            }
            text.push_str(&line);
            text.push('\n');
            files.push(line);
        }
        let limited = files.len() < output.total;
        let structured = json!({
            "files": files,
            "total": output.total,
            "limited": limited,
            "incomplete": output.incomplete,
        });
        if files.is_empty() {
            text = format!("no file fits `{}`", input.pattern);
        }
        let mut notes = searches::glob_notes(&output);
        if limited {
            notes.insert(
                0,
                format!(
                    "the {} changed last of {} are listed; narrow the pattern to see others",
                    files.len(),
                    count_of(output.total as u64, "file")
                ),
            );
        }
        let reply = Reply::text(text.trim_end()).structured(structured);
        Ok(notes.into_iter().fold(reply, |reply, note| reply.internal(format!("note: {note}"))))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(searches::describe(&input.pattern, input.path.as_deref()))
    }
}
