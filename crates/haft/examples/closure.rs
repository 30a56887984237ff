//! Two tools made of closures, and a model's calls of them: `cargo run -p haft --example closure`.
#![allow(clippy::print_stdout)]

use haft::{Call, Engine, Workspace, blocking_function, function};
use serde_json::json;

/// The input. The tool's schema is generated from it, with these descriptions.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Words {
    /// The text whose words are counted
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Fibonacci {
    /// Which number of the series
    #[schemars(range(max = 90))]
    n: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = function("word_count", "Counts the words of a text", async |input: Words, _cx| {
        format!("{} words", input.text.split_whitespace().count())
    });
    // Work that blocks or computes for long runs on a blocking thread.
    let fibonacci = blocking_function("fibonacci", "Finds a Fibonacci number", |input: Fibonacci, _cx| {
        let (number, _) = (0..input.n).fold((0_u64, 1_u64), |(a, b), _| (b, a + b));
        json!({"number": number})
    });

    let engine = Engine::default();
    let workspace = Workspace::open(".".as_ref())?;
    let session = engine.session(workspace).tool(words.read_only()).tool(fibonacci.read_only()).start();

    // The calls of one message run concurrently and are answered in order. The last one has a wrong argument,
    // and its reply tells the model what to send instead.
    let mut turn = session.turn();
    turn.submit(Call::new("1", "word_count", json!({"text": "a handle for a model"})));
    turn.submit(Call::new("2", "fibonacci", json!({"n": "50"})));
    turn.submit(Call::new("3", "fibonacci", json!({"number": 50})));
    for reply in turn.finish().await {
        let how = if reply.is_error { "failed" } else { "answered" };
        println!("call {} of {} {how}:\n{}\n", reply.id, reply.name, reply.full_text());
    }
    Ok(())
}
