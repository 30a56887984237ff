//! The style of a new file (encoding, line ends), from `.editorconfig` and from the files of the same type
//! beside it. Reads only the beginning of each, so that a write to a large folder stays fast.

use std::io::Read as _;

use haft_core::{AbsPath, Context};
use haft_sandbox::{Kind, names};

use haft_text::{ConfigFile, NewStyle, Source, style_for_new};

/// Bytes to read of a settings file.
const MAX_CONFIG: u64 = 64 * 1024;
/// Number of neighbouring files to examine.
const MAX_SIBLINGS: usize = 5;
/// Bytes to read of each neighbouring file.
const MAX_SIBLING: u64 = 16 * 1024;
/// Number of directory entries to examine in search of neighbouring files.
const MAX_NAMES: usize = 2000;

/// Style for a new file at `path`.
pub(crate) fn style(path: &AbsPath, cx: &Context) -> NewStyle {
    let mut configs: Vec<(String, String)> = Vec::new();
    let mut folder = path.parent();
    while let Some(dir) = folder.filter(|dir| cx.workspace().access(dir).is_some()) {
        if let Some(bytes) = beginning(&dir.child(".editorconfig".as_ref()), MAX_CONFIG, cx)
            && let Ok(below) = path.as_path().strip_prefix(&dir)
        {
            configs.push((String::from_utf8_lossy(&bytes).into_owned(), names::show(below)));
        }
        folder = dir.parent();
    }
    let configs: Vec<ConfigFile<'_>> = configs.iter().map(|(text, path)| ConfigFile { text, path }).collect();
    style_for_new(&configs, &siblings(path, cx))
}

/// Beginnings of some files of the same folder with the same extension.
fn siblings(path: &AbsPath, cx: &Context) -> Vec<Source> {
    let Some(folder) = path.parent() else { return Vec::new() };
    let Some(extension) = path.as_path().extension() else { return Vec::new() };
    let Ok(names) = cx.workspace().names(&folder) else { return Vec::new() };
    let alike = names.into_iter().take(MAX_NAMES).filter(|name| {
        name.kind == Kind::File && std::path::Path::new(&name.name).extension() == Some(extension)
    });
    alike
        .take(MAX_SIBLINGS)
        .filter_map(|name| {
            let mut bytes = beginning(&folder.child(&name.name), MAX_SIBLING, cx)?;
            // The limit may cut a character in two, so an incomplete last line goes.
            if bytes.len() as u64 == MAX_SIBLING
                && let Some(end) = memchr::memrchr(b'\n', &bytes)
            {
                bytes.truncate(end + 1);
            }
            Source::new(bytes).ok()
        })
        .collect()
}

fn beginning(path: &AbsPath, max: u64, cx: &Context) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    cx.workspace().open_file(path).ok()?.file.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
