//! Runs a case and returns it with the actual outcome.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::format::{Case, Named, Section};
use super::show;
use super::world::{World, changes, snapshot};

/// The kinds of sections that hold the outcome, and are replaced.
const OUTCOMES: [&str; 5] = ["reply", "structured", "stderr", "refused", "after"];

/// Runs a case, and returns it with the actual outcome.
pub(crate) fn run(case: &Case, dialect: &str) -> anyhow::Result<Case> {
    let mut world = World::make(case)?;
    let before = snapshot(&world.workspace())?;
    let calls = case.all("call").count();
    ensure!(calls > 0, "a case makes a call");
    let flags = case.all("flags").flat_map(|(flags, _)| flags.split_whitespace());
    let mut command = world.haft();
    command.args(["--dialect", dialect]).args(flags.map(|flag| world.filled(flag)));
    let outcome = if calls == 1 && case.all("structured").next().is_none() {
        one_call(case, command, &mut world)?
    } else {
        turns(case, command, &mut world)?
    };
    let mut sections = outcome;
    sections.extend(changes(&before, &snapshot(&world.workspace())?)?);
    Ok(case.with(sections))
}

/// `haft call`: text on stdout, and an exit code.
fn one_call(case: &Case, mut command: Command, world: &mut World) -> anyhow::Result<Vec<Section>> {
    let mut sections: Vec<Section> =
        case.sections.iter().filter(|section| !is_outcome(section)).cloned().collect();
    let call = Call::find(&sections, world)?.pop().context("a case makes a call")?;
    command.args(["call", &call.tool, "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    feed(&mut child, &call.input)?;
    let output = child.wait_with_output()?;
    let stdout = String::from_utf8(output.stdout).context("stdout is not UTF-8")?;
    let stderr = world.named(&String::from_utf8(output.stderr).context("stderr is not UTF-8")?);
    let head = match output.status.code() {
        Some(0) => "reply",
        Some(1) => "reply, failed",
        Some(2) => {
            ensure!(stdout.is_empty(), "haft refused, and still wrote to stdout: {stdout}");
            sections.push(Section::new("refused", show::text(&stderr)));
            return Ok(sections);
        }
        code => bail!("haft ended with {code:?}: {stderr}"),
    };
    let text = stdout.strip_suffix('\n').context("the reply does not end its line")?;
    sections.push(Section::new(head, render_reply(text, world)?));
    if !stderr.is_empty() {
        sections.push(Section::new("stderr", show::text(&stderr)));
    }
    Ok(sections)
}

/// `haft batch`: calls that follow each other without a reply between them are a turn.
fn turns(case: &Case, mut command: Command, world: &mut World) -> anyhow::Result<Vec<Section>> {
    command.arg("batch").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let mut sections = Vec::new();
    let mut pending: Vec<Section> = Vec::new();
    let shows_structured = case.all("structured").next().is_some();
    let mut rest = case.sections.iter().peekable();
    while let Some(section) = rest.next() {
        if is_outcome(section) {
            continue;
        }
        sections.push(section.clone());
        if section.of("call").is_some() {
            pending.push(section.clone());
        }
        if pending.is_empty() || rest.peek().is_some_and(|next| next.of("call").is_some()) {
            continue;
        }
        let calls = Call::find(&std::mem::take(&mut pending), world)?;
        let turn: Vec<Value> =
            calls.iter().map(|call| json!({"name": call.tool, "arguments": call.input})).collect();
        let stdin = child.stdin.as_mut().context("no stdin")?;
        writeln!(stdin, "{}", Value::from(turn))?;
        for (at, call) in calls.iter().enumerate() {
            let line = lines.next().context("a reply is missing")??;
            let reply: Value = serde_json::from_str(&line)?;
            ensure!(reply["id"] == format!("call_{}", at + 1), "this is no reply to `{}`: {line}", call.tool);
            let head = if reply["is_error"] == true { "reply, failed" } else { "reply" };
            let blocks = reply["content"].as_array().into_iter().flatten();
            let texts: Vec<String> = blocks.map(block_text).collect();
            sections.push(Section::new(head, render_reply(&texts.join("\n"), world)?));
            if shows_structured {
                sections
                    .push(Section::new("structured", render_reply(&reply["structured"].to_string(), world)?));
            }
        }
    }
    drop(child.stdin.take());
    ensure!(lines.next().is_none(), "there are more replies than calls");
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "haft ended with {}", output.status);
    let stderr = world.named(&String::from_utf8(output.stderr)?);
    if !stderr.is_empty() {
        sections.push(Section::new("stderr", show::text(&stderr)));
    }
    Ok(sections)
}

fn is_outcome(section: &Section) -> bool {
    OUTCOMES.iter().any(|outcome| section.of(outcome).is_some())
}

/// A content block as a case shows it: its text, or the type and size of a picture.
fn block_text(block: &Value) -> String {
    match (block["text"].as_str(), block["data"].as_str(), block["mimeType"].as_str()) {
        (Some(text), ..) => text.to_owned(),
        (None, Some(data), Some(kind)) => {
            format!("[{kind}, {} bytes]", data.trim_end_matches('=').len() * 3 / 4)
        }
        _ => block.to_string(),
    }
}

/// A reply as a case shows it. A JSON object is indented.
fn render_reply(text: &str, world: &mut World) -> anyhow::Result<String> {
    let shown = match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => {
            let compact = value.to_string();
            ensure!(compact == text, "the object is not in its compact form: {text}");
            show::json(&untimed(value))
        }
        _ => format!("{text}\n"),
    };
    Ok(show::text(&world.named(&shown)))
}

/// Replaces durations, which differ from run to run.
fn untimed(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| match name.as_str() {
                    "duration" | "durationMs" if value.is_u64() => (name, Value::from("$TIME")),
                    _ => (name, untimed(value)),
                })
                .collect(),
        ),
        Value::Array(items) => items.into_iter().map(untimed).collect(),
        value => value,
    }
}

struct Call {
    tool: String,
    input: String,
}

impl Call {
    fn find(sections: &[Section], world: &World) -> anyhow::Result<Vec<Self>> {
        let calls = sections.iter().filter_map(|section| Some((section.of("call")?, &section.body)));
        calls
            .map(|(head, body)| {
                let named = Named::parse(head)?;
                let input = named.generated()?.unwrap_or_else(|| world.filled(body));
                Ok(Self { tool: named.name.to_string_lossy().into_owned(), input })
            })
            .collect()
    }
}

fn feed(child: &mut Child, input: &str) -> anyhow::Result<()> {
    let mut stdin = child.stdin.take().context("no stdin")?;
    match stdin.write_all(input.as_bytes()) {
        // haft does not read its input if it refuses to start.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
