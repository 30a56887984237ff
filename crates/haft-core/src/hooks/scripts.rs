//! Pins the files that hook commands name, as far as they lie where a session can write: trust in a hook is trust in its
//! script, and a model that rewrites the script would run it outside of the sandbox. Finding the names is a heuristic over
//! the command's text that rather takes too many words for files than too few. Knows nothing of how a person is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};

use haft_sandbox::{AbsPath, Hash, PathErrorKind, Store, Workspace};

/// The file with the pins, in the workspace's state folder.
const FILE: &str = "hooks.json";
/// Larger files are not hashed, so that a hook that names one does not run.
const MAX_SCRIPT: u64 = 64 << 20;
/// The variables that hold the hook's folder.
const FOLDER_VARIABLES: [&str; 4] =
    ["${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR", "${HAFT_PROJECT_DIR}", "$HAFT_PROJECT_DIR"];
/// Programs that run none of the files they are given. All others count as if they did.
const NO_RUNNERS: [&str; 21] = [
    "[", "cat", "cmp", "cut", "date", "diff", "echo", "grep", "head", "jq", "ls", "mkdir", "mv", "printf",
    "rm", "sort", "tail", "tee", "test", "touch", "wc",
];
/// Words of the shell before a program's name.
const KEYWORDS: [&str; 8] = ["!", "{", "do", "elif", "else", "if", "then", "while"];
/// Stands for the hook's folder while a command is split into words: the folder's name may have spaces.
const FOLDER: char = '\u{1}';

/// The contents of hooks' scripts when the user trusted them.
#[derive(Clone, Debug)]
pub struct ScriptPins {
    store: Store,
    workspace: Workspace,
}

impl ScriptPins {
    /// The pins in a workspace's state folder. The workspace must not be narrowed by a focus: a hook sees all of it.
    pub fn new(store: Store, workspace: Workspace) -> Self {
        Self { store, workspace }
    }

    /// Pins the files that a command names and that are not pinned yet.
    pub fn pin_new(&self, command: &str) -> io::Result<()> {
        self.change(|pins| {
            for name in names(command) {
                if !pins.contains_key(&name)
                    && let Some(state) = state(&name, &self.workspace)?
                {
                    pins.insert(name, state);
                }
            }
            Ok(())
        })
    }

    /// Pins the files that these commands name as they are now, and forgets all others.
    pub fn pin_anew<'a>(&self, commands: impl Iterator<Item = &'a str>) -> io::Result<()> {
        self.change(|pins| {
            pins.clear();
            for name in commands.flat_map(names) {
                if let Some(state) = state(&name, &self.workspace)? {
                    pins.insert(name, state);
                }
            }
            Ok(())
        })
    }

    /// Pins the files that a command names as they are now.
    pub(super) fn accept(&self, command: &str) -> io::Result<()> {
        self.change(|pins| {
            for name in names(command) {
                if let Some(state) = state(&name, &self.workspace)? {
                    pins.insert(name, state);
                }
            }
            Ok(())
        })
    }

    /// The files of a command that are not as they were pinned.
    pub fn changed(&self, command: &str) -> io::Result<Vec<String>> {
        let pins = self.load()?;
        let mut changed = Vec::new();
        for name in names(command) {
            let Some(now) = state(&name, &self.workspace)? else { continue };
            // A plain word that becomes a file is no script yet: `cargo test` with a new file `test`.
            if pins.get(&name) != Some(&now) && (pins.contains_key(&name) || looks_like_path(&name)) {
                changed.push(name.replace(FOLDER, "."));
            }
        }
        Ok(changed)
    }

    fn load(&self) -> io::Result<BTreeMap<String, String>> {
        let Some(bytes) = self.store.read(FILE)? else { return Ok(BTreeMap::new()) };
        serde_json::from_slice(&bytes).map_err(|error| {
            io::Error::other(format!("`{}` is damaged ({error})", self.store.path(FILE).display()))
        })
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> io::Result<()>) -> io::Result<()> {
        let before = self.load()?;
        let mut pins = before.clone();
        change(&mut pins)?;
        if pins == before {
            return Ok(());
        }
        self.store.write(FILE, &serde_json::to_vec_pretty(&pins)?)
    }
}

/// The words of a command that may name files which it runs.
fn names(command: &str) -> BTreeSet<String> {
    let marked = FOLDER_VARIABLES
        .iter()
        .fold(command.replace(FOLDER, ""), |text, variable| text.replace(variable, &FOLDER.to_string()));
    let mut names = BTreeSet::new();
    for part in marked.split([';', '|', '&', '(', ')', '`', '\n']) {
        let unquoted: String = part.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
        let spaced = unquoted.replace('>', " > ").replace('<', " < ");
        let mut words = Vec::new();
        let mut all = spaced.split_whitespace();
        while let Some(word) = all.next() {
            match word {
                // What is written is not run.
                ">" => while all.next() == Some(">") {},
                "<" => {}
                word => words.push(word),
            }
        }
        let is_before = |word: &&&str| {
            KEYWORDS.contains(*word) || word.split_once('=').is_some_and(|(name, _)| !name.contains('/'))
        };
        let assigned = words.iter().take_while(is_before).count();
        let program = words.get(assigned).copied().unwrap_or_default();
        let runs_nothing = NO_RUNNERS.contains(&program.rsplit('/').next().unwrap_or_default());
        let taken = if runs_nothing { assigned + 1 } else { words.len() };
        names.extend(words.iter().take(taken).flat_map(|word| word.split('=')).map(str::to_owned));
        if !runs_nothing {
            // A quoted name may have spaces.
            names.extend(part.split(['"', '\'']).skip(1).step_by(2).map(|quoted| quoted.trim().to_owned()));
        }
    }
    names.retain(|word| !word.is_empty() && word.len() < 4096);
    names
}

fn looks_like_path(name: &str) -> bool {
    name.contains(['/', '.', FOLDER])
}

/// The state of a file that a session could write: the hash of its content, or why there is none. `None` for a name that
/// is hardly one of a file, and for one outside of the folders of the workspace, where only the user changes anything.
fn state(name: &str, workspace: &Workspace) -> io::Result<Option<String>> {
    let root = workspace.root();
    let text = name.replace(FOLDER, &root.to_string());
    let path = AbsPath::lexical(&root.as_path().join(&text));
    if !path.is_within(root) && !workspace.folders().iter().any(|folder| path.is_within(&folder.path)) {
        return Ok(None);
    }
    let absent = |why: &str| Ok(looks_like_path(name).then(|| why.to_owned()));
    let Ok(place) = workspace.resolve(root, &text) else { return absent("leads outside") };
    if place.stat.is_none() {
        return absent("missing");
    }
    if workspace.require_writable(&place.path).is_err() {
        return absent("cannot be written");
    }
    hash(&place.path, workspace).map_or_else(|| absent("no file"), |hash| hash.map(Some))
}

/// The hash of a regular file; none for anything else.
fn hash(path: &AbsPath, workspace: &Workspace) -> Option<io::Result<String>> {
    let open = match workspace.open_file(path) {
        Ok(open) => open,
        Err(error) => match error.kind {
            PathErrorKind::Io(error) => return Some(Err(error)),
            _ => return None,
        },
    };
    if open.stat.size > MAX_SCRIPT {
        return Some(Err(io::Error::other(format!("`{path}` is larger than {} MB", MAX_SCRIPT >> 20))));
    }
    Some(Hash::of_reader(open.file.take(MAX_SCRIPT)).map(|hash| hash.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_quotes_and_behind_variables() {
        let found = names("\"$CLAUDE_PROJECT_DIR\"/hooks/a.sh x=b.py; sh 'my hook.sh'|${HAFT_PROJECT_DIR}/c");
        for name in ["\u{1}/hooks/a.sh", "b.py", "my hook.sh", "\u{1}/c"] {
            assert!(found.contains(name), "{name}: {found:?}");
        }
    }

    #[test]
    fn what_is_only_read_or_written_is_no_script() {
        let found = names(
            "echo a.txt >> b.txt; cat <c.txt | sh d.sh 2>&1 >e.txt; ./f <g.sh; test -e h.sh && sh <i.sh",
        );
        for name in ["a.txt", "b.txt", "c.txt", "e.txt", "h.sh"] {
            assert!(!found.contains(name), "{name}: {found:?}");
        }
        for name in ["d.sh", "./f", "g.sh", "i.sh"] {
            assert!(found.contains(name), "{name}: {found:?}");
        }
    }
}
