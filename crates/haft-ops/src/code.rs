//! The operation that runs Python or Bash code of the model without approval. It requires a sandbox with all layers that
//! confine the code to the workspace and keep it off the network; if one of them is unavailable, the operation fails. Knows
//! nothing of how the sandbox enforces its layers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Preview, Resource};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Layer, LimitHit, Limits, Network};

use super::shell::{Program, Ran, ReadySandbox, SandboxOptions, Surroundings, find_program};

/// Longest code in bytes. The code reaches the sandbox as arguments, whose total size the kernel limits.
pub const MAX_CODE_BYTES: usize = 1 << 20;
/// Longest argument in bytes, below the kernel's limit for a single one.
const CHUNK: usize = 100_000;
/// Default limits of code, where the settings have none.
const LIMITS: Limits = Limits {
    memory: Some(4 << 30),
    total_memory: None,
    total_cpu: None,
    cpu: Some(600),
    processes: Some(512),
    files: Some(4096),
    file_size: Some(1 << 30),
};

/// Bash script that joins the chunks of the code into a file in the sandbox's private `/tmp` and then executes the
/// interpreter. `env` sets the caller's variables only then, so that they have no effect on this script.
const BEGIN: &str = r#"file=$1 chunks=$2; shift 2
printf %s "${@:1:chunks}" > "$file" || exit 125
shift "$chunks"
exec env -- "$@""#;

/// Programming language of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python 3.
    Python,
    /// Bash.
    Bash,
}

/// Runs code in the sandbox.
#[derive(Debug)]
pub struct Code {
    program: Program,
    timeout: Duration,
    /// The sandbox that `check` made, so that `run` uses the one whose layers were verified.
    sandbox: Option<ReadySandbox>,
}

/// Result of running code.
#[derive(Debug)]
pub struct CodeRan {
    /// Exit status and output.
    pub ran: Ran,
    /// The limit that ended the code, if it can be determined.
    pub limit: Option<Limit>,
}

/// A limit on the resources of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Wall-clock time.
    Timeout,
    /// Memory.
    Memory,
    /// Processor time.
    CpuTime,
    /// Size of a file.
    FileSize,
    /// Number of processes.
    Processes,
}

impl Limit {
    /// Name of the limit for replies.
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
    /// Code to run in the folder `dir`, with arguments and additional environment variables.
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
        let chunks = chunks(code);
        let file = if python.is_some() { "/tmp/code.py" } else { "/tmp/code.sh" };
        let mut program = Program::new("/bin/bash", dir.clone())
            .args(["--noprofile", "--norc", "-c", BEGIN, "bash", file, &chunks.len().to_string()])
            .args(chunks.iter().copied());
        if python.is_some() {
            // Imports work as if the code were in the folder, and leave no bytecode files in it.
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
        Ok(Self { program, timeout, sandbox: None })
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
        let sandbox = self.program.hold(cx).await?;
        require_layers(&sandbox, cx)?;
        self.sandbox = Some(sandbox);
        Ok(None)
    }

    async fn run(mut self, cx: &Context) -> Result<CodeRan, Fault> {
        let ran = self.program.run(self.sandbox.take(), self.timeout, cx).await?;
        if ran.exit == Exit::Cancelled {
            return Err(ran.cancelled(cx));
        }
        let limit = limit(&ran);
        Ok(CodeRan { ran, limit })
    }
}

/// Fails unless the sandbox has all layers that confine code.
fn require_layers(sandbox: &ReadySandbox, cx: &Context) -> Result<(), Fault> {
    let lacking = sandbox.lacks(&confining(cx));
    if lacking.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> =
        lacking.iter().map(|(layer, why)| format!("{} ({why})", layer.made_of())).collect();
    let names: Vec<&str> = lacking.iter().map(|(layer, _)| layer.name()).collect();
    Err(Fault::new(
        FaultKind::Disabled,
        format!(
            "code is run without asking only in a sandbox with all layers, and here it would lack {}",
            reasons.join(", ")
        ),
    )
    .hint(
        "`haft doctor` tells which layers are active here, and the setting `sandbox.layers` which are wanted",
    )
    .with("missing", names))
}

/// Layers that confine a program to the workspace and, if the network is off, keep it off the network.
pub(super) fn confining(cx: &Context) -> Vec<Layer> {
    let mut layers = vec![Layer::View, Layer::Paths];
    if cx.session().extension::<SandboxOptions>().network == Network::Off {
        layers.push(Layer::Network);
    }
    layers
}

/// Path of Python, and the installation folder that the sandbox has to show if it is outside the system folders.
fn python(cx: &Context) -> Result<(OsString, Vec<PathBuf>), Fault> {
    let found = find_program("python3", cx).or_else(|| find_program("python", cx));
    let missing = || {
        Fault::new(FaultKind::NotFound, "`python3` is not installed, or not in the `PATH` that haft was given")
            .hint("have the user install Python 3 (`apt install python3`, `brew install python`), or write the code in bash")
    };
    let found = found.ok_or_else(missing)?;
    let is_of_system = ["/usr", "/bin", "/opt", "/nix"].iter().any(|system| found.starts_with(system));
    // An installation has its libraries beside `bin`: `python/bin/python3`, `python/lib`.
    let beside =
        found.parent().and_then(Path::parent).filter(|folder| !is_of_system && folder.parent().is_some());
    Ok((found.clone().into_os_string(), beside.map(Path::to_owned).into_iter().collect()))
}

/// Rejects arguments and variables that the kernel cannot pass to a program.
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

/// Splits the code into chunks of at most [`CHUNK`] bytes.
fn chunks(mut code: &str) -> Vec<&str> {
    let mut chunks = Vec::new();
    while code.len() > CHUNK {
        let (chunk, rest) = code.split_at(code.floor_char_boundary(CHUNK));
        chunks.push(chunk);
        code = rest;
    }
    chunks.push(code);
    chunks
}

/// Determines the limit that ended a program: from the supervisor's report, from the signal, or by a heuristic from the
/// last lines of its error output, because a program that is refused more memory or processes reports that itself.
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
    let errors = ran.err.text();
    let last = errors.lines().rev().take(5).collect::<Vec<_>>().join("\n");
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
    fn chunks_end_between_characters() {
        let code = "é".repeat(CHUNK);
        let chunks = chunks(&code);
        assert_eq!(chunks.concat(), code);
        assert!(chunks.len() == 2 && chunks.iter().all(|chunk| chunk.len() <= CHUNK));
    }
}
