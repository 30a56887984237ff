//! Files and hosts that a command names. Resolves paths lexically: the code that opens them follows symbolic links.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::options::Options;
use super::programs::{Profile, profile};
use super::{Command, Cwd, Doubt, ParsedCommand, RedirectKind, Word, rules, sed, subcommands, wrap};

/// Files and hosts that a command accesses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Files and folders that it reads, or may read.
    pub reads: BTreeSet<PathBuf>,
    /// Files and folders that it writes, creates or deletes.
    pub writes: BTreeSet<PathBuf>,
    /// Hosts that it connects to.
    pub hosts: BTreeSet<String>,
    /// Whether it uses git's own data, in `.git`.
    pub repository: Repository,
    /// Why the lists may be incomplete; `None` if they are complete.
    pub incomplete: Option<String>,
}

/// How a command uses the data of a git repository, apart from the files that are checked out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repository {
    /// Not at all.
    #[default]
    Unused,
    /// Reads it.
    Read,
    /// Changes it.
    Changed,
}

/// Programs that write all their operands, and nothing else.
const WRITERS: &[&str] = &[
    "touch", "mkdir", "rm", "rmdir", "unlink", "truncate", "tee", "chmod", "chown", "chgrp", "shred",
    "mkfifo",
];
/// Programs that read all operands and write the last one.
const COPIERS: &[&str] = &["cp", "mv", "ln", "install"];
/// Programs that read the current folder if they have no operand.
const READS_CWD: &[&str] =
    &["ls", "dir", "vdir", "find", "rg", "fd", "fdfind", "tree", "du", "grep", "egrep", "fgrep"];
/// Programs whose operands are no files.
const NO_FILES: &[&str] = &[
    "echo", "printf", "true", "false", ":", "seq", "sleep", "date", "uname", "whoami", "id", "which", "type",
    "printenv", "expr", "basename", "dirname", "tr", "pwd", "hostname", "nproc", "ps", "pgrep", "command",
    "timeout", "nice", "stdbuf",
];
/// Options of reading programs whose value is a file to write.
const OUTPUT_OPTIONS: Options = Options { short: "o", valued: "kSteifn", long: &["--output"] };

/// Options of writing programs with which they still write only their operands.
const PLAIN_OPTIONS: &[(&str, &str, &[&str])] = &[
    (
        "cp",
        "aRrfvnupPLHdixl",
        &["--recursive", "--archive", "--force", "--verbose", "--no-clobber", "--update"],
    ),
    ("mv", "fvnui", &["--force", "--verbose", "--no-clobber", "--update"]),
    ("ln", "sfvnr", &["--symbolic", "--force", "--verbose", "--relative"]),
    ("mkdir", "pv", &["--parents", "--verbose"]),
    ("touch", "acm", &["--no-create"]),
    ("rm", "frRvid", &["--force", "--recursive", "--verbose", "--dir"]),
    ("rmdir", "pv", &["--parents", "--verbose"]),
    ("tee", "ai", &["--append"]),
    ("unlink", "", &[]),
    ("truncate", "", &[]),
    ("chmod", "Rvfc", &["--recursive", "--verbose", "--changes", "--silent", "--quiet", "--reference"]),
    (
        "chown",
        "RvfhcHLP",
        &[
            "--recursive",
            "--verbose",
            "--changes",
            "--silent",
            "--quiet",
            "--reference",
            "--from",
            "--no-dereference",
        ],
    ),
    (
        "chgrp",
        "RvfhcHLP",
        &["--recursive", "--verbose", "--changes", "--silent", "--quiet", "--reference", "--no-dereference"],
    ),
    ("install", "", &[]),
    ("shred", "fuvz", &[]),
    ("mkfifo", "", &[]),
];

/// An option with which a writing program may write something other than its operands.
fn unknown_option(command: &Command) -> Option<&str> {
    let program = command.name();
    let (_, short, long) = PLAIN_OPTIONS.iter().find(|(name, ..)| *name == program)?;
    let is_plain = |arg: &&str| match arg.strip_prefix('-') {
        None | Some("" | "-") => true,
        Some(rest) if rest.starts_with('-') => {
            long.contains(&arg.split_once('=').map_or(*arg, |(option, _)| option))
        }
        Some(_) if is_mode(program, arg) => true,
        Some(letters) => letters.chars().all(|letter| short.contains(letter)),
    };
    command.args().find(|arg| !is_plain(arg))
}

/// Whether an argument that looks like an option is a mode: `chmod -x f`.
fn is_mode(program: &str, arg: &str) -> bool {
    let is_part = |c: char| "rwxXstugo=+-,".contains(c);
    program == "chmod"
        && arg.len() > 1
        && arg.starts_with('-')
        && !arg.starts_with("--")
        && arg.chars().all(is_part)
}

/// The first operand of programs that take a mode or an owner before the files.
fn mode_or_owner<'a>(command: &Command, operands: &[&'a Word]) -> Option<&'a Word> {
    let name = command.name();
    let takes_one = matches!(name, "chmod" | "chown" | "chgrp");
    let given = command.args().any(|arg| arg.starts_with("--reference") || is_mode(name, arg));
    operands.first().copied().filter(|_| takes_one && !given)
}

/// The value of `--reference=FILE`, which is read.
fn reference(command: &Command) -> Option<Word> {
    command.args().find_map(|arg| arg.strip_prefix("--reference=")).map(Word::literal)
}

/// Programs whose first operand is a pattern, not a file.
const SEARCHERS: &[&str] = &["grep", "egrep", "fgrep", "rg"];
/// Options of [`SEARCHERS`] that take a value.
const SEARCH_VALUES: &[&str] =
    &["-A", "-B", "-C", "-m", "-g", "-t", "-T", "-d", "-D", "-j", "-M", "--max-count", "--glob", "--type"];

/// The operand that is the search pattern; `None` if it is not certain which one that is.
fn search_pattern(command: &Command) -> Option<&Word> {
    if !SEARCHERS.contains(&command.name()) {
        return None;
    }
    let mut is_value = false;
    for word in command.argv.iter().skip(1) {
        let text = word.text();
        match text.strip_prefix('-') {
            _ if std::mem::take(&mut is_value) => {}
            None => return Some(word),
            // An option may give the pattern.
            Some(letters) if letters.starts_with('-') => {
                if ["--regexp", "--file", "--files", "--type-list"].iter().any(|long| text.starts_with(long))
                    || text == "--"
                {
                    return None;
                }
                is_value = SEARCH_VALUES.contains(&text);
            }
            Some(letters) if letters.contains(['e', 'f']) => return None,
            Some(_) => is_value = SEARCH_VALUES.contains(&text),
        }
    }
    None
}

/// The files and hosts that a single command of a line accesses if the shell starts in `cwd`.
pub(super) fn of_one(command: &Command, cwd: &Path) -> Accesses {
    let mut found = Accesses::default();
    let at = match &command.cwd {
        Cwd::Start => Some(Cow::Borrowed(cwd)),
        Cwd::At(path) => Some(Cow::Owned(resolve(cwd, path))),
        Cwd::Unknown => None,
    };
    Collector { out: &mut found, cwd: at }.command(command);
    found
}

/// The files and hosts that a command accesses if the shell starts in `cwd`.
pub fn accesses(understood: &ParsedCommand, cwd: &Path) -> Accesses {
    let mut found = Accesses::default();
    for command in understood.commands() {
        let at = match &command.cwd {
            Cwd::Start => Some(Cow::Borrowed(cwd)),
            Cwd::At(path) => Some(Cow::Owned(resolve(cwd, path))),
            Cwd::Unknown => None,
        };
        Collector { out: &mut found, cwd: at }.command(command);
    }
    // A new link changes where paths of later commands lead.
    if understood.commands().len() > 1 && understood.commands().iter().any(|command| command.name() == "ln") {
        found.incomplete = Some("`ln` changes where other words lead".to_owned());
    }
    if let Some(doubt) = understood.doubts().first() {
        found.incomplete = Some(doubt.to_string());
    }
    found
}

/// Joins two paths and resolves `.` and `..` lexically.
pub(super) fn resolve(base: &Path, path: &str) -> PathBuf {
    let below = path.strip_prefix('/').unwrap_or(path);
    if below.split('/').all(|name| !matches!(name, "" | "." | "..")) {
        return base.join(path);
    }
    let mut resolved = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            component => resolved.push(component),
        }
    }
    resolved
}

/// Collects what one command accesses.
struct Collector<'a> {
    out: &'a mut Accesses,
    /// The command's working directory, if it is known.
    cwd: Option<Cow<'a, Path>>,
}

impl Collector<'_> {
    fn mark_incomplete(&mut self, why: String) {
        self.out.incomplete.get_or_insert(why);
    }

    fn read(&mut self, word: &Word) {
        if let Some(path) = self.path(word) {
            self.out.reads.insert(path);
        }
    }

    fn write(&mut self, word: &Word) {
        if let Some(path) = self.path(word) {
            self.out.writes.insert(path);
        }
    }

    fn path(&mut self, word: &Word) -> Option<PathBuf> {
        let text = word.text();
        match &self.cwd {
            _ if !word.is_literal() => {
                self.mark_incomplete(format!("what `{}` becomes is not certain", word.raw()));
                None
            }
            Some(cwd) => Some(resolve(cwd, text)),
            None if text.starts_with('/') => Some(resolve(Path::new("/"), text)),
            None => {
                self.mark_incomplete(Doubt::Folder.to_string());
                None
            }
        }
    }

    fn command(&mut self, command: &Command) {
        for redirect in &command.redirects {
            let target = redirect.target.text();
            if let Some(rest) = target.strip_prefix("/dev/tcp/").or_else(|| target.strip_prefix("/dev/udp/"))
            {
                self.out.hosts.extend(rest.split('/').next().map(str::to_owned));
                continue;
            }
            match redirect.kind {
                RedirectKind::Read => self.read(&redirect.target),
                RedirectKind::Write | RedirectKind::Append if target == "/dev/null" => {}
                RedirectKind::Write | RedirectKind::Append => self.write(&redirect.target),
                RedirectKind::ReadWrite => {
                    self.read(&redirect.target);
                    self.write(&redirect.target);
                }
                RedirectKind::Duplicate | RedirectKind::Here => {}
            }
        }
        let Some(program) = command.argv.first() else { return };
        let name = command.name();
        let mut operands: Vec<&Word> =
            command.argv.iter().skip(1).filter(|word| !word.text().starts_with('-')).collect();
        let skipped = [search_pattern(command), mode_or_owner(command, &operands)];
        for word in skipped.into_iter().flatten() {
            operands.retain(|operand| !std::ptr::eq(*operand, word));
        }
        if rules::has_subcommands(name) {
            operands = subcommands::files(command);
        }
        self.hosts(command, &operands);
        if !program.is_literal() {
            self.mark_incomplete("which program it runs is not certain".to_owned());
        } else if let Some(option) = unknown_option(command) {
            operands.iter().for_each(|word| self.write(word));
            self.mark_incomplete(format!("what `{option}` does to what `{name}` writes is not known"));
        } else if WRITERS.contains(&name) {
            operands.iter().for_each(|word| self.write(word));
            reference(command).iter().for_each(|word| self.read(word));
        } else if COPIERS.contains(&name) {
            operands.iter().for_each(|word| self.read(word));
            operands
                .iter()
                .rev()
                .take(if name == "mv" { operands.len() } else { 1 })
                .for_each(|word| self.write(word));
            // The text does not show whether the target is a folder to copy into, so both paths count.
            if let Some((target, sources)) = operands.split_last() {
                for source in sources {
                    let name = source.text().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                    if source.is_literal() && target.is_literal() && !matches!(name, "" | "." | "..") {
                        self.write(&Word::literal(&format!("{}/{name}", target.text())));
                    }
                }
            }
        } else if name == "cd" {
            // Later commands may list the folder.
            operands.iter().for_each(|word| self.read(word));
        } else if NO_FILES.contains(&name) {
        } else if matches!(name, "sed" | "gsed") {
            match sed::call(command) {
                Some(call) => {
                    let writes = call.in_place.is_some();
                    for file in call.files.iter().map(|file| Word::literal(file)) {
                        self.read(&file);
                        if writes {
                            self.write(&file);
                        }
                    }
                    if call.in_place.as_ref().is_some_and(|suffix| suffix.contains(['*', '/'])) {
                        self.mark_incomplete("where the backup goes is not certain".to_owned());
                    }
                    for suffix in call.in_place.iter().filter(|suffix| !suffix.is_empty()) {
                        call.files
                            .iter()
                            .for_each(|file| self.write(&Word::literal(&format!("{file}{suffix}"))));
                    }
                }
                None => self.mark_incomplete("the sed script is not known to only print".to_owned()),
            }
        } else if let Some(profile) = profile(name) {
            self.reader(command, profile, &operands);
            // `git show HEAD:path` reads an older version of a file.
            let named = operands.iter().filter_map(|word| word.text().split_once(':'));
            for (_, path) in named.filter(|(_, path)| name == "git" && !path.is_empty()) {
                self.read(&Word::literal(path));
            }
            if name == "git" {
                let repository = subcommands::repository(command);
                self.out.repository = self.out.repository.max(repository);
                if repository == Repository::Changed && subcommands::uses_network(command) {
                    self.out.incomplete = Some("it talks to another repository".to_owned());
                }
            }
            if READS_CWD.contains(&name) || name == "git" {
                match &self.cwd {
                    Some(cwd) if self.out.reads.contains(&**cwd) => {}
                    Some(cwd) => drop(self.out.reads.insert(cwd.to_path_buf())),
                    None => self.mark_incomplete(Doubt::Folder.to_string()),
                }
            }
        } else if !wrap::is_wrapper(name) || wrap::is_runner(command) {
            self.mark_incomplete(format!("what `{name}` changes or reaches is not known"));
        }
    }

    /// A program of the table of readers, with files in its operands and in the values of its options.
    fn reader(&mut self, command: &Command, profile: &Profile, operands: &[&Word]) {
        let name = command.name();
        operands.iter().for_each(|word| self.read(word));
        // The value of `--file=x` may be a file.
        let values = command
            .args()
            .filter_map(|arg| arg.strip_prefix("--")?.split_once('='))
            .map(|(_, value)| Word::literal(value));
        values.for_each(|word| self.read(&word));
        if name == "git" && subcommands::only_changes_repository(command) {
            return;
        }
        if let Some(why) = profile.objection(command) {
            let mut args = command.argv.iter().skip(1);
            while let Some(arg) = args.next() {
                if OUTPUT_OPTIONS.find([arg.text()].into_iter()).is_some() {
                    args.clone().next().into_iter().for_each(|target| self.write(target));
                }
            }
            if name == "dd" {
                let targets = command.args().filter_map(|arg| arg.strip_prefix("of="));
                targets.map(Word::literal).for_each(|target| self.write(&target));
            } else {
                self.mark_incomplete(why);
            }
        }
    }

    fn hosts(&mut self, command: &Command, operands: &[&Word]) {
        // The text of a message is no address.
        let skips = command.name() == "git" && !subcommands::uses_network(command);
        for text in command.args().filter(|text| !skips && text.contains(':')) {
            if let Some((_, rest)) = text.split_once("://") {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                self.host(authority.rsplit('@').next().unwrap_or_default());
            }
        }
        match command.name() {
            "git" if !subcommands::uses_network(command) => {}
            "ssh" | "scp" | "sftp" | "rsync" | "git" | "mosh" => {
                let addresses = subcommands::operands(command);
                let operands = if command.name() == "git" { addresses.as_slice() } else { operands };
                for (n, word) in operands.iter().enumerate() {
                    let text = word.text();
                    let scp = text
                        .split_once(':')
                        .filter(|(host, path)| !host.contains('/') && !path.starts_with("//"));
                    if let Some((host, _)) = scp {
                        self.host(host.rsplit('@').next().unwrap_or_default());
                    } else if n == 0 && matches!(command.name(), "ssh" | "sftp" | "mosh") {
                        self.host(text.rsplit('@').next().unwrap_or_default());
                    }
                }
            }
            "curl" | "wget" | "nc" | "ncat" | "telnet" | "ping" | "dig" | "host" | "nslookup" => {
                for word in operands.iter().filter(|word| !word.text().contains("://")) {
                    self.host(word.text().split(['/', '?']).next().unwrap_or_default());
                }
                // Which operands are hosts depends on options that this code does not know.
                self.mark_incomplete(format!("`{}` talks to other machines", command.name()));
            }
            _ => {}
        }
    }

    fn host(&mut self, authority: &str) {
        let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, _)) => host,
            None => authority.split(':').next().unwrap_or(authority),
        };
        if !host.is_empty() && !host.contains(['=', '/', ' ']) {
            self.out.hosts.insert(host.to_lowercase());
        }
    }
}
