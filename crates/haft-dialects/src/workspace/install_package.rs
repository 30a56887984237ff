//! `install_package`: installs packages with the project's package manager.

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, FaultKind, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::Exit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, ok, with_notes};
use crate::projects;
use haft_ops::{self as ops, DependencyKind, Install, Installed, Manager, in_words};

/// Adds packages.
pub(crate) struct InstallPackage;

/// A package manager.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum By {
    Cargo,
    Npm,
    Pnpm,
    Yarn,
    Bun,
    Pip,
    Uv,
    Poetry,
    Go,
}

impl From<By> for Manager {
    fn from(by: By) -> Self {
        match by {
            By::Cargo => Self::Cargo,
            By::Npm => Self::Npm,
            By::Pnpm => Self::Pnpm,
            By::Yarn => Self::Yarn,
            By::Bun => Self::Bun,
            By::Pip => Self::Pip,
            By::Uv => Self::Uv,
            By::Poetry => Self::Poetry,
            By::Go => Self::Go,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The packages, with a version if one is wanted
    #[schemars(example = &["left-pad"])]
    names: Vec<String>,
    /// Add them for development only
    #[serde(default)]
    dev: bool,
    /// The package manager; the one that the project uses if nothing is said
    manager: Option<By>,
    /// A folder of the project, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    path: Option<String>,
}

/// The value of `install_package`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    /// The packages that were added
    installed: Vec<String>,
    /// The package manager
    manager: &'static str,
    /// What was run
    command: String,
    /// Its exit code
    exit_code: i32,
    /// How many milliseconds it took
    duration: u64,
    /// Everything that was printed
    log: String,
}

impl Tool for InstallPackage {
    const NAME: &'static str = "install_package";
    const DESCRIPTION: &'static str = include_str!("install_package.md");
    type Input = Input;
    type Op = Install;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Project).sensitivity(Sensitivity::Extreme);
        spec.max_result(50_000, Cut::Both).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Install, Fault> {
        let folder = input.path.as_deref().unwrap_or(".");
        let folder = ops::existing_folder(folder, cx.workspace().root(), cx)?.path;
        let kept = if input.dev { DependencyKind::ForDevelopment } else { DependencyKind::Always };
        Install::new(&folder, &input.names, kept, input.manager.map(Manager::from), cx)
    }

    fn approval(_input: &Input, op: &Install, _cx: &Context) -> Approval {
        Approval::NeededAlways(format!("`{}` would run, with the network", op.command()))
    }

    fn render(input: &Input, output: Installed, _cx: &Context) -> Result<Reply, Fault> {
        let Installed { manager, command, exit, took, log, notes } = output;
        let (exit_code, duration) = projects::end(exit, took);
        if exit != Exit::Code(0) {
            let words = in_words(exit).unwrap_or_default();
            let fault = Fault::new(FaultKind::Failed, format!("`{command}` failed: {words}"))
                .hint("what it printed is in `log`")
                .with("exitCode", exit_code)
                .with("duration", duration);
            return Err(projects::with_output(fault, "log", log, notes));
        }
        let value = Output { installed: input.names.clone(), manager, command, exit_code, duration, log };
        Ok(with_notes(ok(value), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.names.join(", "))
    }
}
