//! What a command claims: the command itself, for rules about commands, and what it touches, as far as that shows.

use std::path::Path;
use std::sync::Arc;

use haft_core::{AbsPath, Claims, CommandLine, Context, Resource, permissions};
use haft_sandbox::{FolderAccess, Kind, PathErrorKind, names};

use haft_shell::{Accesses, ParsedCommand};

/// Folders of the kernel, and temporary ones, of which a sandbox has its own.
const OWN: [&str; 5] = ["/proc", "/sys", "/dev", "/tmp", "/var/tmp"];

fn is_of_system(path: &Path) -> bool {
    OWN.iter().any(|own| path.starts_with(own)) || permissions::is_of_system(&AbsPath::lexical(path))
}

/// Everything that a command may touch.
pub(super) fn claims(
    text: &str,
    understood: &Arc<ParsedCommand>,
    touches: &Accesses,
    is_read_only: bool,
    is_free: bool,
    cx: &Context,
) -> Claims {
    let line = Resource::Command(CommandLine::new(text).with_analysis(understood.clone()));
    let mut claims = match is_read_only {
        true => Claims::none().read(line),
        false => Claims::none().write(line),
    };
    for path in &touches.reads {
        if let Some(place) = place(path, cx) {
            claims = claims.read(Resource::Path(place));
        }
    }
    // What is written to devices and the private temporary folder touches nobody else.
    let written: Vec<AbsPath> = touches.writes.iter().filter_map(|path| place(path, cx)).collect();
    for place in &written {
        // Of a folder that something is put into, only that changes.
        let is_above = |other: &AbsPath| other != place && other.is_within(place);
        let is_folder = || cx.workspace().stat(place).is_ok_and(|stat| stat.kind == Kind::Directory);
        if !(written.iter().any(is_above) && is_folder()) {
            claims = claims.write(Resource::Path(place.clone()));
        }
    }
    for host in &touches.hosts {
        claims = claims.write(Resource::Host(host.clone()));
    }
    match (touches.incomplete.is_some() || is_free, is_read_only) {
        (true, true) => claims.read(Resource::Everything),
        (true, false) => claims.write(Resource::Everything),
        (false, _) => claims,
    }
}

/// The place that a path of a command means: where links lead within the workspace, or as it is written outside of
/// it. None for the places that every command may use.
fn place(path: &Path, cx: &Context) -> Option<AbsPath> {
    let workspace = cx.workspace();
    // A link may lead out: then what counts is where it leads.
    match workspace.reaching(workspace.root(), &names::show(path), FolderAccess::Read) {
        Ok((_, found)) if workspace.access(&found.path).is_some() => Some(found.path),
        Ok((_, found)) if is_of_system(found.path.as_path()) => None,
        Ok((_, found)) => Some(found.path),
        Err(_) if is_of_system(path) => None,
        // What is not there leads nowhere else.
        Err(error) if matches!(error.kind, PathErrorKind::NotFound | PathErrorKind::NotADirectory) => {
            Some(AbsPath::lexical(path))
        }
        // What cannot be looked at is taken for what is named, or, where that would lie inside, for all there is.
        Err(_) => {
            let named = AbsPath::lexical(path);
            Some(if workspace.access(&named).is_some() { AbsPath::lexical(Path::new("/")) } else { named })
        }
    }
}
