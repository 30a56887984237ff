//! What was decided about every call, and by whom: one line each, in a file that is only added to. Each line holds the
//! hash of the one before it, so that none can be changed, left out or put in unseen. What asked nobody is written
//! with others; everything else at once. When the file is full it is put aside, and the one that was put aside before
//! goes.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use haft_sandbox::{Hash, KeptOpen, Latch, Store};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The lines.
const FILE: &str = "audit.jsonl";
/// The last of them: its number and hash, so that it is seen when lines are missing at the end.
const HEAD: &str = "audit.head";
/// The lines before those, when there were too many for one file.
const OLDER: &str = "audit.older.jsonl";
/// The last line that is gone: its number and hash.
const GONE: &str = "audit.gone";
/// A longer file is put aside.
const FULL: u64 = 32 << 20;
/// So many decisions are written at once, at most.
const AT_ONCE: usize = 256;
/// A longer text in the arguments is cut.
const LONGEST_TEXT: usize = 16 << 10;

/// Where decisions are written down.
#[derive(Debug)]
pub struct Audit {
    store: Store,
    full: u64,
    writing: Mutex<Writing>,
}

/// What is still to be written, and where.
#[derive(Debug)]
struct Writing {
    waiting: Vec<Decided>,
    lock: Latch,
    /// Kept open: to open them for every line would take longer than to write it.
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    lines: KeptOpen,
    head: KeptOpen,
}

/// A decision, before it has its place in the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// In which session.
    pub session: String,
    /// About which call.
    pub call: String,
    /// Of which tool.
    pub tool: String,
    /// Its arguments; long texts are cut.
    pub input: Value,
    /// What: `allowed` or `denied`.
    pub decision: Ruled,
    /// By what or whom, in words.
    pub by: String,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruled {
    /// It may happen.
    Allowed,
    /// It may not.
    Denied,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Which one, from 1 on.
    pub number: u64,
    /// What was decided.
    #[serde(flatten)]
    pub decided: Decided,
    /// The hash of the line before it.
    pub before: String,
    /// The hash of this one.
    pub hash: String,
}

/// What the file is found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Every line follows from the one before it.
    Whole,
    /// From this line on it does not, and why.
    Broken(u64, String),
}

impl Audit {
    /// Decisions are written to a store.
    pub fn new(store: Store) -> Self {
        let writing = Writing { waiting: Vec::new(), lock: store.latch("audit.lock"), files: None };
        Self { store, full: FULL, writing: Mutex::new(writing) }
    }

    /// Writes a decision down. One that is `urgent` is in the file when this returns.
    pub(crate) fn record(&self, decided: Decided, urgent: bool) -> io::Result<()> {
        let mut writing = self.writing.lock();
        writing.waiting.push(decided);
        if urgent || writing.waiting.len() >= AT_ONCE { self.write(&mut writing) } else { Ok(()) }
    }

    /// Writes down what waits to be.
    pub fn flush(&self) -> io::Result<()> {
        self.write(&mut self.writing.lock())
    }

    fn write(&self, writing: &mut Writing) -> io::Result<()> {
        if writing.waiting.is_empty() {
            return Ok(());
        }
        let _lock = writing.lock.lock()?;
        let open = match writing.files.take() {
            Some(files) => files.end(&self.store, self.full)?.map(|end| (files, end)),
            None => None,
        };
        let (files, end) = match open {
            Some(open) => open,
            None => self.open()?,
        };
        let (mut number, mut before) = files.last()?;
        let mut lines = Vec::new();
        for decided in writing.waiting.drain(..) {
            number += 1;
            let hash = hash(number, &decided, &before)?;
            let line = AuditLine { number, decided, before, hash };
            serde_json::to_writer(&mut lines, &line)?;
            lines.push(b'\n');
            before = line.hash;
        }
        let naming = |file: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("`{file}`: {error}"))
        };
        files.lines.file.write_all_at(&lines, end).map_err(naming(FILE))?;
        let head = format!("{number} {before}");
        files.head.file.write_all_at(head.as_bytes(), 0).map_err(naming(HEAD))?;
        writing.files = Some(files);
        Ok(())
    }

    /// Opens the files, and gives where the next line goes.
    fn open(&self) -> io::Result<(Files, u64)> {
        if self.store.size(FILE)? > self.full {
            self.put_aside()?;
        }
        let files = Files { lines: self.store.keep_open(FILE)?, head: self.store.keep_open(HEAD)? };
        let end = files.lines.file.metadata()?.len();
        Ok((files, end))
    }

    /// Makes room for a new file. What goes is written down first, so that nothing else can go unseen.
    fn put_aside(&self) -> io::Result<()> {
        let mut first = Vec::new();
        BufReader::new(self.store.open_log(FILE)?).read_until(b'\n', &mut first)?;
        if let Ok(first) = serde_json::from_slice::<AuditLine>(&first)
            && first.number > 1
        {
            let gone = format!("{} {}", first.number - 1, first.before);
            self.store.write(GONE, gone.as_bytes())?;
        }
        self.store.rename(FILE, OLDER)
    }

    /// Every line that is kept, and whether the chain holds.
    pub fn read(store: &Store) -> io::Result<(Vec<AuditLine>, Chain)> {
        let gone = last(store, GONE)?;
        let mut bytes = store.read(OLDER)?.unwrap_or_default();
        bytes.extend(store.read(FILE)?.unwrap_or_default());
        let mut lines: Vec<AuditLine> = Vec::new();
        let mut chain = Chain::Whole;
        let mut broken = |at: u64, why: &str| {
            if chain == Chain::Whole {
                chain = Chain::Broken(at, why.to_owned());
            }
        };
        for text in bytes.split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
            let at = lines.last().map_or(gone.0, |line: &AuditLine| line.number) + 1;
            let Ok(line) = serde_json::from_slice::<AuditLine>(text) else {
                broken(at, "it cannot be read");
                continue;
            };
            if line.number <= gone.0 && lines.is_empty() {
                continue;
            }
            let before = lines.last().map_or(gone.1.as_str(), |line| line.hash.as_str());
            if line.number != at || line.before != before {
                broken(at, "lines were left out, put in or exchanged");
            } else if hash(line.number, &line.decided, &line.before)? != line.hash {
                broken(at, "it was changed");
            }
            lines.push(line);
        }
        let end = lines.last().map_or(gone, |line| (line.number, line.hash.clone()));
        if !last(store, HEAD).is_ok_and(|head| head == end) {
            broken(end.0 + 1, "lines are missing at the end");
        }
        Ok((lines, chain))
    }
}

impl Files {
    /// Where the next line goes, unless it goes to another file.
    fn end(&self, store: &Store, full: u64) -> io::Result<Option<u64>> {
        let has_head = store.length(HEAD, &self.head)?.is_some();
        Ok(store.length(FILE, &self.lines)?.filter(|end| *end <= full && has_head))
    }

    /// The number and hash of the last line. Where nothing says so, the chain begins anew, which shows in it.
    fn last(&self) -> io::Result<(u64, String)> {
        let mut head = [0; 128];
        match self.head.file.read_at(&mut head, 0)? {
            0 => Ok((0, String::new())),
            read => named(HEAD, &head[..read]),
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// The number and hash of the line that a file names.
fn last(store: &Store, file: &str) -> io::Result<(u64, String)> {
    match store.read(file)? {
        Some(head) => named(file, &head),
        None => Ok((0, String::new())),
    }
}

fn named(file: &str, head: &[u8]) -> io::Result<(u64, String)> {
    parse(head).ok_or_else(|| io::Error::other(format!("`{file}` is damaged")))
}

fn parse(head: &[u8]) -> Option<(u64, String)> {
    let (number, hash) = std::str::from_utf8(head).ok()?.split_once(' ')?;
    hash.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some(())?;
    Some((number.parse().ok()?, hash.to_owned()))
}

fn hash(number: u64, decided: &Decided, before: &str) -> io::Result<String> {
    let said = serde_json::to_vec(&(number, decided, before))?;
    Ok(Hash::of(&said).to_string())
}

impl Decided {
    /// A decision that is made now.
    pub(crate) fn now(cx: &crate::Context, input: &Value, decision: Ruled, by: String) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            at: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            session: cx.session().id().to_string(),
            call: cx.call().to_string(),
            tool: cx.tool().to_string(),
            input: shortened(input),
            decision,
            by,
        }
    }
}

/// The same with long texts cut.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONGEST_TEXT => {
            let kept = &text[..text.floor_char_boundary(LONGEST_TEXT)];
            Value::String(format!("{kept}… ({} bytes)", text.len()))
        }
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), shortened(value))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(call: &str) -> Decided {
        Decided {
            at: 1,
            session: "s".into(),
            call: call.into(),
            tool: "Read".into(),
            input: serde_json::json!({"path": "a", "n": 1.5}),
            decision: Ruled::Allowed,
            by: "it is safe".into(),
        }
    }

    fn three() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("state"));
        let audit = Audit::new(store.clone());
        audit.record(decided("1"), false).unwrap();
        audit.record(decided("2"), true).unwrap();
        // Another process goes on where this one stopped.
        Audit::new(store.clone()).record(decided("3"), false).unwrap();
        (folder, store)
    }

    #[test]
    fn lines_follow_one_another_across_processes() {
        let (_folder, store) = three();
        let (lines, chain) = Audit::read(&store).unwrap();
        assert_eq!(chain, Chain::Whole);
        let calls: Vec<&str> = lines.iter().map(|line| line.decided.call.as_str()).collect();
        assert_eq!(calls, ["1", "2", "3"]);
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_chain_goes_on() {
        let (_folder, store) = three();
        let numbers = || {
            let (lines, chain) = Audit::read(&store).unwrap();
            assert_eq!(chain, Chain::Whole);
            lines.iter().map(|line| line.number).collect::<Vec<_>>()
        };
        let mut audit = Audit::new(store.clone());
        audit.full = 1;
        audit.record(decided("4"), true).unwrap();
        assert_eq!(numbers(), [1, 2, 3, 4]);
        audit.record(decided("5"), true).unwrap();
        audit.record(decided("6"), true).unwrap();
        assert_eq!(numbers(), [5, 6]);
        // It was stopped after the first step of the next time.
        store.write(GONE, format!("5 {}", Audit::read(&store).unwrap().0[0].hash).as_bytes()).unwrap();
        assert_eq!(numbers(), [6]);
        store.remove(OLDER).unwrap();
        assert_eq!(numbers(), [6]);
        store.remove(GONE).unwrap();
        assert!(matches!(Audit::read(&store).unwrap().1, Chain::Broken(1, _)));
    }

    #[test]
    fn decisions_go_on_where_files_of_the_audit_are_gone() {
        for gone in [FILE, HEAD] {
            let ways: [fn(&Store, &str) -> io::Result<()>; 2] =
                [|store, name| store.remove(name), |store, name| store.rename(name, "x")];
            for go in ways {
                let (_folder, store) = three();
                let audit = Audit::new(store.clone());
                audit.record(decided("4"), true).unwrap();
                go(&store, gone).unwrap();
                audit.record(decided("5"), true).unwrap();
                Audit::new(store.clone()).record(decided("6"), true).unwrap();
                let (lines, chain) = Audit::read(&store).unwrap();
                let calls: Vec<&str> = lines.iter().map(|line| line.decided.call.as_str()).collect();
                assert!(calls.ends_with(&["5", "6"]), "{gone}: {calls:?}");
                assert!(matches!(chain, Chain::Broken(..)), "{gone}");
            }
        }
        // A process that died after it had made its files.
        let (_folder, store) = three();
        store.write(HEAD, b"").unwrap();
        Audit::new(store).record(decided("4"), true).unwrap();
    }

    #[test]
    fn whatever_is_done_to_the_file_is_seen() {
        let change = |how: fn(Vec<String>) -> Vec<String>| {
            let (_folder, store) = three();
            let text = String::from_utf8(store.read(FILE).unwrap().unwrap()).unwrap();
            let lines = how(text.lines().map(str::to_owned).collect());
            store.write(FILE, (lines.join("\n") + "\n").as_bytes()).unwrap();
            Audit::read(&store).unwrap().1
        };
        assert_eq!(change(|lines| lines), Chain::Whole);
        let broken_at = |chain| match chain {
            Chain::Broken(at, _) => at,
            Chain::Whole => 0,
        };
        assert_eq!(
            broken_at(change(|mut lines| {
                lines[1] = lines[1].replace("Read", "Edit");
                lines
            })),
            2
        );
        assert_eq!(
            broken_at(change(|mut lines| {
                lines.remove(1);
                lines
            })),
            2
        );
        assert_eq!(
            broken_at(change(|mut lines| {
                lines.pop();
                lines
            })),
            3
        );
        assert_eq!(
            broken_at(change(|mut lines| {
                lines.swap(0, 1);
                lines
            })),
            1
        );
        assert_eq!(
            broken_at(change(|mut lines| {
                lines.push(lines[2].clone());
                lines
            })),
            4
        );
        assert_eq!(broken_at(change(|_| Vec::new())), 1);
    }
}
