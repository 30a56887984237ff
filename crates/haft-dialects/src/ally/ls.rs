//! `ls`: lists one directory, directories first.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use haft_sandbox::{Kind, names};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Success, success};
use haft_ops::{self as ops, Depth, Hidden, List, Listed, Listing, Order};
use haft_text::seconds;

/// The most entries shown.
const MAX_ENTRIES: usize = 50;

/// Lists a directory.
pub(crate) struct Ls;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Directory path
    #[schemars(example = &".")]
    file_path: String,
    /// Glob patterns of names to leave out
    #[serde(default)]
    #[schemars(example = ["*.pyc", "__pycache__"])]
    ignore: Vec<String>,
}

/// The reply of `ls`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The entries, directories first
    files: Vec<Entry>,
    /// How many there are
    total_count: usize,
    /// How many are shown
    shown_count: usize,
    /// The directory
    directory_path: String,
    /// Whether there are more than are shown
    truncated: bool,
    /// What to do about it
    #[serde(skip_serializing_if = "Option::is_none")]
    guidance: Option<String>,
}

/// An entry of a directory.
#[derive(Serialize, JsonSchema)]
struct Entry {
    /// Its name
    name: String,
    /// Its whole path
    path: String,
    /// `file`, `directory`, `symlink` or `other`
    r#type: &'static str,
    /// Its size in bytes; null for directories
    size: Option<u64>,
    /// When it was last changed, in seconds since 1970
    modified: f64,
    /// Its permissions in octal
    permissions: String,
    /// The end of its name from the last dot on; files only
    #[serde(skip_serializing_if = "Option::is_none")]
    extension: Option<String>,
}

impl Tool for Ls {
    const NAME: &'static str = "ls";
    const DESCRIPTION: &'static str = include_str!("ls.md");
    type Input = Input;
    type Op = List;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(100_000, Cut::Start).output::<Success<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<List, Fault> {
        Ok(List {
            folder: ops::existing_folder(&input.file_path, &cx.cwd(), cx)?.path,
            depth: Depth::One,
            hidden: Hidden::Show,
            ignore: ops::ignore_set(&input.ignore)?,
            order: Order::FoldersFirst,
            limit: MAX_ENTRIES,
        })
    }

    fn render(_input: &Input, listing: Listing, _cx: &Context) -> Result<Reply, Fault> {
        let truncated = listing.total > listing.entries.len();
        Ok(success(Output {
            total_count: listing.total,
            shown_count: listing.entries.len(),
            directory_path: listing.folder.to_string(),
            truncated,
            guidance: truncated.then(|| {
                format!("only {MAX_ENTRIES} of {} entries are shown: list a directory below, or leave some out with `ignore`", listing.total)
            }),
            files: listing.entries.into_iter().map(entry).collect(),
        }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}

fn entry(listed: Listed) -> Entry {
    let extension = (listed.kind == Kind::File).then(|| match listed.path.extension() {
        Some(extension) => format!(".{}", names::show(extension)),
        None => String::new(),
    });
    Entry {
        path: names::show(listed.path.as_os_str()),
        r#type: match listed.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Special(_) => "other",
        },
        size: (listed.kind != Kind::Directory).then_some(listed.size),
        modified: seconds(listed.modified),
        permissions: format!("{:o}", listed.mode & 0o777),
        extension,
        name: listed.name,
    }
}
