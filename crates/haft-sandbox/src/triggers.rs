//! Files that make other programs run something: hooks of git, tasks of editors, servers of agents. The one table of them: tools
//! ask before they write one, commands cannot, and what a command plants under such a name is set aside. A new editor or agent
//! with settings of its own adds a line here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Name of a repository's folder, or of the file that leads to it.
pub const GIT: &str = ".git";

/// The folder of haft's own settings in a project. Neither tools nor commands change it.
pub const OWN: &str = ".haft";

/// Paths in a repository's folder.
pub const IN_REPOSITORY: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "info/attributes"];

/// Names in a folder that people open or work in, which commands cannot change.
const IN_FOLDER: &[&str] = &[
    // environments and hooks
    ".envrc",
    ".husky",
    // editors
    ".vscode",
    ".idea",
    ".zed",
    ".devcontainer",
    ".lsp.json",
    // agents
    ".mcp.json",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".opencode",
    ".qwen",
];

/// Names that commands may change in the course of their work, and tools only after a question.
const ASKED: &[&str] = &[
    ".git",
    ".gitmodules",
    ".gitconfig",
    ".pre-commit-config.yaml",
    ".github",
    ".bashrc",
    ".zshrc",
    ".profile",
    ".bash_profile",
    ".npmrc",
    ".ssh",
];

/// The paths in a folder that commands cannot change.
pub fn guarded_in(folder: &Path) -> Vec<PathBuf> {
    let repository = folder.join(GIT);
    let names = [OWN].iter().chain(IN_FOLDER).map(|name| folder.join(name));
    names.chain(IN_REPOSITORY.iter().map(|name| repository.join(name))).collect()
}

/// The guarded name that a text contains, if any.
pub fn named_in(text: &str) -> Option<String> {
    let in_repository = IN_REPOSITORY.iter().map(|name| format!("{GIT}/{name}"));
    let in_folder = [OWN].iter().chain(IN_FOLDER).map(|name| (*name).to_owned());
    in_folder.chain(in_repository).find(|name| text.contains(&**name))
}

/// Whether other programs run or obey the content of a file or folder of this name, so that tools ask before they write it.
pub fn is_asked(name: &OsStr) -> bool {
    IN_FOLDER.iter().chain(ASKED).any(|known| name.eq_ignore_ascii_case(known))
}

/// Where a path leads in a repository's folder, if it makes git run something: the repository's folder, and the path in it.
pub fn in_repository(path: &Path) -> Option<(&Path, &Path)> {
    let git = path.ancestors().find(|above| above.file_name().is_some_and(|name| name == GIT))?;
    let inside = path.strip_prefix(git).ok()?;
    IN_REPOSITORY.iter().any(|name| inside.starts_with(name)).then_some((git, inside))
}

/// Folder of hooks that a configuration of git names, as it is written there.
pub fn hooks_path(configuration: &str) -> Option<&str> {
    let mut is_core = false;
    let mut found = None;
    for line in configuration.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            is_core = header.split([']', ' ']).next().is_some_and(|name| name.eq_ignore_ascii_case("core"));
        }
        // A key may follow its section on the same line.
        let line = line.rsplit(']').next().unwrap_or(line);
        if let Some((key, value)) = line.split_once('=')
            && is_core
            && key.trim().eq_ignore_ascii_case("hookspath")
        {
            found = Some(value.trim().trim_matches('"'));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_known_in_any_repository() {
        for path in ["/ws/.git/hooks/pre-commit", "/ws/a/b/.git/config", "/ws/.git/info/attributes"] {
            assert!(in_repository(Path::new(path)).is_some(), "{path}");
        }
        for path in ["/ws/.git/index", "/ws/.git/configs", "/ws/hooks/pre-commit", "/ws/.git/hookshot"] {
            assert_eq!(in_repository(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn the_folder_of_hooks_is_read_from_a_configuration() {
        for text in [
            "[core]\n\thooksPath = .githooks\n",
            "[CORE]\nHOOKSPATH=\".githooks\"",
            "[user]\nname = x\n[core] hooksPath = .githooks\n",
            "[core]\nhooksPath = other\n[core]\nhooksPath = .githooks\n",
        ] {
            assert_eq!(hooks_path(text), Some(".githooks"), "{text}");
        }
        assert_eq!(hooks_path("[other]\nhooksPath = x\n[core]\nbare = false\n"), None);
    }
}
