//! Script files that a command line runs: `sh build.sh`, `. ./env`, `python3 app.py`, `./run`. The caller supplies their
//! text, since this crate reads no files; the text then counts like that of a script in the command itself. Only checks
//! that deny use the result.

use std::path::Path;

use super::feed::{self, Input, Language};
use super::programs::{Profile, profile};
use super::walk::{self, Walk};
use super::wrap::{self, Nested};
use super::{Command, Cwd, Doubt, ParsedCommand, Word, accesses, scan};

/// Most script files of one command line that are looked at.
const MAX_SCRIPTS: usize = 16;

/// A file that a command runs.
#[derive(Debug, Clone, Copy)]
pub struct ScriptFile<'a> {
    /// Its path, as the command names it.
    pub path: &'a str,
    /// The folder that the path is relative to.
    pub cwd: &'a Cwd,
    /// Whether the file is run as a program: it may be none that is a script.
    pub is_program: bool,
}

/// What is known of a file that a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Script {
    /// Its text.
    Text(String),
    /// There is no such file, or it is no script.
    None,
    /// It may be a script, but its text is not known, for this reason.
    Unread(String),
}

/// Looks a script up.
pub(super) type Lookup<'a> = &'a mut dyn FnMut(ScriptFile<'_>) -> Script;

/// Parses a command as [`parse`](super::parse) does, and the scripts that it runs, whose text `lookup` gives.
pub fn parse_with_scripts(text: &str, lookup: &mut dyn FnMut(ScriptFile<'_>) -> Script) -> ParsedCommand {
    walk::read(text, Some(lookup))
}

/// The files that a command runs, and whether each is its program.
pub(super) fn files(command: &Command) -> Vec<(&Word, bool)> {
    let mut files = Vec::new();
    let Some(program) = command.argv.first() else { return files };
    if program.text().contains('/') {
        files.push((program, true));
    }
    let name = command.name();
    let runs_scripts = wrap::is_shell(name)
        || matches!(name, "." | "source")
        || wrap::is_interpreter(name)
        || name.ends_with("awk")
        || matches!(name, "sed" | "gsed");
    if runs_scripts {
        let names = feed::script_files(command);
        let is_script = |word: &&Word| {
            names.contains(&word.text())
                && word.text() != feed::DESCRIPTOR
                && !feed::names_descriptor(word.text())
        };
        files.extend(command.argv.iter().skip(1).filter(is_script).map(|word| (word, false)));
    }
    files
}

/// A script that was looked at.
struct Known {
    /// The index of the command that runs it.
    by: usize,
    /// The index of the command that stands for its interpreter, where the script is a program.
    interpreter: Option<usize>,
    path: String,
    language: Language,
}

impl Walk {
    /// Follows the script files that the commands run, and those that these run.
    pub(super) fn run_script_files(&mut self, lookup: Lookup<'_>) {
        let mut known = Vec::new();
        let mut at = 0;
        while let Some(command) = self.out.commands().get(at).cloned() {
            if let Some(folder) = foreign_folder(&command) {
                let what = format!("programs are looked for in `{folder}`, where they may be scripts");
                self.out.add_doubt(Doubt::Unread(what));
            }
            for (word, is_program) in files(&command) {
                let is_of_system =
                    ["/usr/", "/bin/", "/sbin/"].iter().any(|folder| word.text().starts_with(folder));
                if is_program && is_of_system {
                    // Rules know the programs of the system by their names.
                    continue;
                }
                if !word.is_literal() {
                    let what = format!(
                        "`{}` runs a file whose name is not certain, `{}`",
                        command.name(),
                        word.raw()
                    );
                    self.out.add_doubt(Doubt::Unread(what));
                    continue;
                }
                let path = word.text();
                let script = match (&command.cwd, known.len()) {
                    (_, MAX_SCRIPTS..) => Script::Unread("is one script too many".to_owned()),
                    (Cwd::Unknown, _) if !path.starts_with('/') => {
                        Script::Unread("is in a folder that is not certain".to_owned())
                    }
                    (cwd, _) => lookup(ScriptFile { path, cwd, is_program }),
                };
                match script {
                    Script::None => {}
                    Script::Unread(why) => {
                        let what = format!("`{}` runs `{path}`, which {why}", command.name());
                        self.out.add_doubt(Doubt::Unread(what));
                    }
                    Script::Text(text) => {
                        let (language, interpreter) = self.run_script(&command, at, is_program, text);
                        known.push(Known { by: at, interpreter, path: path.to_owned(), language });
                    }
                }
            }
            at += 1;
        }
        self.doubt_changed_scripts(&known);
    }

    /// Follows the text of a script. Returns its language, and the command that stands for its interpreter if the script is
    /// a program.
    fn run_script(
        &mut self,
        command: &Command,
        at: usize,
        is_program: bool,
        text: String,
    ) -> (Language, Option<usize>) {
        let name = command.name();
        let line = text.strip_prefix("#!").filter(|_| is_program).and_then(|line| line.lines().next());
        let mut words = line.unwrap_or_default().split_whitespace().map(scan::basename);
        let interpreter = words.find(|word| *word != "env" && !word.starts_with('-')).unwrap_or_default();
        let is_shell = match (is_program, line) {
            (false, _) => wrap::is_shell(name) || matches!(name, "." | "source"),
            (true, Some(_)) => wrap::is_shell(interpreter),
            // The shell itself runs a program that is a text without `#!`.
            (true, None) => true,
        };
        if is_shell || !is_program {
            let language = if is_shell { Language::Shell } else { Language::Other };
            let by = if interpreter.is_empty() { name.to_owned() } else { interpreter.to_owned() };
            self.run_text(&by, at, language, &Input::Text(text));
            return (language, None);
        }
        let run = Command {
            argv: vec![Word::literal(interpreter)],
            cwd: command.cwd.clone(),
            by: Some(super::WrappedBy { name: name.to_owned(), transparent: false }),
            code: vec![text.clone()],
            ..Command::default()
        };
        if wrap::takes_code(&run) {
            return (Language::Other, Some(self.add_command(run)));
        }
        self.out.add_doubt(Doubt::Unread(format!("`{name}` is a script for `{interpreter}`")));
        (Language::Other, None)
    }

    /// Doubts the text of a script that another command of the line, or of the script, may change before it runs.
    fn doubt_changed_scripts(&mut self, known: &[Known]) {
        let start = Path::new("/start");
        let mut doubts = Vec::new();
        for script in known {
            let Some(by) = self.out.commands().get(script.by) else { continue };
            let (Cwd::Start | Cwd::At(_)) = &by.cwd else { continue };
            let folder = match &by.cwd {
                Cwd::At(at) => accesses::resolve(start, at),
                _ => start.to_owned(),
            };
            let path = accesses::resolve(&folder, &script.path);
            // The commands of a shell script are looked at themselves.
            let is_followed = |at: usize| {
                let is_own = at == script.by || Some(at) == script.interpreter;
                is_own || known.iter().any(|known| known.by == at && known.language == Language::Shell)
            };
            let changes = |(at, command): (usize, &Command)| {
                if is_followed(at) {
                    return false;
                }
                let accessed = accesses::of_one(command, start);
                let may_write = accessed.writes.iter().any(|written| path.starts_with(written));
                may_write || accessed.incomplete.is_some() && !changes_nothing(command)
            };
            if let Some((_, command)) = self.out.commands().iter().enumerate().find(|one| changes(*one)) {
                let other = command.name();
                doubts.push(Doubt::Unread(format!("`{other}` may change `{}` before it runs", script.path)));
            }
        }
        doubts.into_iter().for_each(|doubt| self.out.add_doubt(doubt));
    }
}

/// A folder of the `PATH` that a command sets which is not one of the system's, nor of the `PATH` before.
pub(super) fn foreign_folder(command: &Command) -> Option<String> {
    let set = command.assignments.iter().filter(|set| set.name == "PATH");
    let set = set.map(|set| set.value.as_ref().map_or("", Word::text));
    let exports = matches!(command.name(), "export" | "declare" | "typeset" | "readonly" | "local");
    let exported = command.args().filter(|_| exports).filter_map(|arg| arg.strip_prefix("PATH="));
    let is_known = |folder: &&str| {
        matches!(*folder, "$PATH" | "${PATH}" | "/bin" | "/sbin")
            || ["/usr/", "/opt/"].iter().any(|known| folder.starts_with(known))
    };
    set.chain(exported).flat_map(|value| value.split(':')).find(|folder| !is_known(folder)).map(str::to_owned)
}

/// Whether a command changes no file, whatever its arguments become.
fn changes_nothing(command: &Command) -> bool {
    const STEERS_SHELL: &[&str] = &[
        "cd", "pushd", "popd", "set", "shopt", "export", "local", "declare", "readonly", "shift", "return",
        "exit", "unset", "trap", "wait", "test", "[", "read", "printf", "break", "continue",
    ];
    let name = command.name();
    let nested = wrap::nested(command);
    // What it runs is looked at itself.
    let is_followed = (wrap::is_wrapper(name) || wrap::is_shell(name))
        && !nested.is_empty()
        && !nested.iter().any(|nested| matches!(nested, Nested::AnyOf(_)));
    let is_certain =
        command.argv.first().is_none_or(|program| program.is_literal() && program.text() == name);
    let only_reads = matches!(profile(name), Some(Profile::Reads));
    is_certain
        && command.redirects.iter().all(super::Redirect::is_harmless)
        && (only_reads || is_followed || command.argv.is_empty() || STEERS_SHELL.contains(&name))
}
