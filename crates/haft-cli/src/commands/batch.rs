//! `haft batch`: JSON Lines in, replies out. Each line is a call, a turn of calls, or a turn in another dialect. An invalid
//! line is answered like a failed call, and the others go on.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use haft_core::{Call, Fault, MalformedCall, Reply, Session, json as strict};
use haft_dialects as dialects;
use haft_sandbox::user;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Completion, FaultWatcher, INTERRUPTED, Interrupted, StopSignal, interruptible, start_servers};
use crate::args::Common;
use crate::host::{self, Interaction};
use crate::live;
use crate::logging::CallLog;
use haft_host::Host;

mod show;

use show::{Summary, TurnView};

pub(super) fn run(common: &Common, file: &Path) -> anyhow::Result<ExitCode> {
    let host = host::open(common, Interaction::Terminal)?;
    let input: Lines = if file == Path::new("-") {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(user::open(file)?))
    };
    let as_json = common.json || !std::io::stdout().is_terminal();
    let form = if as_json { Form::Json } else { Form::Text };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut stop = {
        let _inside = runtime.enter();
        StopSignal::listen()?
    };
    let mut sessions = Sessions { host: &host, first: host.session(None)?, others: HashMap::new() };
    let _log = CallLog::start(sessions.first.engine());
    let outcome = answer_all(&mut sessions, input, &runtime, &mut stop, form);
    runtime.block_on(host.end_servers());
    host::close(&host, &sessions.all());
    // A pending read of the next line must not keep haft from ending.
    runtime.shutdown_background();
    outcome
}

/// The output format.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// JSON Lines.
    Json,
    /// For people.
    Text,
}

fn answer_all(
    sessions: &mut Sessions<'_>,
    mut input: Lines,
    runtime: &Runtime,
    stop: &mut StopSignal,
    form: Form,
) -> anyhow::Result<ExitCode> {
    let mut watcher = FaultWatcher::new(&sessions.first);
    let mut summary = Summary::default();
    let mut number = 0;
    loop {
        number += 1;
        let line;
        (input, line) = match runtime.block_on(await_line(input, stop)) {
            Ok((input, line)) => (input, line?),
            Err(Interrupted) => return Ok(ExitCode::from(INTERRUPTED)),
        };
        let turn = match line {
            None => {
                if form == Form::Text {
                    summary.print()?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            Some(Ok(line)) if line.trim().is_empty() => continue,
            Some(line) => line.and_then(|line| parse_turn(strip_bom(&line, number))),
        };
        let (session, calls) =
            match turn.and_then(|turn| Ok((sessions.get(turn.dialect.as_deref())?, turn.calls))) {
                Ok(turn) => turn,
                Err(fault) => {
                    print_fault(number, &fault, form)?;
                    continue;
                }
            };
        let names = calls.iter().flatten().map(|call| &*call.name);
        if let Err(Interrupted) = runtime.block_on(start_servers(sessions.host, names, stop)) {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let view = (form == Form::Text).then(|| TurnView::new(&session));
        let work = answer(&session, number, calls, form);
        let (replies, code) = match runtime.block_on(interruptible(&session, stop, work)) {
            Completion::Done(replies) => (Some(replies), None),
            Completion::Stopped(replies) => (replies, Some(ExitCode::from(INTERRUPTED))),
        };
        let replies = replies.transpose()?.unwrap_or_default();
        summary.add(&replies);
        if let Some(view) = view {
            view.print(number, &replies)?;
        }
        watcher.report(&replies);
        if let Some(code) = code {
            return Ok(code);
        }
    }
}

/// Runs the calls of a turn. As JSON, each reply is printed as soon as it and those before it are ready.
async fn answer(
    session: &Session,
    number: usize,
    calls: Vec<Result<Call, MalformedCall>>,
    form: Form,
) -> anyhow::Result<Vec<Reply>> {
    let mut turn = session.turn();
    let mut malformed = Vec::with_capacity(calls.len());
    for call in calls {
        malformed.push(call.map(|call| turn.submit(call)).err());
    }
    let mut replies = Vec::with_capacity(malformed.len());
    for malformed in malformed {
        let reply = match &malformed {
            Some(call) => MalformedCall { fault: at_line(number, &call.fault), ..call.clone() }.reply(),
            None => match turn.next().await {
                Some(reply) => reply,
                None => break,
            },
        };
        if form == Form::Json {
            let mut value = reply.to_json();
            if let Some(call) = malformed {
                value["id"] = json!(call.id.as_deref());
                value["name"] = json!(call.name.as_deref());
            }
            print_json(&value)?;
        }
        replies.push(reply);
    }
    Ok(replies)
}

/// The line without a byte order mark, which some editors put before the first line.
fn strip_bom(line: &str, number: usize) -> &str {
    if number == 1 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line }
}

/// The input.
type Lines = Box<dyn BufRead + Send>;

type Line = anyhow::Result<Option<Result<String, Fault>>>;

/// Reads the next line, unless haft is interrupted while it waits.
async fn await_line(mut input: Lines, stop: &mut StopSignal) -> Result<(Lines, Line), Interrupted> {
    let reading = tokio::task::spawn_blocking(move || {
        let line = next_line(&mut input);
        (input, line)
    });
    tokio::select! {
        biased;
        () = stop.received() => Err(Interrupted),
        read = reading => read.map_err(|_| Interrupted),
    }
}

/// A session for each dialect in use, over one engine.
struct Sessions<'a> {
    host: &'a Host,
    first: Session,
    others: HashMap<String, Session>,
}

impl Sessions<'_> {
    fn all(&self) -> Vec<Session> {
        std::iter::once(&self.first).chain(self.others.values()).cloned().collect()
    }

    fn get(&mut self, dialect: Option<&str>) -> Result<Session, Fault> {
        match dialect {
            None => Ok(self.first.clone()),
            Some(name) if name == self.host.dialect_name() => Ok(self.first.clone()),
            Some(name) => {
                if !self.others.contains_key(name) {
                    dialects::by_name(name)?;
                    let session =
                        self.host.session(Some(name)).map_err(|error| Fault::invalid(error.to_string()))?;
                    self.others.insert(name.to_owned(), session);
                }
                Ok(self.others[name].clone())
            }
        }
    }
}

struct TurnLine {
    dialect: Option<String>,
    calls: Vec<Result<Call, MalformedCall>>,
}

fn parse_turn(line: &str) -> Result<TurnLine, Fault> {
    let mut value = strict::parse(line)?;
    let Value::Object(object) = &mut value else {
        return Ok(TurnLine { dialect: None, calls: Call::from_json(value) });
    };
    let dialect = match object.remove("dialect") {
        None => None,
        Some(Value::String(name)) => Some(name),
        Some(other) => return Err(Fault::invalid(format!("`dialect` must be a name, not {other}"))),
    };
    let calls = match object.remove("calls") {
        None => Call::from_json(value),
        Some(calls) => match object.keys().next() {
            None => Call::from_json(calls),
            Some(key) => {
                return Err(Fault::invalid(format!("unknown key `{key}`"))
                    .hint("a line with `calls` may have a `dialect` besides, and nothing else"));
            }
        },
    };
    Ok(TurnLine { dialect, calls })
}

/// Reads the next line. One longer than any call may be is skipped without being held in memory, and is a fault.
fn next_line(input: &mut dyn BufRead) -> anyhow::Result<Option<Result<String, Fault>>> {
    let limit = strict::MAX_INPUT_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = Read::take(&mut *input, limit).read_until(b'\n', &mut bytes)? as u64;
    if read == 0 {
        return Ok(None);
    }
    if read == limit && bytes.last() != Some(&b'\n') {
        let mut skipped = read;
        loop {
            let rest = input.fill_buf()?;
            let end = rest.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(rest.len(), |end| end + 1);
            input.consume(used);
            skipped += used as u64;
            if end.is_some() || used == 0 {
                return Ok(Some(Err(strict::too_long(skipped))));
            }
        }
    }
    Ok(Some(String::from_utf8(bytes).map_err(|_| Fault::invalid("the line is not UTF-8"))))
}

fn print_json(reply: &Value) -> anyhow::Result<()> {
    // One write, so that a reader never gets half a line.
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    live::suspend(|| {
        let mut out = std::io::stdout().lock();
        out.write_all(&line)?;
        Ok(out.flush()?)
    })
}

fn print_fault(line: usize, fault: &Fault, form: Form) -> anyhow::Result<()> {
    let fault = at_line(line, fault);
    if form == Form::Text {
        return show::fault(&fault);
    }
    let mut value = haft_core::dialect::text_fault(&fault).to_json();
    value["id"] = json!(null);
    value["name"] = json!(null);
    print_json(&value)
}

/// The fault, with the number of its line.
fn at_line(line: usize, fault: &Fault) -> Fault {
    let numbered = Fault::new(fault.kind(), format!("line {line}: {}", fault.message()));
    match fault.hint_text() {
        Some(hint) => numbered.hint(hint),
        None => numbered,
    }
}
