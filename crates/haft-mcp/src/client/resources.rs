//! Servers' resources, which two tools list and read for a model, and prompts, which programs can request.

use std::sync::Arc;

use haft_core::permissions::Approval;
use haft_core::replies::Block;
use haft_core::{
    BoxFuture, Claims, Context, DynTool, Fault, FaultKind, Prepared, Reply, Resource, Session, Spec, function,
};
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, PromptMessage, ReadResourceRequestParams, ReadResourceResult,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::link::Link;
use super::listing::Pages;
use super::paths::{self, Touch};
use super::servers::{Joined, Servers};
use super::tool::CATEGORY;
use super::{answer, bounds};

/// The tools that serve all servers together.
pub(super) const NAMES: [&str; 2] = [LIST, READ];
const LIST: &str = "ListMcpResources";
const READ: &str = "ReadMcpResource";
/// The most resources and templates listed per server.
const MAX_RESOURCES: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
struct ListInput {
    /// The server whose resources are listed; default: all of them
    #[schemars(example = &"docs")]
    server: Option<String>,
}

#[derive(Clone, Deserialize, JsonSchema)]
struct ReadInput {
    /// The server that has the resource
    #[schemars(example = &"docs")]
    server: String,
    /// The address of the resource, as ListMcpResources tells it
    #[schemars(example = &"docs://readme")]
    uri: String,
}

/// Adds the tools that list and read resources to a session, unless it has them.
pub(super) fn offer(session: &Session) {
    if session.tools().get(LIST).is_some() {
        return;
    }
    let list = function(
        LIST,
        "Lists the resources that MCP servers offer.",
        async |input: ListInput, cx: Context| list(input.server.as_deref(), &cx).await,
    );
    // Fails if another server's link has added it meanwhile.
    let _ = session.add_tool(Arc::new(list.about(|spec| spec.category(CATEGORY).read_only())));
    let spec = Spec::of::<ReadInput>(READ, "Reads a resource that an MCP server offers.").category(CATEGORY);
    let _ = session.add_tool(Arc::new(Read(spec)));
}

fn find_link(server: &str, links: &[Arc<Link>]) -> Result<Arc<Link>, Fault> {
    links.iter().find(|link| link.server.name == server).cloned().ok_or_else(|| {
        let names: Vec<&str> = links.iter().map(|link| link.server.name.as_str()).collect();
        Fault::new(FaultKind::NotFound, format!("there is no MCP server `{}`", bounds::word(server)))
            .hint(format!("there is {}", haft_core::suggest::or_list(&names)))
    })
}

async fn list(server: Option<&str>, cx: &Context) -> Result<Reply, Fault> {
    let links = Joined::of(cx.session());
    let wanted = match server {
        Some(server) => vec![find_link(server, &links)?],
        None => links,
    };
    let (mut text, mut rows) = (String::new(), Vec::new());
    for link in wanted {
        let name = &link.server.name;
        match resources(&link).await {
            // A server that fails does not keep the others from being listed.
            Err(fault) if server.is_none() => text.push_str(&format!("{name}: {}\n", fault.message())),
            Err(fault) => return Err(fault),
            Ok(found) => {
                for (line, row) in found {
                    text.push_str(&format!("{name}: {line}\n"));
                    rows.push(row);
                }
            }
        }
    }
    let text = if text.is_empty() { "there are no resources".to_owned() } else { text.trim_end().to_owned() };
    Ok(Reply::text(text).structured(json!({"resources": rows})))
}

/// The resources and URI templates of a server, each as a line of text and as JSON.
async fn resources(link: &Arc<Link>) -> Result<Vec<(String, Value)>, Fault> {
    let server = &link.server.name;
    let connection = link.connection().await?;
    if !connection.about.has_resources {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut pages = Pages::default();
    loop {
        let page = match connection.peer().list_resources(Some(pages.request())).await {
            Ok(page) => page,
            Err(error) => return Err(connection.failed(server, error).await),
        };
        for resource in page.resources.iter().take(MAX_RESOURCES - found.len()) {
            let row = json!({
                "server": server, "uri": bounds::word(&resource.uri), "name": bounds::word(&resource.name),
                "mime_type": resource.mime_type, "size": resource.size,
            });
            found.push((answer::describe(resource), row));
        }
        if found.len() >= MAX_RESOURCES || !pages.advance(page.next_cursor).unwrap_or(false) {
            break;
        }
    }
    // Templates are optional.
    if let Ok(page) = connection.peer().list_resource_templates(None).await {
        for template in page.resource_templates.iter().take(MAX_RESOURCES - found.len()) {
            let form = bounds::word(&template.uri_template);
            let row = json!({"server": server, "uri_template": form, "name": bounds::word(&template.name)});
            found.push((
                format!("{form} ({}): fill in what stands in braces", bounds::word(&template.name)),
                row,
            ));
        }
    }
    Ok(found)
}

/// The tool `ReadMcpResource`.
struct Read(Spec);

impl DynTool for Read {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn prepare(&self, input: &Value, cx: &Context) -> Result<Box<dyn Prepared>, Fault> {
        let read: ReadInput =
            serde_json::from_value(input.clone()).map_err(|error| Fault::invalid(error.to_string()))?;
        let link = find_link(&read.server, &Joined::of(cx.session()))?;
        let claims = paths::claim(Claims::none().read(Resource::Everything), input, Touch::Reads, cx)?;
        Ok(Box::new(ReadCall { link, uri: read.uri, claims }))
    }
}

struct ReadCall {
    link: Arc<Link>,
    uri: String,
    claims: Claims,
}

impl Prepared for ReadCall {
    fn claims(&self) -> Claims {
        self.claims.clone()
    }

    fn approval(&self, _: &Context) -> Approval {
        match self.link.server.trusts_read_only {
            true => Approval::NotNeeded,
            false => {
                let (uri, server) = (bounds::word(&self.uri), &self.link.server.name);
                Approval::Needed(format!("`{uri}` would be read by the MCP server `{server}`"))
            }
        }
    }

    fn run(self: Box<Self>, _: Context) -> BoxFuture<'static, Result<Reply, Fault>> {
        Box::pin(async move {
            let connection = self.link.connection().await?;
            let params = ReadResourceRequestParams::new(self.uri);
            let read =
                tokio::time::timeout(self.link.server.limits.call, connection.running.read_resource(params));
            let ReadResourceResult { contents, .. } = match read.await {
                Ok(Ok(read)) => read,
                Ok(Err(error)) => return Err(connection.failed(&self.link.server.name, error).await),
                Err(_) => {
                    let seconds = self.link.server.limits.call.as_secs();
                    return Err(Fault::new(
                        FaultKind::Timeout,
                        format!("there was no answer within {seconds} s"),
                    ));
                }
            };
            let blocks: Vec<Block> = contents.into_iter().map(answer::contents).collect();
            Ok(if blocks.is_empty() { Reply::text("(the resource is empty)") } else { Reply::blocks(blocks) })
        })
    }
}

/// A prompt that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt {
    /// The name of its server.
    pub server: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its arguments.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Whether it is required.
    pub required: bool,
}

impl Servers {
    /// The prompts that a server offers.
    pub async fn prompts(&self, server: &str) -> Result<Vec<Prompt>, Fault> {
        let connection = self.connection(server).await?;
        let mut prompts = Vec::new();
        let mut pages = Pages::default();
        while connection.about.has_prompts && prompts.len() < bounds::MAX_TOOLS {
            let page = match connection.peer().list_prompts(Some(pages.request())).await {
                Ok(page) => page,
                Err(error) => return Err(connection.failed(server, error).await),
            };
            prompts.extend(page.prompts.into_iter().map(|prompt| Prompt {
                server: server.to_owned(),
                name: prompt.name,
                description: bounds::text(
                    prompt.description.as_deref().unwrap_or_default(),
                    bounds::MAX_DESCRIPTION,
                ),
                arguments: prompt.arguments.unwrap_or_default().into_iter().map(argument).collect(),
            }));
            if !pages.advance(page.next_cursor).unwrap_or(false) {
                break;
            }
        }
        prompts.truncate(bounds::MAX_TOOLS);
        Ok(prompts)
    }

    /// The messages of a prompt, each with its role.
    pub async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Map<String, Value>,
    ) -> Result<Vec<PromptMessage>, Fault> {
        let connection = self.connection(server).await?;
        let params = GetPromptRequestParams::new(prompt).with_arguments(arguments);
        match connection.running.get_prompt(params).await {
            Ok(GetPromptResult { messages, .. }) => Ok(messages),
            Err(error) => Err(connection.failed(server, error).await),
        }
    }
}

fn argument(argument: rmcp::model::PromptArgument) -> PromptArgument {
    PromptArgument {
        description: bounds::text(argument.description.as_deref().unwrap_or_default(), bounds::MAX_MESSAGE),
        required: argument.required == Some(true),
        name: argument.name,
    }
}
