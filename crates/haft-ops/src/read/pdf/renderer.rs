//! A page drawn by a program that people have installed for it, in the sandbox. The program is never one that lies in the
//! workspace, where anybody could have put it.

use bytes::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::image::{Fitted, MAX_SIDE, fit};
use haft_core::Context;
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{self, Limits};

/// How long drawing one page may take.
const TIME: Duration = Duration::from_secs(20);
/// The largest picture that is taken from a program.
const MAX_PICTURE: usize = 64 * 1024 * 1024;
/// How much memory a program may take for it.
const MEMORY: u64 = 1 << 30;
const PROGRAMS: [&str; 2] = ["pdftoppm", "mutool"];

/// A picture of a page, or why there is none.
pub(super) async fn draw(bytes: &Bytes, page: u32, cx: &Context) -> Result<Fitted, String> {
    let limits =
        Limits { memory: Some(MEMORY), processes: Some(16), file_size: Some(MEMORY), ..Limits::default() };
    for program in PROGRAMS {
        let Some(place) = places(program, cx).into_iter().find(|place| haft_sandbox::user::exists(place))
        else {
            continue;
        };
        let drawing = sandbox::filter(&place, arguments(program, page), bytes.to_vec(), limits, MAX_PICTURE);
        let drawn = match tokio::time::timeout(TIME, drawing).await {
            Err(_) => return Err(format!("`{program}` took too long to draw it")),
            Ok(Err(error)) => return Err(format!("it could not be drawn: {error}")),
            Ok(Ok(drawn)) => drawn,
        };
        if drawn.ended.exit != Exit::Code(0) {
            return Err(format!("`{program}` failed to draw it"));
        }
        let fitted = tokio::task::spawn_blocking(move || fit(drawn.output)).await;
        let fitted = fitted.map_err(|error| error.to_string())?;
        return fitted
            .map_err(|problem| format!("the picture that `{program}` made of it is none: {problem}"));
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

/// The arguments by which a program draws a page of its standard input as PNG on its standard output.
fn arguments(program: &str, page: u32) -> Vec<OsString> {
    let (page, side) = (page.to_string(), MAX_SIDE.to_string());
    let args: &[&str] = match program {
        "pdftoppm" => &["-png", "-f", &page, "-l", &page, "-scale-to", &side, "-"],
        _ => &["draw", "-q", "-F", "png", "-o", "-", "-w", &side, "-h", &side, "/dev/stdin", &page],
    };
    args.iter().map(OsString::from).collect()
}
