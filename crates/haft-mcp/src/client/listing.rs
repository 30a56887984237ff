//! What a server says of itself and of its tools, within bounds. What is not taken is told, never silently left out.

use std::collections::HashSet;

use rmcp::model::{
    ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo, ServerResult, Tool as Foreign,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

use super::bounds;
use crate::name::qualified;

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// What it calls itself.
    pub name: String,
    /// Which version it is.
    pub version: String,
    /// The version of the protocol that was agreed upon.
    pub protocol: String,
    /// What it wants models to know.
    pub instructions: Option<String>,
    /// Whether it has tools.
    pub has_tools: bool,
    /// Whether it has resources.
    pub has_resources: bool,
    /// Whether it has prompts.
    pub has_prompts: bool,
}

impl About {
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

/// A tool as a server offers it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Offered {
    /// The name under which a model sees it.
    pub(super) name: String,
    /// The name under which the server knows it.
    pub(super) own_name: String,
    pub(super) description: String,
    pub(super) schema: Value,
    /// What the structured part of its answers looks like.
    pub(super) output: Option<Value>,
    pub(super) hints: Hints,
}

/// What a server says of a tool. It is not believed for that alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hints {
    pub(super) read_only: bool,
    /// Said outright, not only for want of another word.
    pub(super) destructive: bool,
}

/// The tools that were taken, and why others were not.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<Offered>,
    pub(super) problems: Vec<String>,
}

/// Asks a server for its tools.
pub(super) async fn tools(server: &str, peer: &Peer<RoleClient>) -> Result<Listing, ServiceError> {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    let mut pages = Pages::default();
    loop {
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(pages.request()));
        let (tools, next) = match peer.send_request(request).await? {
            ServerResult::ListToolsResult(page) => (page.tools, page.next_cursor),
            ServerResult::CustomResult(page) => {
                salvaged(page.0, &mut problems).ok_or(ServiceError::UnexpectedResponse)?
            }
            _ => return Err(ServiceError::UnexpectedResponse),
        };
        found.extend(tools);
        if found.len() > bounds::MAX_TOOLS {
            problems.push(format!("it has more than {} tools: the others are left out", bounds::MAX_TOOLS));
            found.truncate(bounds::MAX_TOOLS);
            break;
        }
        match pages.next(next) {
            Ok(true) => {}
            Ok(false) => break,
            Err(problem) => {
                problems.push(problem);
                break;
            }
        }
    }
    let mut listing = read(server, found);
    listing.problems.extend(problems);
    Ok(listing)
}

/// The tools of a page that is not as it should be: those that are, and why the others are not.
fn salvaged(mut page: Value, problems: &mut Vec<String>) -> Option<(Vec<Foreign>, Option<String>)> {
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else { return None };
    let mut read = |tool: Value| {
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
    let most = bounds::MAX_TOOLS + 1;
    Some((tools.into_iter().take(most).filter_map(&mut read).collect(), next))
}

/// The pages of a list.
#[derive(Default)]
pub(super) struct Pages {
    cursor: Option<String>,
    seen: HashSet<String>,
}

impl Pages {
    pub(super) fn request(&self) -> PaginatedRequestParams {
        PaginatedRequestParams::default().with_cursor(self.cursor.clone())
    }

    /// Goes on to the next page, if there is one; or tells why the list is not followed to its end.
    pub(super) fn next(&mut self, cursor: Option<String>) -> Result<bool, String> {
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

/// Takes what can be taken.
fn read(server: &str, tools: Vec<Foreign>) -> Listing {
    let mut listing = Listing::default();
    let mut own_names = HashSet::new();
    let mut names = HashSet::new();
    for tool in tools {
        let shown = bounds::word(&tool.name);
        if !own_names.insert(tool.name.clone()) {
            listing.problems.push(format!("it names a tool `{shown}` twice: the second is left out"));
            continue;
        }
        let name = apart(qualified(server, &tool.name), &mut names);
        match bounds::schema(&tool.input_schema) {
            Err(why) => listing.problems.push(format!("the tool `{shown}` is left out: {why}")),
            Ok(schema) => {
                let said = tool.annotations.as_ref();
                let title = tool.title.as_deref().or(said.and_then(|said| said.title.as_deref()));
                let description = tool.description.as_deref().filter(|text| !text.trim().is_empty());
                let description = description.or(title).unwrap_or(&tool.name);
                let output = tool.output_schema.as_deref().map(bounds::output_schema).transpose();
                let output = output.unwrap_or_else(|why| {
                    listing
                        .problems
                        .push(format!("what is said of the output of `{shown}` is left out: {why}"));
                    None
                });
                listing.tools.push(Offered {
                    name,
                    own_name: tool.name.to_string(),
                    description: bounds::text(description, bounds::MAX_DESCRIPTION),
                    schema,
                    output,
                    hints: Hints {
                        read_only: said.and_then(|said| said.read_only_hint) == Some(true),
                        destructive: said.and_then(|said| said.destructive_hint) == Some(true),
                    },
                });
            }
        }
    }
    listing
}

/// The name, or one like it that no other tool has.
fn apart(name: String, taken: &mut HashSet<String>) -> String {
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

    fn tool(name: &str, schema: Value) -> Foreign {
        Foreign::new(name.to_owned(), "about", Arc::new(schema.as_object().unwrap().clone()))
    }

    #[test]
    fn names_that_collide_are_told_apart() {
        let mut taken = HashSet::new();
        let long = "x".repeat(64);
        assert_eq!(apart(long.clone(), &mut taken), long);
        let other = apart(long.clone(), &mut taken);
        assert_eq!(other.len(), 64);
        assert!(other.ends_with("_2"), "{other}");
        assert!(apart(long, &mut taken).ends_with("_3"));
    }

    #[test]
    fn a_tool_that_cannot_be_taken_is_told_and_the_others_are() {
        let listing =
            read("s", vec![tool("a", json!({})), tool("b", json!({"type": "string"})), tool("a", json!({}))]);
        assert_eq!(listing.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(), ["mcp__s__a"]);
        assert!(listing.problems[0].contains("`b`"), "{:?}", listing.problems);
        assert!(listing.problems[1].contains("`a` twice"), "{:?}", listing.problems);
    }

    #[test]
    fn what_is_wrong_with_one_tool_is_no_matter_of_the_others() {
        let page = json!({"nextCursor": "n", "tools": [
            {"name": "good", "inputSchema": {"type": "object"}}, {"name": "none"},
            {"name": "null", "inputSchema": null}, 7,
        ]});
        let mut problems = Vec::new();
        let (tools, next) = salvaged(page, &mut problems).unwrap();
        assert_eq!((tools.len(), &*tools[0].name, next.as_deref()), (1, "good", Some("n")));
        assert!(problems[0].contains("`none`") && problems[0].contains("inputSchema"), "{problems:?}");
        assert_eq!(problems.len(), 3);
        assert!(salvaged(json!({"tools": 7}), &mut problems).is_none());
    }

    #[test]
    fn a_list_in_circles_ends() {
        let mut pages = Pages::default();
        assert_eq!(pages.next(Some("a".to_owned())), Ok(true));
        assert_eq!(pages.next(Some("b".to_owned())), Ok(true));
        assert!(pages.next(Some("a".to_owned())).is_err());
    }
}
