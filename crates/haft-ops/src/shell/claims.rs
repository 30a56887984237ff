//! Claims of a shell command: the command line itself, for rules about commands, and the paths and hosts that its text
//! shows. A command whose accesses are not all known claims everything. Knows nothing of rules.

use std::path::Path;
use std::sync::Arc;

use haft_core::{AbsPath, Claims, CommandLine, Context, Resource, permissions};
use haft_sandbox::{FolderAccess, Kind, PathErrorKind, names};

use haft_shell::{Accesses, ParsedCommand, Repository};

/// Folders that need no claim, because every sandbox has its own: those of the kernel, and temporary ones.
const PRIVATE: [&str; 5] = ["/proc", "/sys", "/dev", "/tmp", "/var/tmp"];

fn is_of_system(path: &Path) -> bool {
    PRIVATE.iter().any(|private| path.starts_with(private))
        || permissions::is_of_system(&AbsPath::lexical(path))
}

/// Claims of a command.
pub(super) fn of_command(
    text: &str,
    dir: &AbsPath,
    parsed: &Arc<ParsedCommand>,
    accesses: &Accesses,
    is_read_only: bool,
    is_free: bool,
    cx: &Context,
) -> Claims {
    let line = Resource::Command(CommandLine::new(text).in_dir(dir.clone()).with_analysis(parsed.clone()));
    let mut claims = match is_read_only {
        true => Claims::none().read(line),
        false => Claims::none().write(line),
    };
    for path in &accesses.reads {
        if let Some(place) = place(path, cx) {
            claims = claims.read(Resource::Path(place));
        }
    }
    // `place` drops devices and private temporary folders: writing there affects no other call.
    let written: Vec<AbsPath> = accesses.writes.iter().filter_map(|path| place(path, cx)).collect();
    for place in &written {
        // `cp a folder/` names the folder and the new file: only the file changes.
        let is_above = |other: &AbsPath| other != place && other.is_within(place);
        let is_folder = || cx.workspace().stat(place).is_ok_and(|stat| stat.kind == Kind::Directory);
        if !(written.iter().any(is_above) && is_folder()) {
            claims = claims.write(Resource::Path(place.clone()));
        }
    }
    match accesses.repository {
        Repository::Unused => {}
        Repository::Read => claims = claims.read(Resource::State(REPOSITORY.into())),
        Repository::Changed => claims = claims.write(Resource::State(REPOSITORY.into())),
    }
    for host in &accesses.hosts {
        claims = claims.write(Resource::Host(host.clone()));
    }
    match (accesses.incomplete.is_some() || is_free, is_read_only) {
        (true, true) => claims.read(Resource::Everything),
        (true, false) => claims.write(Resource::Everything),
        (false, _) => claims,
    }
}

/// The data of git, apart from the files that are checked out.
const REPOSITORY: &str = "the repository (`.git`)";

/// What a command with these claims would change or reach, in words.
pub(super) fn effects(claims: &Claims, incomplete: Option<&str>, cx: &Context) -> String {
    let named = haft_core::permissions::effects(claims, cx);
    let parts: Vec<String> = named.into_iter().chain(incomplete.map(str::to_owned)).collect();
    if parts.is_empty() { "it can change things".to_owned() } else { parts.join("; ") }
}

/// Resolves a path of a command to the path to claim: inside the workspace, where symbolic links lead; outside, as it is
/// written. `None` for the folders that every command may use.
fn place(path: &Path, cx: &Context) -> Option<AbsPath> {
    let workspace = cx.workspace();
    // A link may lead out of the workspace: then its target counts.
    match workspace.reaching(workspace.root(), &names::show(path), FolderAccess::Read) {
        Ok((_, found)) if workspace.access(&found.path).is_some() => Some(found.path),
        Ok((_, found)) if is_of_system(found.path.as_path()) => None,
        Ok((_, found)) => Some(found.path),
        Err(_) if is_of_system(path) => None,
        // A missing path is no link.
        Err(error) if matches!(error.kind, PathErrorKind::NotFound | PathErrorKind::NotADirectory) => {
            Some(AbsPath::lexical(path))
        }
        // A path that cannot be examined may lead anywhere. Inside the workspace, where the name alone would be allowed,
        // it therefore claims the whole file system.
        Err(_) => {
            let named = AbsPath::lexical(path);
            Some(if workspace.access(&named).is_some() { AbsPath::lexical(Path::new("/")) } else { named })
        }
    }
}
