//! The worker that reads a PDF in the sandbox: the file on its standard input, which pages as its argument, the text as JSON
//! on its standard output.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::time::Instant;

use bytes::Bytes;
use haft_sandbox::sandbox::{self, LimitHit, Limits, Worker};

use super::{Extracted, MAX_PAGE_TEXT, MAX_PAGES, Pages, Problem, STACK, TIME, Until, thread};

/// Reads PDFs in the sandbox. A program that is to read PDFs names it to `sandbox::arm_with`.
pub const PDF_WORKER: Worker = Worker { name: "pdf", run };

/// How much memory it may take.
pub(super) const MEMORY: u64 = 1 << 30;

/// Has the worker read a PDF. The outer error says that it could not be run.
pub(super) async fn extract(bytes: &Bytes, wanted: Option<&Pages>) -> io::Result<Result<Extracted, Problem>> {
    let limits = Limits {
        memory: Some(MEMORY),
        cpu: Some(TIME.as_secs()),
        processes: Some(16),
        // The file itself comes as one in memory.
        file_size: Some(MEMORY),
        ..Limits::default()
    };
    let args = wanted.map(|wanted| serde_json::to_string(wanted).map(OsString::from)).transpose()?;
    // JSON writes some characters as six.
    let most = 6 * MAX_PAGES * MAX_PAGE_TEXT;
    let done =
        sandbox::work(PDF_WORKER.name, args.into_iter().collect(), bytes.to_vec(), limits, most).await?;
    let broken = || Problem::Broken("it crashed what reads it".to_owned());
    Ok(match serde_json::from_slice(&done.output) {
        Ok(answer) => answer,
        Err(_) if done.ended.hit == Some(LimitHit::Memory) || done.error.contains("memory allocation") => {
            Err(Problem::Memory)
        }
        Err(_) if done.ended.hit == Some(LimitHit::Cpu) => Err(Problem::Slow),
        Err(_) => Err(broken()),
    })
}

/// What the worker does.
fn run(args: Vec<OsString>) -> io::Result<()> {
    let pages =
        args.first().map(|pages| serde_json::from_slice::<Pages>(pages.as_encoded_bytes())).transpose()?;
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    // The library panics on much of what it does not expect; no word of that belongs anywhere.
    std::panic::set_hook(Box::new(|_| {}));
    let reading = move || super::extract(&bytes, pages.as_ref(), &Until(Instant::now() + TIME));
    let thread = thread::Builder::new().stack_size(STACK).spawn(reading)?;
    let answer =
        thread.join().unwrap_or_else(|_| Err(Problem::Broken("it crashed what reads it".to_owned())));
    io::stdout().lock().write_all(&serde_json::to_vec(&answer)?)
}
