//! Commands in a cage, with the real kernel. The test is itself the program that becomes the keeper.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_sandbox::Exit;
use haft_sandbox::cage::{
    self, Cage, Ended, Happened, Limits, Network, Output, Policy, Report, Stream, Task, Wall, Walls,
};
use libtest_mimic::{Arguments, Failed, Trial};

type Test = fn(&Rig);

fn main() {
    cage::arm();
    if let Some(mark) = std::env::args().nth(1).and_then(|arg| arg.strip_prefix(HOLD).map(str::to_owned)) {
        return hold(&mark);
    }
    let arguments = Arguments::from_args();
    let tests: Vec<(&str, Test)> = vec![
        ("a_command_says_what_it_says", a_command_says_what_it_says),
        ("streams_come_apart_or_as_one", streams_come_apart_or_as_one),
        ("nothing_is_written_outside", nothing_is_written_outside),
        ("attributes_outside_stay", attributes_outside_stay),
        ("temporary_files_are_private", temporary_files_are_private),
        ("what_is_hidden_is_not_seen", what_is_hidden_is_not_seen),
        ("what_is_guarded_stays", what_is_guarded_stays),
        ("there_is_no_network", there_is_no_network),
        ("no_rights_are_gained", no_rights_are_gained),
        ("nothing_outlives_a_command", nothing_outlives_a_command),
        ("nothing_outlives_a_command_that_is_killed", nothing_outlives_a_command_that_is_killed),
        ("nothing_outlives_haft", nothing_outlives_haft),
        ("what_is_left_is_told", what_is_left_is_told),
        ("limits_hold", limits_hold),
        ("a_missing_program_is_told", a_missing_program_is_told),
        ("much_output_comes_whole", much_output_comes_whole),
        ("git_works_in_a_cage", git_works_in_a_cage),
    ];
    let mut trials = Vec::new();
    for walls in [Walls::All, Walls::Few] {
        for (name, test) in &tests {
            let test = *test;
            trials.push(Trial::test(format!("{walls:?}::{name}"), move || {
                let rig = Rig::new(walls).ok_or_else(|| Failed::from("no cage can be made"))?;
                test(&rig);
                Ok(())
            }));
        }
    }
    if std::env::var_os(NOBODY).is_none() {
        trials.push(Trial::test("all_of_this_holds_without_rights", all_of_this_holds_without_rights));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Set where the tests run as a user without rights.
const NOBODY: &str = "HAFT_TEST_AS_NOBODY";
/// How this program is told to run a command and to be killed.
const HOLD: &str = "--hold=";

/// Runs a command that does not end.
fn hold(mark: &str) {
    let walls = if mark.starts_with('1') { Walls::All } else { Walls::Few };
    let rig = Rig::new(walls).unwrap();
    rig.runtime.block_on(async {
        let cage = Cage::new(&rig.policy, Output::Joined).await.unwrap();
        let script = format!("{}; echo started; sleep 200", strays(mark));
        let mut running = cage.run(rig.task(&script)).await.unwrap();
        while let Happened::Output(_, bytes) = running.next().await.unwrap() {
            std::io::Write::write_all(&mut std::io::stdout(), bytes).unwrap();
        }
    });
}

fn all_of_this_holds_without_rights() -> Result<(), Failed> {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let folder = tempfile::tempdir()?;
    let own = folder.path().join("cage");
    std::fs::copy(std::env::current_exe()?, &own)?;
    for path in [folder.path(), &own] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&own);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env(NOBODY, "1").current_dir("/");
    match command.output() {
        _ if !is_root => println!("not root already"),
        Err(error) => println!("without setpriv this cannot be tried: {error}"),
        Ok(done) if done.status.success() => {}
        Ok(done) => return Err(String::from_utf8_lossy(&done.stdout).into_owned().into()),
    }
    Ok(())
}

struct Rig {
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    policy: Policy,
}

struct Done {
    out: String,
    err: String,
    ended: Ended,
    report: Report,
}

impl Done {
    fn succeeded(&self) -> bool {
        self.ended.exit == Exit::Code(0)
    }
}

impl Rig {
    fn new(walls: Walls) -> Option<Self> {
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
            walls,
            write: vec![root.join("ws")],
            read: vec![root.join("outside"), root.join("secret")],
            hidden: vec![root.join("secret")],
            ..Policy::default()
        };
        Some(Self { folder, runtime, policy })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn has_view(&self) -> bool {
        self.policy.walls == Walls::All
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
            tells_dir: true,
        }
    }

    fn bash(&self, script: &str) -> Done {
        self.with(&self.policy, script)
    }

    fn with(&self, policy: &Policy, script: &str) -> Done {
        self.runtime.block_on(async {
            let cage = Cage::new(policy, Output::Apart).await.unwrap();
            let mut running = cage.run(self.task(script)).await.unwrap();
            let report = running.report().clone();
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let ended = loop {
                match running.next().await.unwrap() {
                    Happened::Output(Stream::Out, bytes) => out.extend_from_slice(bytes),
                    Happened::Output(Stream::Err, bytes) => err.extend_from_slice(bytes),
                    Happened::Ended(ended) => break ended,
                }
            };
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            Done { out: text(out), err: text(err), ended, report }
        })
    }
}

fn a_command_says_what_it_says(rig: &Rig) {
    let done = rig.bash("echo out; echo err >&2; pwd; exit 3");
    assert_eq!(
        (done.out.as_str(), done.err.as_str()),
        (&*format!("out\n{}\n", rig.path("ws").display()), "err\n")
    );
    assert_eq!(done.ended, Ended { exit: Exit::Code(3), left: Vec::new(), dir: Some(rig.path("ws")) });
    let wanted: &[Wall] = match rig.has_view() {
        true => &[Wall::Processes, Wall::View, Wall::Network, Wall::Paths, Wall::Calls],
        false => &[Wall::Paths, Wall::Calls],
    };
    assert_eq!(done.report, Report { standing: wanted.to_vec(), missing: Vec::new() });
    assert_eq!(rig.bash("cd /usr && cd lib; false").ended.dir, Some("/usr/lib".into()));
    assert_eq!(rig.bash("cd /usr; exec true").ended.dir, None);
    assert_eq!(rig.bash("kill -TERM $$").ended.exit, Exit::Signal(15));
    assert_eq!(rig.bash("cat; read line || echo closed").out, "closed\n", "nothing can be read");
}

fn streams_come_apart_or_as_one(rig: &Rig) {
    rig.runtime.block_on(async {
        let cage = Cage::new(&rig.policy, Output::Joined).await.unwrap();
        let script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done";
        let mut running = cage.run(rig.task(script)).await.unwrap();
        let mut all = Vec::new();
        while let Happened::Output(stream, bytes) = running.next().await.unwrap() {
            assert_eq!(stream, Stream::Out);
            all.extend_from_slice(bytes);
        }
        assert_eq!(String::from_utf8(all).unwrap(), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    });
}

fn nothing_is_written_outside(rig: &Rig) {
    let outside = rig.path("outside");
    let outside = outside.display();
    let tries = [
        format!("echo x > {outside}/new"),
        format!("echo x >> {outside}/file"),
        format!("rm {outside}/file"),
        format!("mv {outside}/file here"),
        format!("ln {outside}/file here && echo x > here"),
        format!("ln -s {outside}/file there && echo x > there"),
        format!("mkdir {outside}/new"),
        format!("truncate -s 0 {outside}/file"),
        "echo x > /etc/haft-was-here".to_owned(),
        "echo x > /proc/sys/kernel/core_pattern".to_owned(),
    ];
    for script in tries {
        assert!(!rig.bash(&script).succeeded(), "{script}");
    }
    assert_eq!(std::fs::read(rig.path("outside/file")).unwrap(), b"outside");
    assert_eq!(std::fs::read_dir(rig.path("outside")).unwrap().count(), 1);
    assert!(!Path::new("/etc/haft-was-here").exists());
    let done = rig.bash("echo inside > file && cat file");
    assert_eq!(done.out, "inside\n", "{}", done.err);
    assert_eq!(std::fs::read(rig.path("ws/file")).unwrap(), b"inside\n");
}

fn attributes_outside_stay(rig: &Rig) {
    if !rig.has_view() {
        return;
    }
    let file = rig.path("outside/file");
    let before = std::fs::metadata(&file).unwrap();
    for change in ["chmod 777", "chown 1:1", "touch -d 2001-01-01"] {
        let script = format!("{change} {}", file.display());
        assert!(!rig.bash(&script).succeeded(), "{script}");
    }
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!(before.permissions(), after.permissions());
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
}

fn temporary_files_are_private(rig: &Rig) {
    if !rig.has_view() {
        return;
    }
    let done = rig.bash("echo x > /tmp/haft-cage-test && cat /tmp/haft-cage-test && mktemp");
    assert!(done.succeeded() && done.out.starts_with("x\n/tmp/"), "{} {}", done.out, done.err);
    assert!(!Path::new("/tmp/haft-cage-test").exists());
}

fn what_is_hidden_is_not_seen(rig: &Rig) {
    let secret = rig.path("secret/key");
    let done = rig.bash(&format!("cat {}; cat {}", secret.display(), rig.path("outside/file").display()));
    assert_eq!(done.out, "outside", "{}", done.err);
}

fn what_is_guarded_stays(rig: &Rig) {
    if !rig.has_view() {
        return;
    }
    std::fs::create_dir_all(rig.path("ws/.git/hooks")).unwrap();
    std::fs::write(rig.path("ws/.git/config"), "mine").unwrap();
    let policy = Policy {
        guarded: vec![rig.path("ws/.git/hooks"), rig.path("ws/.git/config"), rig.path("ws/missing")],
        ..rig.policy.clone()
    };
    for script in [
        "echo x > .git/hooks/pre-commit",
        "echo x > .git/config",
        "mv .git/hooks .git/old",
        "mv .git .old",
        "rm -rf .git",
        "ln -sf /bin/sh .git/config",
    ] {
        assert!(!rig.with(&policy, script).succeeded(), "{script}");
    }
    assert_eq!(std::fs::read(rig.path("ws/.git/config")).unwrap(), b"mine");
    assert!(rig.with(&policy, "echo x > .git/HEAD && mkdir .git/objects").succeeded());
}

fn there_is_no_network(rig: &Rig) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    assert!(!rig.bash(&connect).succeeded());
    let udp = format!("echo x > /dev/udp/127.0.0.1/{port}");
    assert!(!rig.bash(&udp).succeeded());
    let socket = rig.path("outside/socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let unix = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
        socket.display()
    );
    assert!(!rig.bash(&unix).succeeded());
    let open = Policy { network: Network::On, ..rig.policy.clone() };
    let done = rig.with(&open, &connect);
    assert!(done.succeeded(), "{}", done.err);
}

fn no_rights_are_gained(rig: &Rig) {
    for script in [
        "unshare -Ur true",
        "mount -t tmpfs none .",
        "chmod u+s $(cp /bin/true . && echo true)",
        "mknod disk b 8 0",
        "python3 -c 'import ctypes,os; libc=ctypes.CDLL(None,use_errno=True); os._exit(0 if libc.ptrace(16,1,0,0)==0 else 1)'",
    ] {
        let done = rig.bash(script);
        assert!(!done.succeeded(), "{script}: {} {}", done.out, done.err);
    }
    let status = rig.bash("cat /proc/self/status").out;
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
}

/// Whether a process with this mark in its arguments is there.
fn is_running(mark: &str) -> bool {
    let is = |entry: std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.windows(mark.len()).any(|part| part == mark.as_bytes()))
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(is)
}

/// Processes that try to outlive the one that started them.
fn strays(mark: &str) -> String {
    format!(
        "sleep 100.{mark} & setsid sleep 100.{mark} & nohup sleep 100.{mark} >/dev/null 2>&1 & \
         (setsid sh -c 'sleep 100.{mark} & sleep 100.{mark}' &) ; sleep 100.{mark} & disown"
    )
}

fn gone_soon(mark: &str) -> bool {
    (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !is_running(mark)
    })
}

fn nothing_outlives_a_command(rig: &Rig) {
    let mark = format!("{}{}", std::process::id(), rig.has_view() as u8 + 10);
    let done = rig.bash(&format!("{}; echo done", strays(&mark)));
    assert_eq!(done.out, "done\n");
    assert!(gone_soon(&format!("100.{mark}")));
}

fn nothing_outlives_a_command_that_is_killed(rig: &Rig) {
    let mark = format!("{}{}", std::process::id(), rig.has_view() as u8 + 20);
    rig.runtime.block_on(async {
        let cage = Cage::new(&rig.policy, Output::Joined).await.unwrap();
        let mut running =
            cage.run(rig.task(&format!("{}; echo started; sleep 200", strays(&mark)))).await.unwrap();
        assert!(matches!(running.next().await.unwrap(), Happened::Output(_, b"started\n")));
        assert!(is_running(&format!("100.{mark}")));
        drop(running);
    });
    assert!(gone_soon(&format!("100.{mark}")));
}

fn nothing_outlives_haft(rig: &Rig) {
    let mark = format!("{}{}", if rig.has_view() { 1 } else { 2 }, std::process::id());
    let mut haft = std::process::Command::new(std::env::current_exe().unwrap());
    let mut haft = haft.arg(format!("{HOLD}{mark}")).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut told = [0; 8];
    std::io::Read::read_exact(haft.stdout.as_mut().unwrap(), &mut told).unwrap();
    assert_eq!(&told, b"started\n");
    assert!(is_running(&format!("100.{mark}")));
    haft.kill().unwrap();
    haft.wait().unwrap();
    assert!(gone_soon(&format!("100.{mark}")));
}

fn what_is_left_is_told(rig: &Rig) {
    let done = rig.bash("sleep 300 & until grep -q sleep /proc/$!/comm; do :; done; echo started");
    assert_eq!(done.out, "started\n");
    assert_eq!(done.ended.left, ["sleep 300"]);
}

fn limits_hold(rig: &Rig) {
    let limits = Limits {
        file_size: Some(1 << 20),
        files: Some(64),
        cpu: Some(1),
        memory: Some(1 << 30),
        ..Limits::default()
    };
    let policy = Policy { limits, ..rig.policy.clone() };
    let done = rig.with(&policy, "head -c 10000000 /dev/zero > big");
    assert!(!done.succeeded());
    assert!(std::fs::metadata(rig.path("ws/big")).unwrap().len() <= 1 << 20);
    assert_eq!(rig.with(&policy, "ulimit -n").out, "64\n");
    assert_eq!(rig.with(&policy, "while :; do :; done").ended.exit, Exit::Signal(24), "SIGXCPU");
    assert!(!rig.with(&policy, "python3 -c 'b = bytearray(3 << 30)'").succeeded());
}

fn a_missing_program_is_told(rig: &Rig) {
    rig.runtime.block_on(async {
        let cage = Cage::new(&rig.policy, Output::Joined).await.unwrap();
        let task = Task { program: "haft-no-such-program".into(), ..rig.task("") };
        let mut running = cage.run(task).await.unwrap();
        let mut all = Vec::new();
        let ended = loop {
            match running.next().await.unwrap() {
                Happened::Output(_, bytes) => all.extend_from_slice(bytes),
                Happened::Ended(ended) => break ended,
            }
        };
        assert_eq!(ended.exit, Exit::Code(127));
        assert!(String::from_utf8(all).unwrap().contains("`haft-no-such-program` cannot be started"));
    });
}

fn much_output_comes_whole(rig: &Rig) {
    let done = rig.bash("head -c 20000000 /dev/zero | tr '\\0' x");
    assert_eq!(done.out.len(), 20_000_000);
}

fn git_works_in_a_cage(rig: &Rig) {
    let done = rig.bash(
        "git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add f && \
         git commit -qm one && git worktree add -q ../ws/tree && git log --oneline | wc -l",
    );
    assert_eq!(done.out.trim(), "1", "{}", done.err);
}
