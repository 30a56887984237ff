//! Commands as rules that deny see them: with the text of the script files that they run. Reads these in the workspace
//! only, and not more than a little of them.

use std::path::Path;
use std::sync::Arc;

use haft_core::{AbsPath, CommandLine, Workspace};
use haft_sandbox::{Kind, PathErrorKind};
use haft_shell::{self as shell, Cwd, ParsedCommand, Script, ScriptFile};

/// Largest script that is read, in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// The parsed command, with the scripts that it runs.
pub(super) fn parsed(line: &CommandLine, workspace: &Workspace) -> Arc<ParsedCommand> {
    let plain = super::parsed(line);
    match line.dir() {
        Some(dir) if plain.runs_files() => {
            Arc::new(shell::parse_with_scripts(line.text(), &mut |file| look_up(file, dir, workspace)))
        }
        _ => plain,
    }
}

fn look_up(file: ScriptFile<'_>, dir: &AbsPath, workspace: &Workspace) -> Script {
    let unread = |why: &str| Script::Unread(why.to_owned());
    let path = match file.cwd {
        Cwd::At(at) => format!("{at}/{}", file.path),
        _ => file.path.to_owned(),
    };
    let path = if file.path.starts_with('/') { file.path.to_owned() } else { path };
    let found = match workspace.resolve(dir, &path) {
        Ok(found) => found,
        // A program of the system, which rules know by its name.
        Err(_) if file.is_program => return Script::None,
        Err(error) if matches!(error.kind, PathErrorKind::NotFound | PathErrorKind::NotADirectory) => {
            return Script::None;
        }
        Err(_) if !Path::new(&path).is_absolute() && !path.contains("..") => return Script::None,
        Err(_) => return unread("lies outside of the workspace"),
    };
    match found.stat {
        None => Script::None,
        Some(stat) if stat.kind == Kind::Directory => Script::None,
        Some(stat) if stat.kind != Kind::File => unread("is no regular file"),
        Some(_) => {
            let bytes =
                workspace.open_file(&found.path).ok().and_then(|file| file.read_whole(MAX_BYTES + 1).ok());
            match bytes {
                None => unread("cannot be opened"),
                Some(bytes) if file.is_program && (bytes.starts_with(b"\x7fELF") || bytes.contains(&0)) => {
                    Script::None
                }
                Some(bytes) if bytes.len() as u64 > MAX_BYTES => unread("is too long"),
                Some(bytes) => match String::from_utf8(bytes) {
                    Ok(text) => Script::Text(text),
                    Err(_) => unread("is not UTF-8"),
                },
            }
        }
    }
}
