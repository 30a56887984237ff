//! Renders a page as an image with an installed program, `pdftoppm` or `mutool`, in the sandbox. Never runs a program from
//! the workspace, because the workspace is not trusted.

use bytes::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::image::{Fitted, MAX_SIDE, fit};
use haft_core::Context;
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{self, Limits};

/// Time limit for rendering one page.
const TIME: Duration = Duration::from_secs(20);
/// Largest image that a renderer may return, in bytes.
const MAX_PICTURE: usize = 64 * 1024 * 1024;
/// Memory limit of a renderer, in bytes.
const MEMORY: u64 = 1 << 30;
/// Renderers, the preferred one first.
const PROGRAMS: [&str; 2] = ["pdftoppm", "mutool"];

/// Renders a page. The error says why there is no image.
pub(super) async fn render(bytes: &Bytes, page: u32, cx: &Context) -> Result<Fitted, String> {
    let limits =
        Limits { memory: Some(MEMORY), processes: Some(16), file_size: Some(MEMORY), ..Limits::default() };
    for program in PROGRAMS {
        let Some(place) = places(program, cx).into_iter().find(|place| haft_sandbox::user::exists(place))
        else {
            continue;
        };
        let rendering =
            sandbox::filter(&place, arguments(program, page), bytes.to_vec(), limits, MAX_PICTURE);
        let rendered = match tokio::time::timeout(TIME, rendering).await {
            Err(_) => return Err(format!("`{program}` took too long to draw it")),
            Ok(Err(error)) => return Err(format!("it could not be drawn: {error}")),
            Ok(Ok(rendered)) => rendered,
        };
        if rendered.ended.exit != Exit::Code(0) {
            return Err(format!("`{program}` failed to draw it"));
        }
        let fitted = tokio::task::spawn_blocking(move || fit(rendered.output)).await;
        let fitted = fitted.map_err(|error| error.to_string())?;
        return fitted
            .map_err(|problem| format!("the picture that `{program}` made of it is none: {problem}"));
    }
    Err("no renderer (pdftoppm or mutool) was found".to_owned())
}

/// Candidate paths of a program: the folders of `PATH`, except those inside the workspace.
fn places(program: &str, cx: &Context) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let outside = |folder: &PathBuf| {
        let text = folder.to_str().filter(|_| folder.is_absolute());
        text.is_some_and(|text| cx.workspace().resolve(cx.workspace().root(), text).is_err())
    };
    std::env::split_paths(&path).filter(outside).map(|folder| folder.join(program)).collect()
}

/// Arguments with which a program renders a page of the PDF on its standard input as PNG on its standard output.
fn arguments(program: &str, page: u32) -> Vec<OsString> {
    let (page, side) = (page.to_string(), MAX_SIDE.to_string());
    let args: &[&str] = match program {
        "pdftoppm" => &["-png", "-f", &page, "-l", &page, "-scale-to", &side, "-"],
        _ => &["draw", "-q", "-F", "png", "-o", "-", "-w", &side, "-h", &side, "/dev/stdin", &page],
    };
    args.iter().map(OsString::from).collect()
}
