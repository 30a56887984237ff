//! `glob`: finds files by name, the hundred changed last.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::searches;
use haft_ops::{self as ops, Globbed, Globs};
use haft_text::count_of;

/// The most files listed.
const MAX_FILES: usize = 100;

/// Finds files.
pub(crate) struct Glob;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Glob pattern
    #[schemars(example = &"**/*.go")]
    pattern: String,
    /// Directory to search; the working directory if left out
    #[schemars(length(min = 1))]
    path: Option<String>,
}

impl Tool for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = include_str!("glob.md");
    type Input = Input;
    type Op = ops::Glob;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(30_000, Cut::Start)
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Glob, Fault> {
        let folder = ops::existing_folder(input.path.as_deref().unwrap_or("."), &cx.cwd(), cx)?.path;
        let globs = Globs::new(&input.pattern, &folder, cx)?;
        Ok(ops::Glob { globs, filter: super::filter(), limit: MAX_FILES, preview: None })
    }

    fn render(input: &Input, output: Globbed, cx: &Context) -> Result<Reply, Fault> {
        let files: Vec<String> = output.hits.iter().map(|hit| searches::display_hit(hit, cx)).collect();
        let text = match files.is_empty() {
            true => format!("No files fit {}", input.pattern),
            false => files.join("\n"),
        };
        let limited = output.total > files.len();
        let mut notes = searches::glob_notes(&output);
        if limited {
            let total = count_of(output.total as u64, "file");
            notes.insert(0, format!("{total} fit; the {} changed last are listed", files.len()));
        }
        let reply = Reply::text(text).structured(json!({
            "files": files,
            "total": output.total,
            "limited": limited,
            "incomplete": output.incomplete,
        }));
        Ok(notes.into_iter().fold(reply, |reply, note| reply.internal(format!("({note})"))))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(searches::describe(&input.pattern, input.path.as_deref()))
    }
}
