//! The environment of the user's login shell, for variables that haft itself lacks, for example when a desktop started it
//! instead of a terminal. Runs the shell once, in a sandbox, and caches the result until one of the shell's start-up files
//! changes. Knows nothing of which variables commands may have.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_sandbox::sandbox::{Output, Policy, RunEvent, Sandbox, Stream, Task};
use haft_sandbox::{Exit, Store, user};

/// Supported login shells.
const SHELLS: [&str; 6] = ["bash", "zsh", "fish", "ksh", "dash", "sh"];
/// Start-up files of these shells; a change of one invalidates the cache.
const STARTUP_FILES: [&str; 14] = [
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
/// Timeout of the shell.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the cache in the store.
const CACHE_NAME: &str = "environment";
/// Separates the environment from what start-up files print before it.
const MARK: &str = "haft-environment";
/// Variables that describe the shell itself and do not belong to the user's environment.
const SHELL_STATE: [&str; 5] = ["_", "SHLVL", "PWD", "OLDPWD", "PS1"];

/// Environment variables.
pub(super) type Env = Vec<(OsString, OsString)>;

/// The environment of the user's login shell, from the cache or from the shell itself. Empty if the shell fails.
pub(super) async fn user_env(env: &Env, policy: Policy, store: Option<&Store>) -> Env {
    let value = |name: &str| env.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let home = PathBuf::from(value("HOME").unwrap_or_default());
    let shell = value("SHELL").map(PathBuf::from).filter(|shell| is_known(shell));
    let shell = shell.unwrap_or_else(|| "/bin/bash".into());
    let stamp = stamp(&shell, &home, value("PATH").as_deref());
    if let Some(cached) = store.and_then(|store| store.read(CACHE_NAME).ok().flatten())
        && let Some(cached) = cached.strip_prefix(stamp.as_bytes())
    {
        return parse(cached);
    }
    let Some(output) = run_shell(&shell, home, env, policy).await else { return Env::new() };
    let found: Env = parse(&output)
        .into_iter()
        .filter(|(name, value)| super::sandbox_options::is_passed_on(name, value))
        .collect();
    if let Some(store) = store {
        let mut bytes = stamp.into_bytes();
        for (name, value) in &found {
            bytes.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        // Without the cache, the next session runs the shell again: no reason to fail.
        let _ = store.write_fast(CACHE_NAME, &bytes);
    }
    found
}

/// Merges two environments: adds the variables that only `other` has, and joins both values of `PATH`.
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

/// Cache key: a hash of everything that the environment depends on.
fn stamp(shell: &Path, home: &Path, path: Option<&OsStr>) -> String {
    let mut hasher = DefaultHasher::new();
    (shell, home, path).hash(&mut hasher);
    for file in STARTUP_FILES {
        user::stamp(&home.join(file)).hash(&mut hasher);
    }
    format!("{:016x}\n", hasher.finish())
}

/// Runs the login shell and returns its environment, as `env -0` prints it.
async fn run_shell(shell: &Path, home: PathBuf, env: &Env, policy: Policy) -> Option<Vec<u8>> {
    let slot = Sandbox::default().slot(&policy, Output::Apart).await.ok()?;
    let script = format!("printf '\\0%s\\0' {MARK}; exec env -0");
    let task = Task {
        program: shell.into(),
        args: ["-l", "-i", "-c", &script].map(Into::into).into(),
        dir: home,
        env: env.clone(),
        input: Vec::new(),
        reports_dir: false,
        record: None,
        view: None,
    };
    let mut running = slot.run(task).await.ok()?;
    let mut output = Vec::new();
    let finished = async {
        loop {
            match running.next().await.ok()? {
                RunEvent::Output(Stream::Out, bytes) if output.len() < 1 << 20 => {
                    output.extend_from_slice(bytes)
                }
                RunEvent::Output(..) => {}
                RunEvent::Ended(ended) => return (ended.exit == Exit::Code(0)).then_some(()),
            }
        }
    };
    tokio::time::timeout(TIMEOUT, finished).await.ok()??;
    let mark = [b"\0", MARK.as_bytes(), b"\0"].concat();
    let at = memchr::memmem::find(&output, &mark)?;
    Some(output.split_off(at + mark.len()))
}

/// Parses `NAME=value` pairs that NUL separates.
fn parse(bytes: &[u8]) -> Env {
    let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((text(&pair[..at]), text(&pair[at + 1..])))
    });
    pairs.filter(|(name, _)| !name.is_empty() && !SHELL_STATE.iter().any(|own| name == own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_values_take_precedence_and_paths_are_joined() {
        let env = |pairs: &[(&str, &str)]| -> Env {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let own = env(&[("PATH", "/venv/bin:/usr/bin"), ("LANG", "C")]);
        let profile = env(&[("PATH", "/usr/bin:/opt/tool/bin"), ("LANG", "de"), ("GOPATH", "/go")]);
        let expected = env(&[("PATH", "/venv/bin:/usr/bin:/opt/tool/bin"), ("LANG", "C"), ("GOPATH", "/go")]);
        assert_eq!(merged(own, profile), expected);
    }

    #[test]
    fn parses_values_with_any_characters() {
        let parsed = parse(b"A=1\0B=x=y\nz\0_=/bin/env\0broken\0=none\0C=\0");
        let names: Vec<_> = parsed.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(names, [(&b"A"[..], &b"1"[..]), (b"B", b"x=y\nz"), (b"C", b"")]);
    }
}
