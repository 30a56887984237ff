//! What a command touches, as far as it shows: files that it names and hosts that it talks to. Paths are resolved by
//! their text alone; where links lead is for whoever opens them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::options::Options;
use super::programs::{Nature, nature};
use super::{Command, Cwd, Doubt, RedirectKind, Understood, Word, sed, wrap};

/// Files and hosts that a command touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touches {
    /// Files and folders that it reads, or may read.
    pub reads: BTreeSet<PathBuf>,
    /// Files and folders that it writes, makes or deletes.
    pub writes: BTreeSet<PathBuf>,
    /// Hosts that it talks to.
    pub hosts: BTreeSet<String>,
    /// Why this is not all, if it is not.
    pub unknown: Option<String>,
}

/// Programs that change all files that they are given, and nothing else.
const CHANGES: &[&str] = &[
    "touch", "mkdir", "rm", "rmdir", "unlink", "truncate", "tee", "chmod", "chown", "chgrp", "shred",
    "mkfifo",
];
/// Programs that read all files but the last one.
const COPIES: &[&str] = &["cp", "mv", "ln", "install"];
/// Programs that look into the folder they are in if no other is named.
const LOOKS_AROUND: &[&str] =
    &["ls", "dir", "vdir", "find", "rg", "fd", "fdfind", "tree", "du", "grep", "egrep", "fgrep"];
/// Programs whose words are no files.
const SPEAKS: &[&str] = &[
    "echo", "printf", "true", "false", ":", "seq", "sleep", "date", "uname", "whoami", "id", "which", "type",
    "printenv", "expr", "basename", "dirname", "tr", "pwd", "hostname", "nproc", "ps", "pgrep", "command",
    "timeout", "nice", "stdbuf",
];
/// Options of programs that read, and the file that follows is written.
const WRITES_TO: Options = Options { short: "o", valued: "kSteifn", long: &["--output"] };

/// Options of programs that change files by which they change no others than they name.
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
    ("chmod", "Rvf", &["--recursive"]),
    ("chown", "Rvfh", &["--recursive"]),
    ("chgrp", "Rvfh", &["--recursive"]),
    ("install", "", &[]),
    ("shred", "fuvz", &[]),
    ("mkfifo", "", &[]),
];

/// An option of a program that changes files which may make it change others.
fn odd_option(command: &Command) -> Option<&str> {
    let program = command.name();
    let (_, short, long) = PLAIN_OPTIONS.iter().find(|(name, ..)| *name == program)?;
    let is_plain = |arg: &&str| match arg.strip_prefix('-') {
        None | Some("" | "-") => true,
        Some(rest) if rest.starts_with('-') => long.contains(arg),
        Some(letters) => letters.chars().all(|letter| short.contains(letter)),
    };
    command.args().find(|arg| !is_plain(arg))
}

/// Programs whose first operand is a pattern, and no file.
const SEARCHES: &[&str] = &["grep", "egrep", "fgrep", "rg"];
/// Their options that are followed by a value.
const WITH_VALUE: &[&str] =
    &["-A", "-B", "-C", "-m", "-g", "-t", "-T", "-d", "-D", "-j", "-M", "--max-count", "--glob", "--type"];

/// The pattern that a program searches for, where it is certain which word that is.
fn pattern(command: &Command) -> Option<&Word> {
    if !SEARCHES.contains(&command.name()) {
        return None;
    }
    let mut is_value = false;
    for word in command.argv.iter().skip(1) {
        let text = word.text();
        match text.strip_prefix('-') {
            _ if std::mem::take(&mut is_value) => {}
            None => return Some(word),
            // The pattern is named by an option, perhaps.
            Some(letters) if letters.starts_with('-') => {
                if ["--regexp", "--file", "--files", "--type-list"].iter().any(|long| text.starts_with(long))
                    || text == "--"
                {
                    return None;
                }
                is_value = WITH_VALUE.contains(&text);
            }
            Some(letters) if letters.contains(['e', 'f']) => return None,
            Some(_) => is_value = WITH_VALUE.contains(&text),
        }
    }
    None
}

/// What a command touches when it starts in a folder.
pub fn touches(understood: &Understood, cwd: &Path) -> Touches {
    let mut found = Touches::default();
    for command in understood.commands() {
        let at = match &command.cwd {
            Cwd::Start => Some(Cow::Borrowed(cwd)),
            Cwd::At(path) => Some(Cow::Owned(resolve(cwd, path))),
            Cwd::Unknown => None,
        };
        Found { out: &mut found, at }.command(command);
    }
    // A link that is made on the way leads later words elsewhere.
    if understood.commands().len() > 1 && understood.commands().iter().any(|command| command.name() == "ln") {
        found.unknown = Some("`ln` changes where other words lead".to_owned());
    }
    if let Some(doubt) = understood.doubts().first() {
        found.unknown = Some(doubt.to_string());
    }
    found
}

/// Joins and folds `.` and `..`, by text.
fn resolve(base: &Path, path: &str) -> PathBuf {
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

struct Found<'a> {
    out: &'a mut Touches,
    at: Option<Cow<'a, Path>>,
}

impl Found<'_> {
    fn unsure(&mut self, why: String) {
        self.out.unknown.get_or_insert(why);
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
        match &self.at {
            _ if !word.is_literal() => {
                self.unsure(format!("what `{}` becomes is not certain", word.raw()));
                None
            }
            Some(at) => Some(resolve(at, text)),
            None if text.starts_with('/') => Some(resolve(Path::new("/"), text)),
            None => {
                self.unsure(Doubt::Folder.to_string());
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
        if let Some(pattern) = pattern(command) {
            operands.retain(|word| !std::ptr::eq(*word, pattern));
        }
        self.hosts(command, &operands);
        if !program.is_literal() {
            self.unsure("which program it runs is not certain".to_owned());
        } else if let Some(option) = odd_option(command) {
            operands.iter().for_each(|word| self.write(word));
            self.unsure(format!("what `{option}` does to what `{name}` writes is not known"));
        } else if CHANGES.contains(&name) {
            operands.iter().for_each(|word| self.write(word));
        } else if COPIES.contains(&name) {
            operands.iter().for_each(|word| self.read(word));
            operands
                .iter()
                .rev()
                .take(if name == "mv" { operands.len() } else { 1 })
                .for_each(|word| self.write(word));
            // Into a folder, or in place of a file: the text does not tell.
            if let Some((target, sources)) = operands.split_last() {
                for source in sources {
                    let name = source.text().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                    if source.is_literal() && target.is_literal() && !matches!(name, "" | "." | "..") {
                        self.write(&Word::literal(&format!("{}/{name}", target.text())));
                    }
                }
            }
        } else if name == "cd" {
            // Whatever comes after it may look around there.
            operands.iter().for_each(|word| self.read(word));
        } else if SPEAKS.contains(&name) {
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
                        self.unsure("where the backup goes is not certain".to_owned());
                    }
                    for suffix in call.in_place.iter().filter(|suffix| !suffix.is_empty()) {
                        call.files
                            .iter()
                            .for_each(|file| self.write(&Word::literal(&format!("{file}{suffix}"))));
                    }
                }
                None => self.unsure("the sed script is not known to only print".to_owned()),
            }
        } else if let Some(nature) = nature(name) {
            self.reader(command, nature, &operands);
            // `git show HEAD:path` reads a file, if an older one.
            let named = operands.iter().filter_map(|word| word.text().split_once(':'));
            for (_, path) in named.filter(|(_, path)| name == "git" && !path.is_empty()) {
                self.read(&Word::literal(path));
            }
            if LOOKS_AROUND.contains(&name) || name == "git" {
                match &self.at {
                    Some(at) if self.out.reads.contains(&**at) => {}
                    Some(at) => drop(self.out.reads.insert(at.to_path_buf())),
                    None => self.unsure(Doubt::Folder.to_string()),
                }
            }
        } else if !wrap::is_wrapper(name) || wrap::is_runner(name) {
            self.unsure(format!("what `{name}` touches is not known"));
        }
    }

    fn reader(&mut self, command: &Command, nature: &Nature, operands: &[&Word]) {
        let name = command.name();
        operands.iter().for_each(|word| self.read(word));
        // `--file=x` names a file, too.
        let values = command
            .args()
            .filter_map(|arg| arg.strip_prefix("--")?.split_once('='))
            .map(|(_, value)| Word::literal(value));
        values.for_each(|word| self.read(&word));
        if let Some(why) = nature.objection(command) {
            let mut args = command.argv.iter().skip(1);
            while let Some(arg) = args.next() {
                if WRITES_TO.find([arg.text()].into_iter()).is_some() {
                    args.clone().next().into_iter().for_each(|target| self.write(target));
                }
            }
            if name == "dd" {
                let targets = command.args().filter_map(|arg| arg.strip_prefix("of="));
                targets.map(Word::literal).for_each(|target| self.write(&target));
            } else {
                self.unsure(why);
            }
        }
    }

    fn hosts(&mut self, command: &Command, operands: &[&Word]) {
        for text in command.args().filter(|text| text.contains(':')) {
            if let Some((_, rest)) = text.split_once("://") {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                self.host(authority.rsplit('@').next().unwrap_or_default());
            }
        }
        match command.name() {
            "ssh" | "scp" | "sftp" | "rsync" | "git" | "mosh" => {
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
                // Which of the words is one depends on options that are not known here.
                self.unsure(format!("`{}` talks to other machines", command.name()));
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
