//! `haft fetch` and `haft search`: the web for people, as the tools of models see it. The person who typed the command
//! has decided, so no rule is asked; private addresses are refused all the same.

use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

use haft_core::{Context, Engine, Fault, FaultKind, Operation, Session, Workspace};
use haft_ops::Piece;
use haft_web::{Content, Fetch, Fetched, Found, Search, Target, Web};
use serde_json::json;

use super::{Completion, INTERRUPTED, StopSignal, interruptible};
use crate::args::Common;
use crate::host;
use crate::style::{self, BOLD, DIM, one_line, sanitize};

/// Fetches a URL and prints it.
pub(super) fn fetch(common: &Common, url: &str) -> anyhow::Result<ExitCode> {
    run(
        common,
        |session, cx| {
            let target = Target::parse(url, session.extension::<Web>().egress.reach())?;
            Ok((Fetch::page(target), cx))
        },
        print_page,
    )
}

/// Searches and prints the results.
pub(super) fn search(common: &Common, words: &[String], count: usize) -> anyhow::Result<ExitCode> {
    let words = words.join(" ");
    run(common, |_, cx| Ok((Search::new(&words, &[], &[], count, &cx)?, cx)), print_found)
}

/// Runs an operation in a session of its own.
fn run<O: Operation>(
    common: &Common,
    prepare: impl FnOnce(&Session, Context) -> Result<(O, Context), Fault>,
    print: impl FnOnce(&Common, O::Output) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let session = session(common)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut stop = {
        let _inside = runtime.enter();
        StopSignal::listen()?
    };
    let (mut operation, cx) = match prepare(&session, session.context()) {
        Ok(prepared) => prepared,
        Err(fault) if fault.kind() == FaultKind::InvalidInput => return Err(style::fault_error(&fault)),
        Err(fault) => return Ok(failed(&fault)),
    };
    let work = async {
        operation.check(&cx).await?;
        operation.run(&cx).await
    };
    let outcome = runtime.block_on(interruptible(&session, &mut stop, work));
    match outcome {
        Completion::Done(Ok(output)) => print(common, output),
        Completion::Done(Err(fault)) => Ok(failed(&fault)),
        Completion::Stopped(_) => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// A session with the web of the settings. It touches no files, so it works in every folder.
fn session(common: &Common) -> anyhow::Result<Session> {
    let environment = host::lenient_environment(common)?;
    let settings = &environment.loaded.settings;
    let results = haft_host::result_store(settings, environment.results());
    let engine = Engine::builder().keep_results(results).build();
    let workspace = Workspace::open(&std::env::temp_dir())?;
    let web = settings.web.runtime()?;
    Ok(engine.session(workspace).extension(web).start())
}

/// Reports a fault of a valid request.
fn failed(fault: &Fault) -> ExitCode {
    style::report(&style::fault_error(fault));
    ExitCode::FAILURE
}

fn print_page(common: &Common, page: Fetched) -> anyhow::Result<ExitCode> {
    let text = match &page.content {
        Content::Text(text) => text.clone(),
        Content::Pieces(pieces) => pieces.iter().map(piece_text).collect(),
        _ => String::new(),
    };
    let file = match &page.content {
        Content::Kept { path } => path.as_ref().map(|path| path.display().to_string()),
        _ => None,
    };
    let code = if page.status < 400 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if common.json {
        let value = json!({
            "url": page.url,
            "final_url": page.final_url,
            "status": page.status,
            "content_type": page.content_type,
            "bytes": page.bytes,
            "text": text,
            "file": file,
            "redirect": page.redirect.as_ref().map(|redirect| &redirect.to),
            "notes": page.notes,
        });
        writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(&value)?)?;
        return Ok(code);
    }
    if page.status >= 400 {
        style::notice(&format!("{} {}", page.status, page.status_text));
    }
    for note in &page.notes {
        style::notice(note);
    }
    if let Some(redirect) = &page.redirect {
        let (to, why) = (one_line(&redirect.to), one_line(&redirect.why));
        let fault = Fault::failed(format!("it redirects to {to} and was not followed: {why}"));
        return Ok(failed(&fault.hint("fetch that URL itself if you want it")));
    }
    if let Content::Kept { .. } = page.content {
        let kind = page.content_type.as_deref().unwrap_or("an unknown type");
        match file {
            Some(file) => style::notice(&format!("it is {kind}, {} bytes, kept in {file}", page.bytes)),
            None => style::notice(&format!("it is {kind}, {} bytes, and cannot be shown", page.bytes)),
        }
        return Ok(code);
    }
    let text = if std::io::stdout().is_terminal() { sanitize(&text) } else { text };
    writeln!(std::io::stdout().lock(), "{}", text.trim_end())?;
    Ok(code)
}

fn piece_text(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => text.clone(),
        Piece::Picture(picture) => {
            format!(
                "[a picture: {}, {}x{}]\n",
                picture.media_type, picture.original_width, picture.original_height
            )
        }
    }
}

fn print_found(common: &Common, found: Found) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout().lock();
    if common.json {
        let results: Vec<_> = found
            .results
            .iter()
            .map(|hit| json!({"title": hit.title, "url": hit.url, "snippet": hit.snippet, "date": hit.date}))
            .collect();
        let value = json!({"provider": found.provider, "results": results, "notes": found.notes});
        writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for note in &found.notes {
        style::notice(note);
    }
    for hit in &found.results {
        let date =
            hit.date.as_ref().map(|date| format!("  {DIM}{}{DIM:#}", one_line(date))).unwrap_or_default();
        writeln!(out, "{BOLD}{}{BOLD:#}{date}\n{}", one_line(&hit.title), one_line(&hit.url))?;
        if !hit.snippet.is_empty() {
            writeln!(out, "{DIM}{}{DIM:#}", one_line(&hit.snippet))?;
        }
        writeln!(out)?;
    }
    if found.results.is_empty() {
        style::notice("nothing was found");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
