//! Requirements of tests on the machine: programs, kernel features, privileges. A test whose requirement is missing is
//! skipped, and the skip is printed even if the test harness captures output. If the environment variable [`REQUIRE`]
//! names the requirement, the test fails instead, so that a green run means that everything was tested. For tests only;
//! knows nothing of haft itself.
#![allow(clippy::disallowed_methods, clippy::expect_used)] // tests inspect the machine directly, not through haft-sandbox

pub mod http;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write as _;
use std::panic::Location;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Environment variable with the requirements that must be met, separated by commas: their names, `all` for every one,
/// `-NAME` to exclude one.
pub const REQUIRE: &str = "HAFT_TEST_REQUIRE";

/// Environment variable with the path of a file to which each skip is appended as a line.
pub const SKIPPED: &str = "HAFT_TEST_SKIPPED";

/// A requirement of a test that a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // each is described in the list below
pub enum Need {
    AccessLists,
    Attributes,
    Bash,
    Cargo,
    CaseFolding,
    ControlGroups,
    Git,
    ImmutableFiles,
    MemoryFileSystem,
    Mounts,
    Node,
    Npm,
    Packages,
    Python,
    Repository,
    Ripgrep,
    Root,
    Rustfmt,
    Sed,
    Setpriv,
    SparseFiles,
    Strace,
}

/// All requirements in the order of [`Need`]: name, the program if it is one, and how to meet it.
const NEEDS: [(Need, &str, Option<&str>, &str); 22] = [
    (Need::AccessLists, "access-lists", None, "use a file system with POSIX access control lists"),
    (Need::Attributes, "attributes", None, "use a file system with extended attributes"),
    (Need::Bash, "bash", Some("bash"), "install the package bash"),
    (Need::Cargo, "cargo", Some("cargo"), "install cargo"),
    (Need::CaseFolding, "case-folding", None, "name a folder that ignores case in HAFT_TEST_FOLDING"),
    (Need::ControlGroups, "control-groups", None, "use a kernel with control groups, as root"),
    (Need::Git, "git", Some("git"), "install the package git"),
    (Need::ImmutableFiles, "immutable-files", None, "install the package e2fsprogs and run as root on ext4"),
    (Need::MemoryFileSystem, "dev-shm", None, "mount a tmpfs at /dev/shm"),
    (Need::Mounts, "mounts", None, "install the packages mount and util-linux and allow user namespaces"),
    (Need::Node, "node", Some("node"), "install the package nodejs"),
    (Need::Npm, "npm", Some("npm"), "install the package npm"),
    (Need::Packages, "packages", None, "run `export HAFT_TEST_PEERS=$(tests/peers/install)`"),
    (Need::Python, "python3", Some("python3"), "install the package python3"),
    (Need::Repository, "repository", None, "run the tests in a clone of the repository"),
    (Need::Ripgrep, "ripgrep", Some("rg"), "install the package ripgrep"),
    (Need::Root, "root", None, "run the tests as root"),
    (Need::Rustfmt, "rustfmt", Some("rustfmt"), "run `rustup component add rustfmt`"),
    (Need::Sed, "sed", Some("sed"), "install the package sed (GNU)"),
    (Need::Setpriv, "setpriv", Some("setpriv"), "install the package util-linux"),
    (Need::SparseFiles, "sparse-files", None, "use a file system with sparse files"),
    (Need::Strace, "strace", Some("strace"), "install the package strace and allow ptrace"),
];

impl Need {
    /// Its name, program and remedy.
    fn entry(self) -> (&'static str, Option<&'static str>, &'static str) {
        let (_, name, program, remedy) = NEEDS[self as usize];
        (name, program, remedy)
    }

    /// Its name in [`REQUIRE`].
    pub fn name(self) -> &'static str {
        self.entry().0
    }
}

/// Whether a program is installed. If it is not, this records a skip, and the test must return.
///
/// # Panics
/// If the program is missing and [`REQUIRE`] names it, or if the requirement is not a program.
#[must_use = "a test that lacks something must return"]
#[track_caller]
pub fn require(need: Need) -> bool {
    static FOUND: Mutex<BTreeMap<Need, bool>> = Mutex::new(BTreeMap::new());
    let Some(program) = need.entry().1 else { panic!("{} is not a program", need.name()) };
    let runs = || {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    // Each program is started once per test binary.
    let found = *FOUND.lock().unwrap_or_else(PoisonError::into_inner).entry(need).or_insert_with(runs);
    if !found {
        missing(need, format_args!("`{program}` is not installed"));
    }
    found
}

/// Records that a test, or a part of it, is skipped because a requirement is not met. The test must not run that part.
///
/// # Panics
/// If [`REQUIRE`] names the requirement.
#[track_caller]
pub fn missing(need: Need, why: impl Display) {
    let (name, _, remedy) = need.entry();
    let test = test_name(Location::caller());
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let is_required = is_required(need, &required).unwrap_or_else(|error| panic!("{REQUIRE}: {error}"));
    assert!(!is_required, "{test} needs {name}: {why}; {remedy} ({REQUIRE} demands it)");
    let line = format!("skipped: {test}: {name}: {why}; {remedy}\n");
    // Written directly, because the test harness captures the output of `eprintln!` in a test that passes.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os(SKIPPED) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{SKIPPED}: {}: {error}", path.display()));
    }
}

/// Whether a list such as `all,-strace` includes a requirement.
fn is_required(need: Need, list: &str) -> Result<bool, String> {
    let (mut named, mut excluded) = (false, false);
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (name, is_excluding) = word.strip_prefix('-').map_or((word, false), |name| (name, true));
        if !NEEDS.iter().any(|(_, known, ..)| *known == name) && (name != "all" || is_excluding) {
            let known: Vec<&str> = NEEDS.iter().map(|(_, known, ..)| *known).collect();
            return Err(format!("`{word}` is not known; known are all, {}", known.join(", ")));
        }
        let is_meant = name == need.name() || name == "all";
        named |= is_meant && !is_excluding;
        excluded |= is_meant && is_excluding;
    }
    Ok(named && !excluded)
}

/// Name of the running test. The harness names threads after their tests, unless it runs all tests on one thread; then the
/// location stands for the test.
fn test_name(at: &Location<'_>) -> String {
    let binary = std::env::current_exe().unwrap_or_default();
    let binary = binary.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let binary = binary.rsplit_once('-').map_or(binary.as_str(), |(name, _)| name);
    match std::thread::current().name() {
        Some(name) if name.contains("::") => format!("{binary} {name}"),
        _ => format!("{binary} {}:{}", at.file(), at.line()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_order_of_the_enum() {
        for (at, (need, ..)) in NEEDS.iter().enumerate() {
            assert_eq!(*need as usize, at, "{need:?}");
        }
    }

    #[test]
    fn a_list_includes_what_it_names_and_does_not_exclude() {
        let demanded = |list: &str| is_required(Need::Strace, list).unwrap();
        assert!(!demanded("") && !demanded("git, ripgrep"));
        assert!(demanded("all") && demanded("git,strace") && demanded(" strace ,"));
        assert!(!demanded("all,-strace") && !demanded("-strace,all") && demanded("all,-git"));
    }

    #[test]
    fn a_misspelt_name_is_refused() {
        for list in ["strase", "all,-strase", "-all", "ALL"] {
            assert!(is_required(Need::Strace, list).unwrap_err().contains("is not known"), "{list}");
        }
    }
}
