//! `haft batch`: JSON Lines in, replies out. Each line is a call, a turn of calls, or a turn in a dialect of
//! its own. A line that is wrong is answered like a call that failed; the others go on.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use haft_core::{Call, Fault, MalformedCall, Reply, Session, json as strict};
use haft_dialects as dialects;
use haft_sandbox::user;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Beside, INTERRUPTED, Interrupted, Stop, Worked, interruptible, ready};
use crate::args::Common;
use crate::host::{self, Asked};
use haft_host::Host;

mod show;

use show::Shown;

pub(super) fn run(common: &Common, file: &Path) -> anyhow::Result<ExitCode> {
    let host = host::open(common, Asked::AtTerminal)?;
    let input: Lines = if file == Path::new("-") {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(user::open(file)?))
    };
    let as_json = common.json || !std::io::stdout().is_terminal();
    let form = if as_json { Form::Json } else { Form::Shown };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut stop = {
        let _inside = runtime.enter();
        Stop::listen()?
    };
    let mut sessions = Sessions { host: &host, first: host.session(None)?, others: HashMap::new() };
    let outcome = answer_all(&mut sessions, input, &runtime, &mut stop, form);
    runtime.block_on(host.end_servers());
    host::close(&host, &sessions.all());
    // A line that is still being waited for must not keep haft from ending.
    runtime.shutdown_background();
    outcome
}

/// How replies are written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// JSON Lines.
    Json,
    /// For people.
    Shown,
}

fn answer_all(
    sessions: &mut Sessions<'_>,
    mut input: Lines,
    runtime: &Runtime,
    stop: &mut Stop,
    form: Form,
) -> anyhow::Result<ExitCode> {
    let mut beside = Beside::of(&sessions.first);
    let mut number = 0;
    loop {
        number += 1;
        let line;
        (input, line) = match runtime.block_on(await_line(input, stop)) {
            Ok((input, line)) => (input, line?),
            Err(Interrupted) => return Ok(ExitCode::from(INTERRUPTED)),
        };
        let turn = match line {
            None => return Ok(ExitCode::SUCCESS),
            Some(Ok(line)) if line.trim().is_empty() => continue,
            Some(line) => line.and_then(|line| read_turn(without_mark(&line, number))),
        };
        let (session, calls) =
            match turn.and_then(|turn| Ok((sessions.of(turn.dialect.as_deref())?, turn.calls))) {
                Ok(turn) => turn,
                Err(fault) => {
                    print_fault(number, &fault, form)?;
                    continue;
                }
            };
        let names = calls.iter().flatten().map(|call| &*call.name);
        if let Err(Interrupted) = runtime.block_on(ready(sessions.host, names, stop)) {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let shown = (form == Form::Shown).then(|| Shown::new(&session));
        let work = answer(&session, number, calls, form);
        let (replies, code) = match runtime.block_on(interruptible(&session, stop, work)) {
            Worked::Done(replies) => (Some(replies), None),
            Worked::Stopped(replies) => (replies, Some(ExitCode::from(INTERRUPTED))),
        };
        let replies = replies.transpose()?.unwrap_or_default();
        if let Some(shown) = shown {
            shown.print(number, &replies)?;
        }
        beside.tell(&replies);
        if let Some(code) = code {
            return Ok(code);
        }
    }
}

/// Makes the calls of a turn. As JSON, each reply is written as soon as it and those before it are there.
async fn answer(
    session: &Session,
    number: usize,
    calls: Vec<Result<Call, MalformedCall>>,
    form: Form,
) -> anyhow::Result<Vec<Reply>> {
    let mut turn = session.turn();
    let mut wrong = Vec::with_capacity(calls.len());
    for call in calls {
        wrong.push(call.map(|call| turn.submit(call)).err());
    }
    let mut replies = Vec::with_capacity(wrong.len());
    for wrong in wrong {
        let reply = match &wrong {
            Some(wrong) => MalformedCall { fault: of_line(number, &wrong.fault), ..wrong.clone() }.reply(),
            None => match turn.next().await {
                Some(reply) => reply,
                None => break,
            },
        };
        if form == Form::Json {
            let mut value = reply.to_json();
            if let Some(wrong) = wrong {
                value["id"] = json!(wrong.id.as_deref());
                value["name"] = json!(wrong.name.as_deref());
            }
            print_json(&value)?;
        }
        replies.push(reply);
    }
    Ok(replies)
}

/// A line without the mark that some editors put before the first one.
fn without_mark(line: &str, number: usize) -> &str {
    if number == 1 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line }
}

/// Where lines come from.
type Lines = Box<dyn BufRead + Send>;

type Line = anyhow::Result<Option<Result<String, Fault>>>;

/// The next line, unless haft is told to stop while it waits for one.
async fn await_line(mut input: Lines, stop: &mut Stop) -> Result<(Lines, Line), Interrupted> {
    let reading = tokio::task::spawn_blocking(move || {
        let line = next_line(&mut input);
        (input, line)
    });
    tokio::select! {
        biased;
        () = stop.asked() => Err(Interrupted),
        read = reading => read.map_err(|_| Interrupted),
    }
}

/// A session for each dialect that a line asks for, over one engine.
struct Sessions<'a> {
    host: &'a Host,
    first: Session,
    others: HashMap<String, Session>,
}

impl Sessions<'_> {
    fn all(&self) -> Vec<Session> {
        std::iter::once(&self.first).chain(self.others.values()).cloned().collect()
    }

    fn of(&mut self, dialect: Option<&str>) -> Result<Session, Fault> {
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

fn read_turn(line: &str) -> Result<TurnLine, Fault> {
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

/// The next line, or a fault for one that is longer than any call may be. Such a line is read past, not kept.
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
    let mut out = std::io::stdout().lock();
    // As one piece: a line must not reach a reader in halves.
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()?;
    Ok(())
}

fn print_fault(line: usize, fault: &Fault, form: Form) -> anyhow::Result<()> {
    let told = of_line(line, fault);
    if form == Form::Shown {
        return show::fault(&told);
    }
    let mut value = haft_core::dialect::text_fault(&told).to_json();
    value["id"] = json!(null);
    value["name"] = json!(null);
    print_json(&value)
}

/// A fault that says in which line it is.
fn of_line(line: usize, fault: &Fault) -> Fault {
    let told = Fault::new(fault.kind(), format!("line {line}: {}", fault.message()));
    match fault.hint_text() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}
