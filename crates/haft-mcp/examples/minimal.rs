//! A minimal server on the SDK, the baseline of the benchmarks: reads a file with line numbers, replaces text in a file
//! and syncs it, or runs a command. It checks nothing and confines nothing.
#![allow(missing_docs, clippy::disallowed_methods)] // the baseline uses std::fs directly

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::transport::io::stdio_pipes;
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;

struct Minimal;

fn tool(name: &'static str, parameters: &[&str]) -> Tool {
    let properties: JsonObject =
        parameters.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": properties, "required": parameters});
    let serde_json::Value::Object(schema) = schema else { unreachable!("it is an object") };
    Tool::new(name, name, Arc::new(schema))
}

fn numbered(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for (at, line) in text.lines().enumerate() {
        let _ = writeln!(out, "{:>6}\t{line}", at + 1);
    }
    out
}

/// Writes a temporary file, syncs it, renames it and syncs the folder.
fn edit(path: &Path, old: &str, new: &str) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?.replacen(old, new, 1);
    let temp = path.with_extension("new");
    let mut file = File::create(&temp)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(temp, path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
    Ok("edited".to_owned())
}

impl ServerHandler for Minimal {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![
            tool("read", &["path"]),
            tool("edit", &["path", "old", "new"]),
            tool("shell", &["command"]),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let said = |name: &str| arguments.get(name).and_then(|value| value.as_str()).unwrap_or_default();
        let text = match &*request.name {
            "read" => std::fs::read_to_string(said("path")).map(|text| numbered(&text)),
            "edit" => edit(Path::new(said("path")), said("old"), said("new")),
            _ => std::process::Command::new("bash")
                .args(["-c", said("command")])
                .output()
                .map(|output| String::from_utf8_lossy(&output.stdout).into_owned()),
        };
        match text {
            Ok(text) => Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into()),
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let running = Minimal.serve(stdio_pipes()).await?;
        running.waiting().await?;
        Ok(())
    })
}
