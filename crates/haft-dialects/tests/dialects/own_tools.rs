//! Tools that a program adds to a dialect: their replies have the dialect's form.

use std::sync::Arc;

use haft_core::{Call, Dialect, Engine, Reply, Workspace, function};
use serde_json::{Value, json};

use haft_dialects::{Ally, Claude, Workspace as WorkspaceDialect};

/// The value that the model reads of a reply.
fn read(reply: &Reply) -> Value {
    serde_json::from_str(&reply.full_text()).unwrap_or_else(|_| Value::String(reply.full_text()))
}

async fn replies(dialect: impl Dialect + 'static) -> [Value; 3] {
    let folder = tempfile::tempdir().unwrap();
    let session = Engine::default()
        .session(Workspace::open(folder.path()).unwrap())
        .dialect(Arc::new(dialect))
        .tool(function("text", "Text", async |_: Value, _cx| "hello").read_only())
        .tool(function("object", "Object", async |_: Value, _cx| Reply::object(json!({"n": 1}))).read_only())
        .tool(function("fails", "Fails", async |_: Value, _cx| Reply::error("no luck")).read_only())
        .start();
    let mut replies = Vec::new();
    for name in ["text", "object", "fails"] {
        replies.push(read(&session.call(Call::new("1", name, json!({}))).await));
    }
    replies.try_into().unwrap()
}

#[tokio::test]
async fn replies_of_own_tools_have_the_envelope_of_the_dialect() {
    assert_eq!(
        replies(Ally).await,
        [
            json!({"success": true, "error": "", "result": "hello"}),
            json!({"success": true, "error": "", "n": 1}),
            json!({"success": false, "error": "no luck"}),
        ]
    );
    assert_eq!(
        replies(WorkspaceDialect).await,
        [
            json!({"ok": true, "value": "hello"}),
            json!({"ok": true, "value": {"n": 1}}),
            json!({"ok": false, "error": {"code": "EXECUTION_ERROR", "message": "no luck", "details": {}}}),
        ]
    );
    assert_eq!(replies(Claude).await, [json!("hello"), json!({"n": 1}), json!("no luck")]);
}
