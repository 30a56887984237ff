//! Lists a server's tools, and reads its description of itself, within bounds. Every refused tool is reported as a
//! problem.

use std::collections::HashSet;

use rmcp::model::{
    ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo, ServerResult, Tool,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

use super::bounds;
use crate::name::qualified_name;

/// A server's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The program's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// The negotiated protocol version.
    pub protocol: String,
    /// Its instructions for models.
    pub instructions: Option<String>,
    /// Whether it has tools.
    pub has_tools: bool,
    /// Whether it has resources.
    pub has_resources: bool,
    /// Whether it has prompts.
    pub has_prompts: bool,
}

impl ServerInfo {
    pub(super) fn read(info: &ServerPeerInfo) -> Self {
        let about = info.server_info.as_ref();
        let instructions = info.instructions.as_ref();
        Self {
            name: bounds::word(about.map_or("", |about| &about.name)),
            version: bounds::word(about.map_or("", |about| &about.version)),
            protocol: bounds::word(&info.protocol_version.to_string()),
            instructions: instructions.map(|text| bounds::text(text, bounds::MAX_DESCRIPTION)),
            has_tools: info.capabilities.tools.is_some(),
            has_resources: info.capabilities.resources.is_some(),
            has_prompts: info.capabilities.prompts.is_some(),
        }
    }
}

/// A tool of a server, checked and sanitized.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListedTool {
    /// The qualified name, which models use.
    pub(super) name: String,
    /// The server's own name for it.
    pub(super) own_name: String,
    pub(super) description: String,
    pub(super) schema: Value,
    /// The output schema, if it declares one.
    pub(super) output: Option<Value>,
    pub(super) hints: Hints,
}

/// A server's hints about a tool, which haft does not trust by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hints {
    pub(super) read_only: bool,
    /// Set explicitly: the protocol's default is true.
    pub(super) destructive: bool,
}

/// The accepted tools, and messages about refused ones.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<ListedTool>,
    pub(super) problems: Vec<String>,
}

/// Asks a server for its tools.
pub(super) async fn tools(server: &str, peer: &Peer<RoleClient>) -> Result<Listing, ServiceError> {
    let mut listed = Vec::new();
    let mut problems = Vec::new();
    let mut pages = Pages::default();
    loop {
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(pages.request()));
        let (tools, next) = match peer.send_request(request).await? {
            ServerResult::ListToolsResult(page) => (page.tools, page.next_cursor),
            ServerResult::CustomResult(page) => {
                lenient(page.0, &mut problems).ok_or(ServiceError::UnexpectedResponse)?
            }
            _ => return Err(ServiceError::UnexpectedResponse),
        };
        listed.extend(tools);
        if listed.len() > bounds::MAX_TOOLS {
            problems.push(format!("it has more than {} tools: the others are left out", bounds::MAX_TOOLS));
            listed.truncate(bounds::MAX_TOOLS);
            break;
        }
        match pages.advance(next) {
            Ok(true) => {}
            Ok(false) => break,
            Err(problem) => {
                problems.push(problem);
                break;
            }
        }
    }
    let mut listing = check(server, listed);
    listing.problems.extend(problems);
    Ok(listing)
}

/// Decodes a page that the SDK could not, tool by tool. Malformed tools become problems.
fn lenient(mut page: Value, problems: &mut Vec<String>) -> Option<(Vec<Tool>, Option<String>)> {
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else { return None };
    let mut decode = |tool: Value| {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        match serde_path_to_error::deserialize(tool) {
            Ok(tool) => Some(tool),
            Err(error) => {
                let (name, why) = (bounds::word(&name), bounds::word(&error.to_string()));
                problems.push(format!("the tool `{name}` is left out: {why}"));
                None
            }
        }
    };
    let max = bounds::MAX_TOOLS + 1;
    Some((tools.into_iter().take(max).filter_map(&mut decode).collect(), next))
}

/// The cursor of a paginated list. Detects cycles, and bounds the number of pages.
#[derive(Default)]
pub(super) struct Pages {
    cursor: Option<String>,
    seen: HashSet<String>,
}

impl Pages {
    pub(super) fn request(&self) -> PaginatedRequestParams {
        PaginatedRequestParams::default().with_cursor(self.cursor.clone())
    }

    /// Advances to the next page. False at the end of the list; the error says why the rest is left out.
    pub(super) fn advance(&mut self, cursor: Option<String>) -> Result<bool, String> {
        let Some(cursor) = cursor else { return Ok(false) };
        if !self.seen.insert(cursor.clone()) {
            return Err("its list leads back to a page that was there before".to_owned());
        }
        if self.seen.len() >= bounds::MAX_PAGES {
            return Err(format!("its list has more than {} pages: the rest is left out", bounds::MAX_PAGES));
        }
        self.cursor = Some(cursor);
        Ok(true)
    }
}

/// Checks and sanitizes tools.
fn check(server: &str, tools: Vec<Tool>) -> Listing {
    let mut listing = Listing::default();
    let mut own_names = HashSet::new();
    let mut names = HashSet::new();
    for tool in tools {
        let shown = bounds::word(&tool.name);
        if !own_names.insert(tool.name.clone()) {
            listing.problems.push(format!("it names a tool `{shown}` twice: the second is left out"));
            continue;
        }
        let name = unique(qualified_name(server, &tool.name), &mut names);
        match bounds::schema(&tool.input_schema) {
            Err(why) => listing.problems.push(format!("the tool `{shown}` is left out: {why}")),
            Ok(schema) => {
                let annotations = tool.annotations.as_ref();
                let title = tool
                    .title
                    .as_deref()
                    .or(annotations.and_then(|annotations| annotations.title.as_deref()));
                let description = tool.description.as_deref().filter(|text| !text.trim().is_empty());
                let description = description.or(title).unwrap_or(&tool.name);
                let output = tool.output_schema.as_deref().map(bounds::output_schema).transpose();
                let output = output.unwrap_or_else(|why| {
                    listing
                        .problems
                        .push(format!("what is said of the output of `{shown}` is left out: {why}"));
                    None
                });
                listing.tools.push(ListedTool {
                    name,
                    own_name: tool.name.to_string(),
                    description: bounds::text(description, bounds::MAX_DESCRIPTION),
                    schema,
                    output,
                    hints: Hints {
                        read_only: annotations.and_then(|hints| hints.read_only_hint) == Some(true),
                        destructive: annotations.and_then(|hints| hints.destructive_hint) == Some(true),
                    },
                });
            }
        }
    }
    listing
}

/// The name, with a number if another tool has it.
fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let mut candidate = name.clone();
    let mut number = 2;
    while !taken.insert(candidate.clone()) {
        let end = format!("_{number}");
        let keep = name.len().min(crate::name::MAX_NAME - end.len());
        candidate = format!("{}{end}", &name[..keep]);
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: Value) -> Tool {
        Tool::new(name.to_owned(), "about", Arc::new(schema.as_object().unwrap().clone()))
    }

    #[test]
    fn colliding_names_get_a_number() {
        let mut taken = HashSet::new();
        let long = "x".repeat(64);
        assert_eq!(unique(long.clone(), &mut taken), long);
        let other = unique(long.clone(), &mut taken);
        assert_eq!(other.len(), 64);
        assert!(other.ends_with("_2"), "{other}");
        assert!(unique(long, &mut taken).ends_with("_3"));
    }

    #[test]
    fn a_refused_tool_is_a_problem_and_the_others_are_listed() {
        let listing = check(
            "s",
            vec![tool("a", json!({})), tool("b", json!({"type": "string"})), tool("a", json!({}))],
        );
        assert_eq!(listing.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(), ["mcp__s__a"]);
        assert!(listing.problems[0].contains("`b`"), "{:?}", listing.problems);
        assert!(listing.problems[1].contains("`a` twice"), "{:?}", listing.problems);
    }

    #[test]
    fn a_malformed_tool_does_not_affect_the_others() {
        let page = json!({"nextCursor": "n", "tools": [
            {"name": "good", "inputSchema": {"type": "object"}}, {"name": "none"},
            {"name": "null", "inputSchema": null}, 7,
        ]});
        let mut problems = Vec::new();
        let (tools, next) = lenient(page, &mut problems).unwrap();
        assert_eq!((tools.len(), &*tools[0].name, next.as_deref()), (1, "good", Some("n")));
        assert!(problems[0].contains("`none`") && problems[0].contains("inputSchema"), "{problems:?}");
        assert_eq!(problems.len(), 3);
        assert!(lenient(json!({"tools": 7}), &mut problems).is_none());
    }

    #[test]
    fn a_cycle_of_pages_ends() {
        let mut pages = Pages::default();
        assert_eq!(pages.advance(Some("a".to_owned())), Ok(true));
        assert_eq!(pages.advance(Some("b".to_owned())), Ok(true));
        assert!(pages.advance(Some("a".to_owned())).is_err());
    }
}
