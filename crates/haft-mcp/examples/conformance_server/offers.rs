//! The prompts and resources that the suite expects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use haft_core::{BoxFuture, Session};
use haft_mcp::model::{
    CompleteRequestParams, CompletionInfo, ContentBlock, GetPromptRequestParams, GetPromptResult, Prompt,
    PromptArgument, PromptMessage, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role,
};
use haft_mcp::{Caller, ErrorData, Extras, FormAnswer};
use serde_json::json;

use crate::tools::PNG;

pub(crate) struct Fixtures;

impl Extras for Fixtures {
    fn prompts(&self, _: &Session) -> Vec<Prompt> {
        let needs =
            |name: &str, what: &str| PromptArgument::new(name).with_description(what).with_required(true);
        vec![
            Prompt::new("test_simple_prompt", Some("Says something"), None),
            Prompt::new(
                "test_prompt_with_arguments",
                Some("Says what it was told"),
                Some(vec![needs("arg1", "First test argument"), needs("arg2", "Second test argument")]),
            ),
            Prompt::new(
                "test_prompt_with_embedded_resource",
                Some("Shows what is at an address"),
                Some(vec![needs("resourceUri", "URI of the resource to embed")]),
            ),
            Prompt::new("test_prompt_with_image", Some("Shows a picture"), None),
            Prompt::new("test_input_required_result_prompt", Some("Asks what it is about"), None),
        ]
    }

    fn prompt<'a>(
        &'a self,
        request: GetPromptRequestParams,
        _: &'a Session,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorData>> {
        Box::pin(async move {
            let argument = |name: &str| {
                let arguments = request.arguments.as_ref();
                arguments.and_then(|arguments| arguments.get(name)?.as_str()).unwrap_or_default().to_owned()
            };
            let text = |text: String| PromptMessage::new(Role::User, ContentBlock::text(text));
            let messages = match request.name.as_str() {
                "test_simple_prompt" => vec![text("This is a simple prompt for testing.".to_owned())],
                "test_prompt_with_arguments" => {
                    let (first, second) = (argument("arg1"), argument("arg2"));
                    vec![text(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
                }
                "test_prompt_with_embedded_resource" => {
                    let content = "Embedded resource content for testing.";
                    let embedded = ContentBlock::embedded_text(argument("resourceUri"), content);
                    vec![
                        PromptMessage::new(Role::User, embedded),
                        text("Please process the embedded resource above.".to_owned()),
                    ]
                }
                "test_prompt_with_image" => vec![
                    PromptMessage::new(Role::User, ContentBlock::image(BASE64.encode(PNG), "image/png")),
                    text("Please analyze the image above.".to_owned()),
                ],
                "test_input_required_result_prompt" => {
                    let form = json!({
                        "type": "object",
                        "properties": {"context": {"type": "string"}},
                        "required": ["context"],
                    });
                    let message = "What context should the prompt use?";
                    let answer = caller.elicit("user_context", message, form).await;
                    let answer =
                        answer.map_err(|fault| ErrorData::internal_error(fault.to_string(), None))?;
                    let FormAnswer::Accepted(content) = answer else {
                        return Err(ErrorData::invalid_params("the prompt needs a context", None));
                    };
                    vec![text(format!("Work with this context: {}", content["context"]))]
                }
                unknown => {
                    return Err(ErrorData::invalid_params(format!("there is no prompt `{unknown}`"), None));
                }
            };
            Ok(GetPromptResult::new(messages))
        })
    }

    fn resources(&self, _: &Session) -> Vec<Resource> {
        vec![
            Resource::new("test://static-text", "static-text")
                .with_description("A text")
                .with_mime_type("text/plain"),
            Resource::new("test://static-binary", "static-binary")
                .with_description("A picture")
                .with_mime_type("image/png"),
            Resource::new("test://watched-resource", "watched-resource")
                .with_description("Something to wait for")
                .with_mime_type("text/plain"),
        ]
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        vec![
            ResourceTemplate::new("test://template/{id}/data", "template")
                .with_description("Data by its id")
                .with_mime_type("application/json"),
        ]
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        _: &'a Session,
        _: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<ReadResourceResult>, ErrorData>> {
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, id) {
            ("test://static-text", _) => {
                Some(ResourceContents::text("This is the content of the static text resource.", uri))
            }
            ("test://static-binary", _) => {
                Some(ResourceContents::blob(BASE64.encode(PNG), uri).with_mime_type("image/png"))
            }
            ("test://watched-resource", _) => Some(ResourceContents::text("Nothing new.", uri)),
            (_, Some(id)) => {
                let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                Some(ResourceContents::text(data.to_string(), uri).with_mime_type("application/json"))
            }
            _ => None,
        };
        let read = contents.map(|contents| ReadResourceResult::new(vec![contents]));
        Box::pin(std::future::ready(Ok(read)))
    }

    fn complete<'a>(
        &'a self,
        request: CompleteRequestParams,
        _: &'a Session,
    ) -> BoxFuture<'a, Result<CompletionInfo, ErrorData>> {
        let beginning = request.argument.value;
        let all = ["paris", "park", "party"].into_iter();
        let values = all.filter(|word| word.starts_with(&beginning)).map(str::to_owned).collect();
        let info = CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None));
        Box::pin(std::future::ready(info))
    }
}
