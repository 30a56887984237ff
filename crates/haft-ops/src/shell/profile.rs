//! The environment that the user's own shell sets up: what programs need that haft was not started with, as when it
//! is started by a desktop and not by a terminal. The shell is asked once, in a sandbox, and the answer is kept until
//! one of the files that it reads has changed.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_sandbox::sandbox::{Output, Policy, RunEvent, Sandbox, Stream, Task};
use haft_sandbox::{Exit, Store, user};

/// Shells that can be asked.
const SHELLS: [&str; 6] = ["bash", "zsh", "fish", "ksh", "dash", "sh"];
/// What these read when somebody logs in.
const READ: [&str; 14] = [
    "/etc/environment",
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/zsh/zshenv",
    "/etc/zsh/zshrc",
    ".profile",
    ".bash_profile",
    ".bash_login",
    ".bashrc",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".config/fish/config.fish",
    ".kshrc",
];
/// How long the shell may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where the answer is kept.
const KEPT: &str = "environment";
/// Stands before the environment, since a profile may print what it likes.
const MARK: &str = "haft-environment";
/// What a shell says of itself.
const OWN: [&str; 5] = ["_", "SHLVL", "PWD", "OLDPWD", "PS1"];

pub(super) type Env = Vec<(OsString, OsString)>;

/// The environment of the user's shell: as it was kept, or as it is told now. Empty if it cannot be had.
pub(super) async fn of_user(env: &Env, policy: Policy, kept: Option<&Store>) -> Env {
    let value = |name: &str| env.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let home = PathBuf::from(value("HOME").unwrap_or_default());
    let shell = value("SHELL").map(PathBuf::from).filter(|shell| is_known(shell));
    let shell = shell.unwrap_or_else(|| "/bin/bash".into());
    let stamp = stamp(&shell, &home, value("PATH").as_deref());
    if let Some(kept) = kept.and_then(|kept| kept.read(KEPT).ok().flatten())
        && let Some(kept) = kept.strip_prefix(stamp.as_bytes())
    {
        return parse(kept);
    }
    let Some(told) = ask(&shell, home, env, policy).await else { return Env::new() };
    let found: Env =
        parse(&told).into_iter().filter(|(name, _)| super::sandbox_options::is_passed_on(name)).collect();
    if let Some(kept) = kept {
        let mut bytes = stamp.into_bytes();
        for (name, value) in &found {
            bytes.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        // It is only asked again if it cannot be kept.
        let _ = kept.write_fast(KEPT, &bytes);
    }
    found
}

/// One environment with what only the other one has; paths of programs are put together.
pub(super) fn merged(mut own: Env, other: Env) -> Env {
    for (name, value) in other {
        match own.iter_mut().find(|(known, _)| *known == name) {
            None => own.push((name, value)),
            Some((_, known)) if name == "PATH" => {
                let mut paths: Vec<PathBuf> = std::env::split_paths(known).collect();
                paths.extend(std::env::split_paths(&value));
                let mut seen = std::collections::HashSet::new();
                paths.retain(|path| seen.insert(path.clone()));
                if let Ok(joined) = std::env::join_paths(paths) {
                    *known = joined;
                }
            }
            Some(_) => {}
        }
    }
    own
}

fn is_known(shell: &Path) -> bool {
    shell.is_absolute()
        && shell.file_name().and_then(OsStr::to_str).is_some_and(|name| SHELLS.contains(&name))
}

/// What the answer depends on.
fn stamp(shell: &Path, home: &Path, path: Option<&OsStr>) -> String {
    let mut hasher = DefaultHasher::new();
    (shell, home, path).hash(&mut hasher);
    for file in READ {
        user::stamp(&home.join(file)).hash(&mut hasher);
    }
    format!("{:016x}\n", hasher.finish())
}

async fn ask(shell: &Path, home: PathBuf, env: &Env, policy: Policy) -> Option<Vec<u8>> {
    let sandbox = Sandbox::new(&policy, Output::Apart).await.ok()?;
    let say = format!("printf '\\0%s\\0' {MARK}; exec env -0");
    let task = Task {
        program: shell.into(),
        args: ["-l", "-i", "-c", &say].map(Into::into).into(),
        dir: home,
        env: env.clone(),
        input: Vec::new(),
        reports_dir: false,
    };
    let mut running = sandbox.run(task).await.ok()?;
    let mut told = Vec::new();
    let answer = async {
        loop {
            match running.next().await.ok()? {
                RunEvent::Output(Stream::Out, bytes) if told.len() < 1 << 20 => told.extend_from_slice(bytes),
                RunEvent::Output(..) => {}
                RunEvent::Ended(ended) => return (ended.exit == Exit::Code(0)).then_some(()),
            }
        }
    };
    tokio::time::timeout(PATIENCE, answer).await.ok()??;
    let mark = [b"\0", MARK.as_bytes(), b"\0"].concat();
    let at = memchr::memmem::find(&told, &mark)?;
    Some(told.split_off(at + mark.len()))
}

fn parse(bytes: &[u8]) -> Env {
    let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((text(&pair[..at]), text(&pair[at + 1..])))
    });
    pairs.filter(|(name, _)| !name.is_empty() && !OWN.iter().any(|own| name == own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_values_win_and_paths_are_joined() {
        let env = |pairs: &[(&str, &str)]| -> Env {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let own = env(&[("PATH", "/venv/bin:/usr/bin"), ("LANG", "C")]);
        let profile = env(&[("PATH", "/usr/bin:/opt/tool/bin"), ("LANG", "de"), ("GOPATH", "/go")]);
        let expected = env(&[("PATH", "/venv/bin:/usr/bin:/opt/tool/bin"), ("LANG", "C"), ("GOPATH", "/go")]);
        assert_eq!(merged(own, profile), expected);
    }

    #[test]
    fn values_may_be_anything() {
        let parsed = parse(b"A=1\0B=x=y\nz\0_=/bin/env\0broken\0=none\0C=\0");
        let names: Vec<_> = parsed.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(names, [(&b"A"[..], &b"1"[..]), (b"B", b"x=y\nz"), (b"C", b"")]);
    }
}
