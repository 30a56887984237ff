//! Why a program was not found although it is installed: commands have a `/tmp` of their own, so that they do not see
//! programs that lie in the `/tmp` of the machine.

use std::path::{Path, PathBuf};

use haft_core::Context;
use haft_sandbox::Exit;
use haft_sandbox::sandbox::Layers;

use super::{Command, SandboxOptions};

/// The exit code of a shell that did not find a program.
const NOT_FOUND: i32 = 127;
/// Folders that commands have for themselves.
const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// A note for a command that failed because it does not see a program on its `PATH`.
pub(super) async fn explain(exit: Exit, command: &Command, cx: &Context) -> Option<String> {
    let options = cx.session().extension::<SandboxOptions>();
    if exit != Exit::Code(NOT_FOUND) || command.is_free() || options.layers == Layers::None {
        return None;
    }
    let env = options.env(cx).await;
    let path = env.into_iter().find_map(|(name, value)| (name == "PATH").then_some(value))?;
    let folders = cx.session_workspace().folders();
    let is_private = |dir: &PathBuf| {
        PRIVATE.iter().any(|private| dir.starts_with(private))
            && !folders.iter().any(|folder| dir.starts_with(&folder.path))
    };
    let hidden: Vec<PathBuf> = std::env::split_paths(&path).filter(is_private).collect();
    let programs = command.parsed.commands().iter().filter_map(|command| command.argv.first());
    let names = programs.map(haft_shell::Word::text).filter(|name| !name.is_empty() && !name.contains('/'));
    let found = names.into_iter().find_map(|name| Some((name, folder_with(name, &hidden)?)));
    found.map(|(name, folder)| {
        format!(
            "`{name}` is in `{}`, which commands do not see: the sandbox gives them temporary folders of their own; \
             install it elsewhere, or have the user add the folder with `--add-dir`",
            folder.display()
        )
    })
}

fn folder_with<'a>(name: &str, folders: &'a [PathBuf]) -> Option<&'a Path> {
    folders.iter().find(|folder| haft_sandbox::user::exists(&folder.join(name))).map(PathBuf::as_path)
}
