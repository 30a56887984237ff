//! `WebSearch`: searches the web with the provider of the settings.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::web;
use haft_web::{Fence, Found, Search};

/// How many results are shown.
const RESULTS: usize = 10;

/// Searches the web.
pub(crate) struct WebSearch;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The words to search for
    #[schemars(example = "rust html to markdown crate")]
    query: String,
    /// Only results of these domains and their subdomains
    #[serde(default)]
    #[schemars(example = ["docs.rs"], length(max = 20))]
    allowed_domains: Vec<String>,
    /// No results of these domains and their subdomains
    #[serde(default)]
    #[schemars(length(max = 20))]
    blocked_domains: Vec<String>,
}

impl Tool for WebSearch {
    const NAME: &'static str = "WebSearch";
    const DESCRIPTION: &'static str = include_str!("web_search.md");
    type Input = Input;
    type Op = Search;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Web).read_only().max_result(30_000, Cut::Start)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Search, Fault> {
        Search::new(&input.query, &input.allowed_domains, &input.blocked_domains, RESULTS, cx)
    }

    fn render(input: &Input, output: Found, _cx: &Context) -> Result<Reply, Fault> {
        let results: Vec<_> = output
            .results
            .iter()
            .map(|hit| json!({"title": hit.title, "url": hit.url, "snippet": hit.snippet, "date": hit.date}))
            .collect();
        let structured = json!({
            "query": input.query,
            "results": results,
            "provider": output.provider,
            "durationMs": u64::try_from(output.took.as_millis()).unwrap_or(u64::MAX),
        });
        let text = match output.results.is_empty() {
            true => format!("nothing was found for `{}`", input.query.trim()),
            false => Fence::new().around("the web, found by a search", &web::listed(&output)),
        };
        let reply = Reply::text(text).structured(structured);
        Ok(output.notes.iter().fold(reply, |reply, note| reply.internal(format!("note: {note}"))))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.query.clone())
    }
}
