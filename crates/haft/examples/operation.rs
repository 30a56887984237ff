//! A tool with its own operation, a check, a preview and an approver:
//! `cargo run -p haft --example operation`.
#![allow(clippy::print_stdout)]

use std::sync::Mutex;

use haft::permissions::{ApprovalRequest, Approver, Decision};
use haft::{
    BoxFuture, Call, Claims, Context, Engine, Fault, Operation, Preview, Reply, Resource, Tool, Typed,
    Workspace,
};
use serde_json::json;

/// The shopping list: an extension of the session, which lives between calls.
#[derive(Default)]
struct List(Mutex<Vec<String>>);

/// The operation: no JSON, no tool name.
struct Add {
    item: String,
}

impl Operation for Add {
    type Output = usize;

    // Calls that write the same resource wait for each other; all others run concurrently.
    fn claims(&self) -> Claims {
        Claims::none().write(Resource::State("shopping list".into()))
    }

    // Runs before the approver is asked: a call that cannot run needs no approval.
    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let list = cx.session().extension::<List>();
        let is_there = list.0.lock().is_ok_and(|list| list.contains(&self.item));
        if is_there {
            return Err(Fault::failed(format!("`{}` is on the list already", self.item)));
        }
        Ok(Some(Preview::new(format!("+{}", self.item))))
    }

    async fn run(self, cx: &Context) -> Result<usize, Fault> {
        let list = cx.session().extension::<List>();
        let mut list = list.0.lock().map_err(|_| Fault::failed("the list is lost"))?;
        list.push(self.item);
        Ok(list.len())
    }
}

/// The tool: how a model calls the operation.
struct AddTool;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct AddInput {
    /// What to buy
    item: String,
}

impl Tool for AddTool {
    const NAME: &'static str = "add_to_list";
    const DESCRIPTION: &'static str = "Adds something to the shopping list";
    type Input = AddInput;
    type Op = Add;

    fn lower(input: &AddInput, _cx: &Context) -> Result<Add, Fault> {
        Ok(Add { item: input.item.to_lowercase() })
    }

    fn render(_input: &AddInput, count: usize, _cx: &Context) -> Result<Reply, Fault> {
        Ok(Reply::text(format!("things on the list: {count}")))
    }
}

/// Approves everything but chocolate. A real approver would ask a person.
struct Careful;

impl Approver for Careful {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        let preview = request.preview.map(|preview| preview.diff).unwrap_or_default();
        println!("asked about {}: {preview}", request.tool);
        let answer = if preview.contains("chocolate") {
            Decision::Deny { feedback: Some("we have enough chocolate; try fruit".into()) }
        } else {
            Decision::AllowOnce
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().approver(Careful).build();
    let session = engine.session(Workspace::open(".".as_ref())?).tool(Typed::<AddTool>::new()).start();
    for item in ["Bread", "Chocolate", "bread"] {
        let reply = session.call(Call::new(item, "add_to_list", json!({"item": item}))).await;
        println!("{item}: {}", reply.full_text());
    }
    Ok(())
}
