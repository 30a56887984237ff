//! The worker process that reads a PDF in the sandbox. It gets the file on its standard input and the page list as its
//! argument, and writes the text as JSON to its standard output. This file has both ends of that protocol.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::time::Instant;

use bytes::Bytes;
use haft_sandbox::sandbox::{self, LimitHit, Limits, Worker};

use super::{Deadline, Extracted, MAX_PAGE_TEXT, MAX_PAGES, Pages, PdfProblem, STACK, TIME, thread};

/// Worker that reads PDFs in the sandbox. A program that reads PDFs passes it to `sandbox::arm_with`.
pub const PDF_WORKER: Worker = Worker { name: "pdf", run };

/// Memory limit of the worker, in bytes.
pub(super) const MEMORY: u64 = 1 << 30;

/// Reads a PDF with the worker. The outer error means that the worker could not be started.
pub(super) async fn extract(
    bytes: &Bytes,
    wanted: Option<&Pages>,
) -> io::Result<Result<Extracted, PdfProblem>> {
    let limits = Limits {
        memory: Some(MEMORY),
        cpu: Some(TIME.as_secs()),
        processes: Some(16),
        // The sandbox passes the PDF as a memory file, to which this limit applies as well.
        file_size: Some(MEMORY),
        ..Limits::default()
    };
    let args = wanted.map(|wanted| serde_json::to_string(wanted).map(OsString::from)).transpose()?;
    // JSON escapes some characters with six bytes.
    let max_output = 6 * MAX_PAGES * MAX_PAGE_TEXT;
    let done = sandbox::work(PDF_WORKER.name, args.into_iter().collect(), bytes.to_vec(), limits, max_output)
        .await?;
    let broken = || PdfProblem::Broken("it crashed what reads it".to_owned());
    Ok(match serde_json::from_slice(&done.output) {
        Ok(answer) => answer,
        Err(_) if done.ended.hit == Some(LimitHit::Memory) || done.error.contains("memory allocation") => {
            Err(PdfProblem::Memory)
        }
        Err(_) if done.ended.hit == Some(LimitHit::Cpu) => Err(PdfProblem::Slow),
        Err(_) => Err(broken()),
    })
}

/// Entry point of the worker process.
fn run(args: Vec<OsString>) -> io::Result<()> {
    let pages =
        args.first().map(|pages| serde_json::from_slice::<Pages>(pages.as_encoded_bytes())).transpose()?;
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    // The library's panics are part of normal work here (`catch_panic`): their messages would only be noise.
    std::panic::set_hook(Box::new(|_| {}));
    let reading = move || super::extract(&bytes, pages.as_ref(), &Deadline(Instant::now() + TIME));
    let thread = thread::Builder::new().stack_size(STACK).spawn(reading)?;
    let answer =
        thread.join().unwrap_or_else(|_| Err(PdfProblem::Broken("it crashed what reads it".to_owned())));
    io::stdout().lock().write_all(&serde_json::to_vec(&answer)?)
}
