//! `list_directory`: lists a directory, one level or recursively.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use haft_sandbox::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, ok};
use haft_ops::{self as ops, Depth, Hidden, List, Listed, Listing, Order};
use haft_text::iso;

/// The most entries of a listing.
const MAX_ENTRIES: usize = 20_000;

/// Lists a directory.
pub(crate) struct ListDirectory;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Input {
    /// Path relative to the workspace root
    #[schemars(example = &"src")]
    path: String,
    /// Whether to list everything below the directory
    #[serde(default)]
    recursive: bool,
    /// Whether to list names that begin with a dot
    #[serde(default)]
    include_hidden: bool,
}

/// The value of `list_directory`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// What is in the directory
    entries: Vec<Entry>,
    /// Set when there are more entries than are listed
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    /// Directories that could not be looked into
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
}

/// An entry of a directory.
#[derive(Serialize, JsonSchema)]
struct Entry {
    /// Its name; its path from the directory when the listing is recursive
    name: String,
    /// `file`, `directory` or `symlink`
    r#type: &'static str,
    /// Its size in bytes; 0 for directories
    size: u64,
    /// When it was last changed, as an ISO 8601 timestamp
    modified: String,
}

impl Tool for ListDirectory {
    const NAME: &'static str = "list_directory";
    const DESCRIPTION: &'static str = include_str!("list_directory.md");
    type Input = Input;
    type Op = List;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(100_000, Cut::Start).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<List, Fault> {
        Ok(List {
            folder: ops::existing_folder(&input.path, cx.workspace().root(), cx)?.path,
            depth: if input.recursive { Depth::All } else { Depth::One },
            hidden: if input.include_hidden { Hidden::Show } else { Hidden::Skip },
            ignore: ops::ignore_set(&[])?,
            order: Order::Name,
            limit: MAX_ENTRIES,
        })
    }

    fn render(_input: &Input, listing: Listing, _cx: &Context) -> Result<Reply, Fault> {
        Ok(ok(Output {
            truncated: (listing.total > listing.entries.len()).then_some(true),
            unreadable: listing.unreadable,
            entries: listing.entries.into_iter().map(entry).collect(),
        }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.path.clone())
    }
}

fn entry(listed: Listed) -> Entry {
    Entry {
        name: listed.name,
        r#type: match listed.kind {
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::File | Kind::Special(_) => "file",
        },
        // The size of a directory itself says nothing about its content.
        size: if listed.kind == Kind::Directory { 0 } else { listed.size },
        modified: iso(listed.modified),
    }
}
