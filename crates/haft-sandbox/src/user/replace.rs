//! Changes of files that a person named. They go the way of every change (see [`Workspace`]): atomic, durable, with the
//! attributes of the old file, and only if its content is still the expected one. A symbolic link stays, and its target changes.

use std::io;
use std::path::{Path, PathBuf};

use crate::change::{ChangeError, Durability, Expect, Hash, TempName};
use crate::error::PathError;
use crate::id::random_id;
use crate::path::AbsPath;
use crate::workspace::Workspace;

/// Who may read a file that did not exist before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Its owner only.
    Owner,
    /// Every user whom the umask and the permissions of the folder allow.
    Default,
}

/// Replaces the content of a file if it is still `before`; `None` means that the file must not exist. Makes missing folders.
pub fn replace(path: &Path, before: Option<&[u8]>, content: &[u8], reader: Reader) -> io::Result<()> {
    let (workspace, place) = locate(path)?;
    let expect = before.map_or(Expect::Missing, |bytes| Expect::Content(Hash::of(bytes)));
    workspace.write(&place, content, &expect, &temp_name()?, Durability::Full).map_err(failed)?;
    if before.is_none() && reader == Reader::Owner {
        let written = workspace.state(&place).map_err(failed)?;
        workspace.set_mode(&place, &written, 0o600, Durability::Full).map_err(failed)?;
    }
    Ok(())
}

/// Deletes a file if its content is still `before`.
pub fn delete(path: &Path, before: &[u8]) -> io::Result<()> {
    let (workspace, place) = locate(path)?;
    let found = workspace.state(&place).map_err(failed)?;
    if !Expect::Content(Hash::of(before)).allows(&found) {
        return Err(io::Error::other(format!("`{}` was changed by another program", path.display())));
    }
    workspace.remove(&place, &found, &temp_name()?, Durability::Full).map_err(failed)
}

/// The folders that [`replace`] would make for a file, outermost first.
pub fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_path_buf).collect();
    missing.reverse();
    missing
}

/// Removes a folder if it is empty; otherwise does nothing.
pub fn remove_empty(folder: &Path) {
    let _ = std::fs::remove_dir(folder);
}

/// The file that a path means, beneath the nearest folder that exists.
fn locate(path: &Path) -> io::Result<(Workspace, AbsPath)> {
    let target = match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => super::canonical(path)?,
        _ => path.to_path_buf(),
    };
    let mut below = Vec::new();
    let mut folder = target.as_path();
    loop {
        let (Some(name), Some(parent)) = (folder.file_name(), folder.parent()) else {
            return Err(io::Error::other(format!("`{}` is not the path of a file", path.display())));
        };
        below.push(name);
        folder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        if folder.exists() {
            break;
        }
    }
    let workspace =
        Workspace::open(folder).map_err(|error: PathError| io::Error::other(error.to_string()))?;
    let place = below.iter().rev().fold(workspace.root().clone(), |place, name| place.child(name));
    Ok((workspace, place))
}

fn temp_name() -> io::Result<TempName> {
    TempName::new(&random_id()).ok_or_else(|| io::Error::other("no name for a temporary file"))
}

fn failed(error: ChangeError) -> io::Error {
    io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_link_stays_and_its_target_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, "old").unwrap();
        std::fs::set_permissions(&target, PermissionsExt::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("target", &link).unwrap();
        replace(&link, Some(b"old"), b"new", Reader::Owner).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "theirs").unwrap();
        for before in [None, Some(b"old".as_slice())] {
            replace(&file, before, b"new", Reader::Default).unwrap_err();
        }
        delete(&file, b"old").unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), b"theirs");
        delete(&file, b"theirs").unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn a_new_file_gets_its_folders_and_can_be_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b/file");
        assert_eq!(missing_folders(&file), [folder.path().join("a"), folder.path().join("a/b")]);
        replace(&file, None, b"new", Reader::Owner).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(missing_folders(&file).is_empty());
        remove_empty(folder.path());
        assert!(file.exists());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("missing", &link).unwrap();
        replace(&link, None, b"new", Reader::Default).unwrap_err();
        assert!(link.symlink_metadata().unwrap().is_symlink());
    }
}
