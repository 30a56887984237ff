//! Commands in a sandbox, with the real kernel. The test program itself becomes the supervisor.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_sandbox::Exit;
use haft_sandbox::sandbox::{
    self, CommandEnd, Layers, Output, Policy, Quota, Report, RunEvent, Sandbox, Stream, Task,
};
use haft_testing::{Need, require};
use libtest_mimic::{Arguments, Failed, Trial};

mod closed;
mod ends;
mod files;
mod guarded;
mod plain;
mod quota;
mod rights;
mod session;
mod trial;

type Test = fn(&Rig);

/// A list of tests with their names.
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}
pub(crate) use tests;

fn main() {
    sandbox::arm();
    if let Some(mark) = std::env::args().nth(1).and_then(|arg| arg.strip_prefix(HOLD).map(str::to_owned)) {
        return hold(&mark);
    }
    if let Some(base) =
        std::env::args().nth(1).and_then(|arg| arg.strip_prefix(trial::COMMIT).map(str::to_owned))
    {
        return trial::commit_at(&base);
    }
    if std::env::args().nth(1).is_some_and(|arg| arg == ONCE) {
        return once();
    }
    let arguments = Arguments::from_args();
    let tests = [
        plain::TESTS,
        files::TESTS,
        guarded::TESTS,
        closed::TESTS,
        rights::TESTS,
        ends::TESTS,
        quota::TESTS,
        session::TESTS,
    ]
    .concat();
    let view_tests = [
        trial::VIEW_TESTS,
        session::VIEW_TESTS,
        files::VIEW_TESTS,
        guarded::VIEW_TESTS,
        closed::VIEW_TESTS,
        rights::VIEW_TESTS,
    ]
    .concat();
    let mut trials = Vec::new();
    for layers in [Layers::All, Layers::Few] {
        let view_tests = if layers == Layers::All { view_tests.as_slice() } else { &[] };
        for (name, test) in tests.iter().chain(view_tests) {
            let test = *test;
            trials.push(Trial::test(format!("{layers:?}::{name}"), move || {
                let rig = Rig::new(layers).ok_or_else(|| Failed::from("no sandbox can be made"))?;
                test(&rig);
                Ok(())
            }));
        }
    }
    // Whoever is not root has no rights already.
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if is_root && std::env::var_os(NOBODY).is_none() {
        trials.push(Trial::test("all_of_this_holds_without_rights", all_of_this_holds_without_rights));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Variable that is set when the tests run as a user without privileges.
const NOBODY: &str = "HAFT_TEST_AS_NOBODY";
/// Option that makes this program run a command until it is killed.
const HOLD: &str = "--hold=";

/// Option that makes this program run a command as a session does, and exit.
const ONCE: &str = "--once";

/// Runs a command and exits.
fn once() {
    let rig = Rig::new(Layers::All).unwrap();
    rig.runtime.block_on(async {
        let ready = Sandbox::new(Quota { processes: Some(100), ..Quota::default() });
        let sandbox = ready.slot(&rig.policy, Output::Joined).await.unwrap();
        let mut running = sandbox.run(rig.task("true")).await.unwrap();
        while !matches!(running.next().await.unwrap(), RunEvent::Ended(_)) {}
    });
}

/// Runs a command that does not end.
fn hold(mark: &str) {
    let layers = if mark.starts_with('1') { Layers::All } else { Layers::Few };
    let rig = Rig::new(layers).unwrap();
    rig.runtime.block_on(async {
        let sandbox = Sandbox::default().slot(&rig.policy, Output::Joined).await.unwrap();
        let script = format!("{}; echo started; sleep 200", strays(mark));
        let mut running = sandbox.run(rig.task(&script)).await.unwrap();
        while let RunEvent::Output(_, bytes) = running.next().await.unwrap() {
            std::io::Write::write_all(&mut std::io::stdout(), bytes).unwrap();
        }
    });
}

fn all_of_this_holds_without_rights() -> Result<(), Failed> {
    if !require(Need::Setpriv) {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let own = folder.path().join("sandbox");
    std::fs::copy(std::env::current_exe()?, &own)?;
    for path in [folder.path(), &own] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&own);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env(NOBODY, "1").current_dir("/");
    command.envs(std::env::var_os(haft_testing::REQUIRE).map(|needs| (haft_testing::REQUIRE, needs)));
    let done = command.stderr(std::process::Stdio::inherit()).output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stdout).into_owned().into()),
    }
}

struct Rig {
    folder: tempfile::TempDir,
    /// The folder of another rig, which this one uses instead of its own.
    base: Option<PathBuf>,
    runtime: tokio::runtime::Runtime,
    policy: Policy,
}

struct Done {
    out: String,
    err: String,
    ended: CommandEnd,
    report: Report,
}

impl Done {
    fn succeeded(&self) -> bool {
        self.ended.exit == Exit::Code(0)
    }
}

impl Rig {
    fn new(layers: Layers) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let root = folder.path().canonicalize().ok()?;
        for name in ["ws", "outside", "secret"] {
            std::fs::create_dir(root.join(name)).ok()?;
        }
        std::fs::write(root.join("secret/key"), "hidden").ok()?;
        std::fs::write(root.join("outside/file"), "outside").ok()?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().ok()?;
        let policy = Policy {
            layers,
            write: vec![root.join("ws")],
            read: vec![root.join("outside"), root.join("secret")],
            hidden: vec![root.join("secret")],
            ..Policy::default()
        };
        Some(Self { folder, base: None, runtime, policy })
    }

    /// The rig in a folder that another one has made.
    fn existing(base: &Path) -> Self {
        let mut rig = Self::new(Layers::All).unwrap();
        rig.policy.write = vec![base.join("ws")];
        rig.base = Some(base.to_owned());
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        let own = || self.folder.path().canonicalize().unwrap();
        self.base.clone().unwrap_or_else(own).join(name)
    }

    fn has_view(&self) -> bool {
        self.policy.layers == Layers::All
    }

    fn task(&self, script: &str) -> Task {
        let env =
            ["PATH", "USER"].iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        let home = (OsString::from("HOME"), self.path("ws").into_os_string());
        Task {
            program: "bash".into(),
            args: vec!["--noprofile".into(), "--norc".into(), "-c".into(), script.into()],
            dir: self.path("ws"),
            env: env.chain([home]).collect(),
            input: Vec::new(),
            reports_dir: true,
            record: None,
            view: None,
        }
    }

    fn bash(&self, script: &str) -> Done {
        self.with(&self.policy, script)
    }

    fn with(&self, policy: &Policy, script: &str) -> Done {
        self.run(policy, self.task(script))
    }

    fn run(&self, policy: &Policy, task: Task) -> Done {
        self.within(&Sandbox::default(), policy, task).unwrap()
    }

    /// Runs a command of a session.
    fn within(&self, session: &Sandbox, policy: &Policy, task: Task) -> io::Result<Done> {
        self.runtime.block_on(async {
            let slot = session.slot(policy, Output::Apart).await?;
            let mut running = slot.run(task).await?;
            let report = running.report().clone();
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let ended = loop {
                match running.next().await.unwrap() {
                    RunEvent::Output(Stream::Out, bytes) => out.extend_from_slice(bytes),
                    RunEvent::Output(Stream::Err, bytes) => err.extend_from_slice(bytes),
                    RunEvent::Ended(ended) => break *ended,
                }
            };
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            Ok(Done { out: text(out), err: text(err), ended, report })
        })
    }
}

/// The control groups that a process has made and not removed.
fn groups_of(pid: u32) -> Vec<PathBuf> {
    let name = format!("haft-{pid}-");
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&name) {
                found.push(entry.path());
            }
            folders.extend(entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path()));
        }
    }
    found
}

fn soon(mut is: impl FnMut() -> bool) -> bool {
    (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is()
    })
}

/// Whether a process with this mark in its arguments runs.
fn is_running(mark: &str) -> bool {
    pid_of(mark).is_some()
}

/// The process with this mark in its arguments.
fn pid_of(mark: &str) -> Option<u32> {
    let is = |entry: &std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.windows(mark.len()).any(|part| part == mark.as_bytes()))
    };
    let found = std::fs::read_dir("/proc").unwrap().flatten().find(is)?;
    found.file_name().to_str()?.parse().ok()
}

/// Processes that try to outlive the one that started them.
fn strays(mark: &str) -> String {
    format!(
        "sleep 100.{mark} & setsid sleep 100.{mark} & nohup sleep 100.{mark} >/dev/null 2>&1 & \
         (setsid sh -c 'sleep 100.{mark} & sleep 100.{mark}' &) ; sleep 100.{mark} & disown"
    )
}

fn ends_soon(mark: &str) -> bool {
    soon(|| !is_running(mark))
}
