//! A page drawn by a program that people have installed for it. The program is never one that lies in the
//! workspace, where anybody could have put it.

use bytes::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::image::{Fitted, MAX_SIDE, fit};
use haft_core::{AbsPath, Context};
use haft_sandbox::process::{Exit, Run, run};

/// How long drawing one page may take.
const TIME: Duration = Duration::from_secs(20);
/// The largest picture that is taken from a program.
const MAX_PICTURE: usize = 64 * 1024 * 1024;
const PROGRAMS: [&str; 2] = ["pdftoppm", "mutool"];

/// A picture of a page, or why there is none.
pub(super) async fn draw(bytes: &Bytes, path: &AbsPath, page: u32, cx: &Context) -> Result<Fitted, String> {
    for program in PROGRAMS {
        for place in places(program, cx) {
            let run_it = Run {
                program: place.into(),
                args: arguments(program, path, page),
                dir: PathBuf::from("/"),
                env: Vec::new(),
                stdin: if program == "pdftoppm" { bytes.to_vec() } else { Vec::new() },
                timeout: TIME,
                max_output: MAX_PICTURE,
            };
            let finished = match run(run_it, cx.cancelled()).await {
                Ok(finished) => finished,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("it could not be drawn: {error}")),
            };
            return match finished.exit {
                Exit::Code(0) => {
                    let fitted = tokio::task::spawn_blocking(move || fit(finished.stdout)).await;
                    let fitted = fitted.map_err(|error| error.to_string())?;
                    fitted.map_err(|problem| {
                        format!("the picture that `{program}` made of it is none: {problem}")
                    })
                }
                Exit::TimedOut => Err(format!("`{program}` took too long to draw it")),
                _ => Err(format!("`{program}` failed to draw it")),
            };
        }
    }
    Err("no renderer (pdftoppm or mutool) was found".to_owned())
}

/// Where a program may be: what `PATH` names, but nothing inside of the workspace.
fn places(program: &str, cx: &Context) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let outside = |folder: &PathBuf| {
        let text = folder.to_str().filter(|_| folder.is_absolute());
        text.is_some_and(|text| cx.workspace().resolve(cx.workspace().root(), text).is_err())
    };
    std::env::split_paths(&path).filter(outside).map(|folder| folder.join(program)).collect()
}

fn arguments(program: &str, path: &AbsPath, page: u32) -> Vec<OsString> {
    let page = page.to_string();
    let side = MAX_SIDE.to_string();
    if program == "pdftoppm" {
        let args = ["-png", "-f", &page, "-l", &page, "-scale-to", &side, "-"];
        return args.into_iter().map(OsString::from).collect();
    }
    let args = ["draw", "-q", "-F", "png", "-o", "-", "-w", &side, "-h", &side];
    let mut args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
    args.push(path.as_path().into());
    args.push(page.into());
    args
}
