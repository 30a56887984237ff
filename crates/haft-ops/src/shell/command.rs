//! A shell command before it runs: what its text proves about it, which resources it claims, and whether it is refused.
//! Knows nothing of processes.

use std::sync::Arc;

use haft_core::{AbsPath, Access, Claims, Context, Fault, FaultKind, Resource};
use haft_sandbox::Exit;
use haft_shell::{self as shell, Interactive, ParsedCommand};

use super::in_place::{self, Foreseen, SedEdit};

/// Longest command in bytes, below the kernel's limit for one argument.
const MAX_COMMAND: usize = 120_000;

/// A shell command, parsed and classified.
#[derive(Clone, Debug)]
pub struct Command {
    pub(super) text: String,
    pub(super) dir: AbsPath,
    /// The requested folder, if it no longer exists; then the command does not run.
    missing_dir: Option<AbsPath>,
    /// Whether the command runs without the layers of the sandbox.
    pub(super) free: bool,
    safety: Safety,
    pub(super) parsed: Arc<ParsedCommand>,
    pub(super) claims: Claims,
    /// Why the claims may be incomplete.
    incomplete: Option<String>,
    /// The edit that the command is, if it is a `sed -i` that haft can make itself.
    pub(super) edit: Option<SedEdit>,
}

/// Classification of a command by its text alone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Safety {
    /// Proven to change nothing. Its sandbox is read-only all the same.
    ReadOnly,
    /// May change something.
    Unknown,
    /// Can do irreversible harm, for this reason.
    Harmful(String),
}

impl Command {
    /// Parses and classifies a command that starts in `dir`. A free command runs without the layers of the sandbox, which
    /// needs the user's approval. Fails if the command is catastrophic, such as the deletion of the whole disk, or if it
    /// would change haft's own files.
    pub fn new(text: &str, dir: AbsPath, free: bool, cx: &Context) -> Result<Self, Fault> {
        if text.trim().is_empty() {
            return Err(Fault::invalid("the command is empty").hint("say what to run"));
        }
        if text.contains('\0') {
            return Err(Fault::invalid("the command contains a NUL character, which no shell takes"));
        }
        if text.len() > MAX_COMMAND {
            return Err(Fault::new(
                FaultKind::TooLarge,
                format!("the command has {} bytes: at most {MAX_COMMAND} can be run", text.len()),
            )
            .hint("write it to a script in the workspace and run that"));
        }
        // The folder in which the last command ended may no longer exist.
        let (dir, missing_dir) = match cx.workspace().stat(&dir) {
            Ok(_) => (dir, None),
            Err(_) => (cx.workspace().root().clone(), Some(dir)),
        };
        let parsed = Arc::new(shell::parse(text));
        let harms = shell::sensitive(&parsed);
        if let Some(found) = harms.iter().find(|found| found.catastrophic) {
            return Err(Fault::new(FaultKind::Denied, format!("this is never run: {}", found.reason))
                .hint("ask the user to do it, if it is really meant")
                .with("command", text));
        }
        let safety = match harms.first() {
            Some(found) => Safety::Harmful(found.reason.clone()),
            None if shell::read_only(&parsed).proven() => Safety::ReadOnly,
            None => Safety::Unknown,
        };
        let is_read_only = safety == Safety::ReadOnly && !free;
        let accesses = shell::accesses(&parsed, dir.as_path());
        let claims = super::claims::of_command(text, &dir, &parsed, &accesses, is_read_only, free, cx);
        let incomplete = accesses.incomplete;
        let edit = shell::in_place(&parsed).and_then(|sed| SedEdit::of(sed, &dir, cx));
        if let Some(place) = guarded_path(&claims, cx) {
            let shown = cx.workspace().display(place);
            return Err(Fault::new(
                FaultKind::Denied,
                format!("`{shown}` is haft's own: no command changes it"),
            )
            .hint("ask the user to change it")
            .with("command", text));
        }
        Ok(Self { text: text.to_owned(), dir, missing_dir, free, safety, parsed, claims, incomplete, edit })
    }

    /// Fails if the requested folder no longer exists: in another one the same words mean other files.
    pub(super) fn require_folder(&self, cx: &Context) -> Result<(), Fault> {
        let Some(missing) = &self.missing_dir else { return Ok(()) };
        cx.session().set_cwd(cx.workspace().root().clone());
        let shown = cx.workspace().display(missing);
        Err(Fault::new(FaultKind::NotFound, format!("the folder `{shown}`, in which commands were, is gone"))
            .hint("nothing was run; the next command starts in the root of the workspace")
            .with("command", &self.text))
    }

    /// The text for bash.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the command runs without the layers of the sandbox.
    pub fn is_free(&self) -> bool {
        self.free
    }

    /// Whether the command is proven to change nothing.
    pub fn is_read_only(&self) -> bool {
        self.safety == Safety::ReadOnly && !self.free
    }

    /// Why the command can do irreversible harm.
    pub fn harm(&self) -> Option<&str> {
        match &self.safety {
            Safety::Harmful(reason) => Some(reason),
            _ => None,
        }
    }

    /// What the command would change or reach, for the person who is asked about it.
    pub fn effects(&self, cx: &Context) -> String {
        super::claims::effects(&self.claims, self.incomplete.as_deref(), cx)
    }

    /// The part of the command that waits for keyboard input, and what to run instead.
    pub fn waits(&self) -> Option<Interactive> {
        shell::interactive(&self.parsed).into_iter().next()
    }

    /// Fails if the command waits for keyboard input, of which there is none, or does not end by itself.
    pub fn require_unattended(self) -> Result<Self, Fault> {
        let found = self.waits();
        self.refuse_if(found)
    }

    /// Fails if the command waits for keyboard input. In the background it may run without end.
    pub fn require_unattended_in_background(self) -> Result<Self, Fault> {
        let found = shell::interactive(&self.parsed).into_iter().find(|found| !found.endless);
        self.refuse_if(found)
    }

    fn refuse_if(self, found: Option<Interactive>) -> Result<Self, Fault> {
        let Some(Interactive { what, instead, endless }) = found else { return Ok(self) };
        let message = match endless {
            true => format!("`{what}` does not end by itself"),
            false => format!("`{what}` waits for somebody to type, and nobody can"),
        };
        Err(Fault::new(FaultKind::InvalidInput, message).hint(instead).with("command", &self.text))
    }

    /// Fails unless the command's edit produces the content that the host has shown to the user.
    pub fn require_foreseen(&self, foreseen: &Foreseen, cx: &Context) -> Result<(), Fault> {
        match &self.edit {
            Some(edit) => edit.require_foreseen(foreseen, &self.dir, cx),
            None => Err(in_place::not_foreseen(&foreseen.file)),
        }
    }

    /// Meaning of an exit code that is an answer and not an error, such as 1 of `grep`.
    pub fn meaning(&self, exit: Exit, printed: bool) -> Option<&'static str> {
        match exit {
            Exit::Code(code) => shell::exit_code_meaning(&self.parsed, code, printed),
            _ => None,
        }
    }
}

/// A path of haft's own files among the paths that the command would change.
fn guarded_path<'a>(claims: &'a Claims, cx: &Context) -> Option<&'a AbsPath> {
    claims.iter().find_map(|(access, resource)| match resource {
        Resource::Path(path) if access == Access::Write && cx.workspace().guards(path) => Some(path),
        _ => None,
    })
}
