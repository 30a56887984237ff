//! `haft call`: runs one call and prints its reply.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use haft_core::{Call, Input, Reply, Session, json as strict, takes_string};
use serde_json::{Map, Value};

use super::history;
use super::{Completion, FaultWatcher, INTERRUPTED, Interrupted, StopSignal, interruptible, start_servers};
use crate::args::Common;
use crate::host::{self, Interaction};
use crate::logging::CallLog;
use crate::readable;
use crate::style::sanitize;

pub(super) fn run(common: &Common, tool: &str, words: &[String]) -> anyhow::Result<ExitCode> {
    let host = host::open_session(common, Interaction::Terminal, host::session_name(common))?;
    let session = host.session(None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut stop = {
        let _inside = runtime.enter();
        StopSignal::listen()?
    };
    if let Err(Interrupted) = runtime.block_on(start_servers(&host, [tool], &mut stop)) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let input = read_input(words, tool, &session)?;
    let call = Call::new("call_1", tool, input);
    let _log = CallLog::start(session.engine());
    let mut watcher = FaultWatcher::new(&session);
    let is_told = std::io::stderr().is_terminal();
    let last = if is_told { history::last_number(&host) } else { 0 };
    let outcome = runtime.block_on(interruptible(&session, &mut stop, session.call(call)));
    let (reply, code) = match outcome {
        Completion::Done(reply) => {
            let code = if reply.is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS };
            (Some(reply), code)
        }
        Completion::Stopped(reply) => (reply, ExitCode::from(INTERRUPTED)),
    };
    // The reply is printed first: a failure to save statistics or the session does not undo the call.
    let printed = reply.as_ref().map_or(Ok(()), |reply| print(reply, common));
    watcher.report(reply.as_slice());
    if is_told {
        history::tell_commands(&host, session.id(), last);
    }
    runtime.block_on(host.end_servers());
    host::close(&host, std::slice::from_ref(&session));
    printed.map(|()| code)
}

fn print(reply: &Reply, common: &Common) -> anyhow::Result<()> {
    if common.json {
        let mut text = serde_json::to_string_pretty(&reply.to_json())?;
        if std::io::stdout().is_terminal() {
            text = sanitize(&text);
        }
        writeln!(std::io::stdout().lock(), "{text}")?;
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    match reply.as_object().filter(|_| std::io::stdout().is_terminal()) {
        Some(value) => write!(out, "{}", readable::render(value))?,
        None if std::io::stdout().is_terminal() => writeln!(out, "{}", sanitize(&text_of(reply)))?,
        // As the model reads it, byte for byte.
        None => writeln!(std::io::stdout().lock(), "{}", text_of(reply))?,
    }
    Ok(())
}

fn text_of(reply: &Reply) -> String {
    let blocks = reply.content.iter().map(|block| match block.content.text() {
        Some(text) => text.to_owned(),
        None => block.content.summary().unwrap_or_default(),
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// Reads the input of a call: a JSON object, `-` for one on stdin, or `name=value` pairs.
pub(super) fn read_input(words: &[String], tool: &str, session: &Session) -> anyhow::Result<Input> {
    match words {
        [] => Ok(Input::Value(Value::Object(Map::new()))),
        [dash] if dash == "-" => {
            let mut bytes = Vec::new();
            let limit = strict::MAX_INPUT_BYTES as u64 + 1;
            std::io::stdin().take(limit).read_to_end(&mut bytes).context("stdin cannot be read")?;
            if bytes.len() as u64 == limit {
                // Perhaps cut inside a character, which does not matter: the engine refuses it as too long.
                return Ok(Input::Text(String::from_utf8_lossy(&bytes).into_owned()));
            }
            String::from_utf8(bytes).map(Input::Text).map_err(|_| anyhow!("stdin is not UTF-8"))
        }
        [json] if json.trim_start().starts_with('{') => Ok(Input::Text(json.clone())),
        pairs => pairs_to_object(pairs, tool, session).map(|object| Input::Value(Value::Object(object))),
    }
}

/// Builds an object from `name=value` pairs. Values are strings where the tool takes strings, and JSON elsewhere. A repeated
/// name makes a list.
fn pairs_to_object(pairs: &[String], tool: &str, session: &Session) -> anyhow::Result<Map<String, Value>> {
    let spec = session.tools().spec(tool);
    let mut object = Map::new();
    for pair in pairs {
        let Some((name, text)) = pair.split_once('=') else {
            bail!("`{pair}` is neither a JSON object nor `name=value`");
        };
        let is_string = spec.as_ref().is_none_or(|spec| takes_string(spec, name));
        let value = match serde_json::from_str(text) {
            Ok(value) if !is_string => value,
            _ => Value::String(text.to_owned()),
        };
        match object.get_mut(name) {
            None => {
                object.insert(name.to_owned(), value);
            }
            Some(Value::Array(list)) => list.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    Ok(object)
}
