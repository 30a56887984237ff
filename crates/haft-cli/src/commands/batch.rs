//! `haft batch`: JSON Lines in, replies out. Each line is a call, a turn of calls, or a turn in a dialect of
//! its own. A line that is wrong is answered like a call that failed; the others go on.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use haft::{Call, Fault, Reply, Session, json as strict};
use haft_sandbox::user;
use serde_json::{Value, json};

use super::{Interrupted, Stop, interruptible};
use crate::args::Common;
use crate::host::Host;

mod show;

use show::Shown;

pub(super) fn run(common: &Common, file: &Path) -> anyhow::Result<ExitCode> {
    let host = Host::open(common)?;
    let mut input: Lines = if file == Path::new("-") {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(user::open(file)?))
    };
    let as_json = common.json || !std::io::stdout().is_terminal();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut stop = {
        let _inside = runtime.enter();
        Stop::listen()?
    };
    let mut sessions = Sessions { host: &host, first: host.session(None)?, others: HashMap::new() };
    let mut number = 0;
    let code = loop {
        number += 1;
        let line;
        (input, line) = match runtime.block_on(await_line(input, &mut stop)) {
            Ok((input, line)) => (input, line?),
            Err(Interrupted) => break ExitCode::from(INTERRUPTED),
        };
        let turn = match line {
            None => break ExitCode::SUCCESS,
            Some(Ok(line)) if line.trim().is_empty() => continue,
            Some(line) => line.and_then(|line| read_turn(&line)),
        };
        let (session, calls) =
            match turn.and_then(|turn| Ok((sessions.of(turn.dialect.as_deref())?, turn.calls))) {
                Ok(turn) => turn,
                Err(fault) => {
                    print_fault(number, &fault, as_json)?;
                    continue;
                }
            };
        let shown = (!as_json).then(|| Shown::new(&session));
        let work = async {
            let mut turn = session.turn();
            for call in calls {
                turn.submit(call);
            }
            turn.finish().await
        };
        let Ok(replies) = runtime.block_on(interruptible(&session, &mut stop, work)) else {
            break ExitCode::from(INTERRUPTED);
        };
        match shown {
            Some(shown) => shown.print(number, &replies)?,
            None => print_json(replies.iter().map(Reply::to_json))?,
        }
    };
    host.close(&sessions.first)?;
    // A line that is still being waited for must not keep haft from ending.
    runtime.shutdown_background();
    Ok(code)
}

/// The exit code of a command that was told to stop.
const INTERRUPTED: u8 = 130;

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
    fn of(&mut self, dialect: Option<&str>) -> Result<Session, Fault> {
        match dialect {
            None => Ok(self.first.clone()),
            Some(name) if name == self.host.dialect_name() => Ok(self.first.clone()),
            Some(name) => {
                if !self.others.contains_key(name) {
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
    calls: Vec<Call>,
}

fn read_turn(line: &str) -> Result<TurnLine, Fault> {
    let mut value = strict::parse(line)?;
    let dialect = match value.get("dialect") {
        None => None,
        Some(Value::String(name)) => Some(name.clone()),
        Some(other) => return Err(Fault::invalid(format!("`dialect` must be a name, not {other}"))),
    };
    let calls = match value.get_mut("calls") {
        Some(calls) => Call::from_json(calls.take())?,
        None => Call::from_json(value)?,
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

fn print_json(replies: impl Iterator<Item = Value>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for reply in replies {
        serde_json::to_writer(&mut out, &reply)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

fn print_fault(line: usize, fault: &Fault, as_json: bool) -> anyhow::Result<()> {
    let told = Fault::new(fault.kind(), format!("line {line}: {}", fault.message()));
    let told = match fault.hint_text() {
        Some(hint) => told.hint(hint),
        None => told,
    };
    let reply = haft::text_fault(&told);
    if !as_json {
        return show::fault(&told);
    }
    let mut value = reply.to_json();
    value["id"] = json!(null);
    value["name"] = json!(null);
    print_json(std::iter::once(value))
}
