//! Running code that the model wrote, where it can do no harm: in a sandbox with all layers that keep it to the workspace and off
//! the network, and not at all where those do not stand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Preview, Resource};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Layer, LimitHit, Limits, Network};

use super::shell::{Program, Ran, ReadySandbox, SandboxOptions, Surroundings, find_program};

/// Longer code is not taken: it reaches the sandbox as arguments, of which there is only so much.
pub const MAX_CODE_BYTES: usize = 1 << 20;
/// No argument of a program may be longer.
const CHUNK: usize = 100_000;
/// What code may use where nothing is set.
const LIMITS: Limits = Limits {
    memory: Some(4 << 30),
    total_memory: None,
    total_cpu: None,
    cpu: Some(600),
    processes: Some(512),
    files: Some(4096),
    file_size: Some(1 << 30),
};

/// Puts the code, which comes in pieces, into a file of the sandbox's own and becomes its interpreter. What the caller
/// adds to the environment is for the code alone.
const BEGIN: &str = r#"file=$1 pieces=$2; shift 2
printf %s "${@:1:pieces}" > "$file" || exit 125
shift "$pieces"
exec env -- "$@""#;

/// A language that code can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python 3.
    Python,
    /// Bash.
    Bash,
}

/// Runs code.
#[derive(Debug)]
pub struct Code {
    program: Program,
    timeout: Duration,
    held: Option<ReadySandbox>,
}

/// What came of code.
#[derive(Debug)]
pub struct CodeRan {
    /// How it ended.
    pub ran: Ran,
    /// The limit that it ran into, where that can be told.
    pub limit: Option<Limit>,
}

/// What there is only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Time.
    Timeout,
    /// Memory.
    Memory,
    /// Processor time.
    CpuTime,
    /// The size of a file.
    FileSize,
    /// Processes.
    Processes,
}

impl Limit {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::CpuTime => "cpu time",
            Self::FileSize => "file size",
            Self::Processes => "processes",
        }
    }
}

impl Code {
    /// Code that is to be run in a folder, as it is.
    pub fn new(
        language: Language,
        code: &str,
        args: &[String],
        env: &[(String, String)],
        dir: AbsPath,
        timeout: Duration,
        cx: &Context,
    ) -> Result<Self, Fault> {
        if code.contains('\0') {
            return Err(Fault::invalid("`code` contains a NUL character, which no interpreter takes"));
        }
        if code.len() > MAX_CODE_BYTES {
            return Err(Fault::new(
                FaultKind::TooLarge,
                format!("`code` has {} bytes: at most {MAX_CODE_BYTES} can be run", code.len()),
            )
            .hint("write it to a file of the workspace and run that"));
        }
        check_words(args, env)?;
        let (python, needs) = match language {
            Language::Python => python(cx).map(|(python, needs)| (Some(python), needs))?,
            Language::Bash => (None, Vec::new()),
        };
        let pieces = pieces(code);
        let file = if python.is_some() { "/tmp/code.py" } else { "/tmp/code.sh" };
        let mut program = Program::new("/bin/bash", dir.clone())
            .args(["--noprofile", "--norc", "-c", BEGIN, "bash", file, &pieces.len().to_string()])
            .args(pieces.iter().copied());
        if python.is_some() {
            // Modules of the folder are found, as if the code lay there, and nothing is left beside them.
            program = program.args([OsString::from("PYTHONDONTWRITEBYTECODE=1"), {
                let mut path = OsString::from("PYTHONPATH=");
                path.push(dir.as_path());
                path
            }]);
        }
        program = program.args(env.iter().map(|(name, value)| format!("{name}={value}")));
        program = match python {
            Some(python) => program.args([python, OsString::from(file)]),
            None => program.args(["/bin/bash", "--noprofile", "--norc", file]),
        };
        program = program.args(args.iter().map(String::as_str));
        program.needs = needs;
        program.surroundings = Surroundings::System;
        program.limits = LIMITS;
        Ok(Self { program, timeout, held: None })
    }
}

impl Operation for Code {
    type Output = CodeRan;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Everything)
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let held = self.program.hold(cx).await?;
        require_walls(&held, cx)?;
        self.held = Some(held);
        Ok(None)
    }

    async fn run(mut self, cx: &Context) -> Result<CodeRan, Fault> {
        let ran = self.program.run(self.held.take(), self.timeout, cx).await?;
        if ran.exit == Exit::Cancelled {
            return Err(ran.cancelled(cx));
        }
        let limit = limit(&ran);
        Ok(CodeRan { ran, limit })
    }
}

/// The layers that keep code to the workspace.
fn require_walls(held: &ReadySandbox, cx: &Context) -> Result<(), Fault> {
    let lacking = held.lacks(&confining(cx));
    if lacking.is_empty() {
        return Ok(());
    }
    let told: Vec<String> =
        lacking.iter().map(|(layer, why)| format!("{} ({why})", layer.made_of())).collect();
    let names: Vec<&str> = lacking.iter().map(|(layer, _)| layer.name()).collect();
    Err(Fault::new(
        FaultKind::Disabled,
        format!(
            "code is run without asking only in a sandbox with all layers, and here it would lack {}",
            told.join(", ")
        ),
    )
    .hint(
        "`haft doctor` tells which layers are active here, and the setting `sandbox.layers` which are wanted",
    )
    .with("missing", names))
}

/// Layers without which what runs is not confined.
pub(super) fn confining(cx: &Context) -> Vec<Layer> {
    let mut layers = vec![Layer::View, Layer::Paths];
    if cx.session().extension::<SandboxOptions>().network == Network::Off {
        layers.push(Layer::Network);
    }
    layers
}

/// What Python is called, and the folder that it is in, where that is not one of the system.
fn python(cx: &Context) -> Result<(OsString, Vec<PathBuf>), Fault> {
    let found = find_program("python3", cx).or_else(|| find_program("python", cx));
    let missing = || {
        Fault::new(FaultKind::NotFound, "`python3` is not installed, or not in the `PATH` that haft was given")
            .hint("have the user install Python 3 (`apt install python3`, `brew install python`), or write the code in bash")
    };
    let found = found.ok_or_else(missing)?;
    let is_of_system = ["/usr", "/bin", "/opt", "/nix"].iter().any(|system| found.starts_with(system));
    // Beside the folder of programs is what they need.
    let beside =
        found.parent().and_then(Path::parent).filter(|folder| !is_of_system && folder.parent().is_some());
    Ok((found.clone().into_os_string(), beside.map(Path::to_owned).into_iter().collect()))
}

/// Refuses what no program can be given.
fn check_words(args: &[String], env: &[(String, String)]) -> Result<(), Fault> {
    if let Some(at) = args.iter().position(|arg| arg.contains('\0')) {
        return Err(Fault::invalid(format!(
            "`args[{at}]` contains a NUL character, which no program can be given"
        )));
    }
    if let Some(at) = args.iter().position(|arg| arg.len() > CHUNK) {
        return Err(Fault::invalid(format!("`args[{at}]` has more than {CHUNK} bytes"))
            .hint("write it to a file of the workspace and read that"));
    }
    for (name, value) in env {
        let shown = name.escape_debug();
        let wrong = if name.is_empty() {
            "a variable needs a name"
        } else if name.contains('=') {
            "the name of a variable cannot contain `=`"
        } else if name.contains('\0') || value.contains('\0') {
            "neither the name nor the value of a variable can contain a NUL character"
        } else if value.len() > CHUNK {
            "the value of a variable is too long; write it to a file of the workspace"
        } else {
            continue;
        };
        return Err(
            Fault::invalid(format!("`env` has `{shown}`: {wrong}")).hint("such as {\"MODE\": \"fast\"}")
        );
    }
    Ok(())
}

/// The code in pieces that are no longer than an argument may be.
fn pieces(mut code: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while code.len() > CHUNK {
        let (piece, rest) = code.split_at(code.floor_char_boundary(CHUNK));
        pieces.push(piece);
        code = rest;
    }
    pieces.push(code);
    pieces
}

/// The limit that something ran into. A program that is refused more tells so itself, in its own words.
fn limit(ran: &Ran) -> Option<Limit> {
    const XCPU: i32 = 24;
    const XFSZ: i32 = 25;
    match ran.hit {
        Some(LimitHit::Memory) => return Some(Limit::Memory),
        Some(LimitHit::Processes) => return Some(Limit::Processes),
        Some(LimitHit::Cpu) => return Some(Limit::CpuTime),
        Some(LimitHit::FileSize) => return Some(Limit::FileSize),
        None => {}
    }
    let signal = match ran.exit {
        Exit::TimedOut => return Some(Limit::Timeout),
        Exit::Code(0) | Exit::Cancelled => return None,
        Exit::Code(code) => code - 128,
        Exit::Signal(signal) => signal,
    };
    let told = ran.err.text();
    let last = told.lines().rev().take(5).collect::<Vec<_>>().join("\n");
    let says = |words: &[&str]| words.iter().any(|word| last.contains(word));
    match signal {
        XCPU => Some(Limit::CpuTime),
        XFSZ => Some(Limit::FileSize),
        _ if says(&["File too large"]) => Some(Limit::FileSize),
        _ if says(&["MemoryError", "annot allocate memory", "xmalloc", "xrealloc"]) => Some(Limit::Memory),
        _ if says(&["fork: retry", "Resource temporarily unavailable", "can't start new thread"]) => {
            Some(Limit::Processes)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_cut_into_pieces_between_characters() {
        let code = "é".repeat(CHUNK);
        let pieces = pieces(&code);
        assert_eq!(pieces.concat(), code);
        assert!(pieces.len() == 2 && pieces.iter().all(|piece| piece.len() <= CHUNK));
    }
}
