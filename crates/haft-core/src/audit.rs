//! The audit log: one line per decision about a call, in an append-only file. Each line holds the hash of the line before
//! it (a hash chain), so that no line can be changed, removed or inserted unnoticed. Decisions about calls that needed no
//! approval are written in batches, all others at once. A full file is rotated, and the oldest file is dropped.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use haft_sandbox::{Hash, OpenStoreFile, ReusableLock, Store};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The current file.
const FILE: &str = "audit.jsonl";
/// Number and hash of the last line, which shows whether lines are missing at the end.
const HEAD: &str = "audit.head";
/// The previous file, after a rotation.
const OLDER: &str = "audit.older.jsonl";
/// Number and hash of the last line that a rotation has dropped: the chain starts after it.
const DROPPED: &str = "audit.gone";
/// A file larger than this is rotated.
const MAX_SIZE: u64 = 32 << 20;
/// The most decisions that wait to be written.
const MAX_BATCH: usize = 256;
/// Longer texts in the arguments are cut.
const MAX_TEXT: usize = 16 << 10;

/// The audit log of an engine: see [`EngineBuilder::audit`](crate::EngineBuilder::audit).
#[derive(Debug)]
pub struct Audit {
    store: Store,
    max_size: u64,
    writer: Mutex<Writer>,
}

/// When the log writes an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Before the call runs.
    Now,
    /// With a later batch.
    Batched,
}

/// The entries still to be written, and the open files.
#[derive(Debug)]
struct Writer {
    pending: Vec<AuditEntry>,
    lock: ReusableLock,
    /// Kept open, since opening them takes longer than writing a line.
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    lines: OpenStoreFile,
    head: OpenStoreFile,
}

/// A decision about a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When it was decided, in milliseconds since 1970.
    pub at: u64,
    /// The id of the session.
    pub session: String,
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments; long texts are cut.
    pub input: Value,
    /// The decision.
    pub decision: AuditOutcome,
    /// What decided, as text: a rule, the mode, the user or a reason.
    pub by: String,
}

/// Whether a call was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// The call was allowed.
    Allowed,
    /// The call was denied.
    Denied,
}

/// A line of the audit log: a decision with its position in the hash chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditLine {
    /// The line number, counted from 1.
    pub number: u64,
    /// The decision.
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// The hash of the line before this one.
    pub before: String,
    /// The hash of this line.
    pub hash: String,
}

/// Whether the hash chain of the audit log is intact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Every line follows from the one before it.
    Intact,
    /// The first line that does not follow from the one before it, and why.
    Broken(u64, String),
}

impl Audit {
    /// An audit log in the files of a store.
    pub fn new(store: Store) -> Self {
        let writer = Writer { pending: Vec::new(), lock: store.latch("audit.lock"), files: None };
        Self { store, max_size: MAX_SIZE, writer: Mutex::new(writer) }
    }

    /// Adds an entry. With [`Flush::Now`] it is in the file when this returns.
    pub(crate) fn record(&self, entry: AuditEntry, flush: Flush) -> io::Result<()> {
        let mut writer = self.writer.lock();
        writer.pending.push(entry);
        if flush == Flush::Now || writer.pending.len() >= MAX_BATCH {
            self.write(&mut writer)
        } else {
            Ok(())
        }
    }

    /// Writes all pending entries.
    pub fn flush(&self) -> io::Result<()> {
        self.write(&mut self.writer.lock())
    }

    fn write(&self, writer: &mut Writer) -> io::Result<()> {
        if writer.pending.is_empty() {
            return Ok(());
        }
        let _lock = writer.lock.lock()?;
        let open = match writer.files.take() {
            Some(files) => files.end(&self.store, self.max_size)?.map(|end| (files, end)),
            None => None,
        };
        let (files, end) = match open {
            Some(open) => open,
            None => self.open()?,
        };
        let (mut number, mut before) = files.last()?;
        let mut lines = Vec::new();
        for decided in writer.pending.drain(..) {
            number += 1;
            let hash = hash(number, &decided, &before)?;
            let line = AuditLine { number, entry: decided, before, hash };
            serde_json::to_writer(&mut lines, &line)?;
            lines.push(b'\n');
            before = line.hash;
        }
        let name_file = |file: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("`{file}`: {error}"))
        };
        files.lines.file.write_all_at(&lines, end).map_err(name_file(FILE))?;
        let head = format!("{number} {before}");
        files.head.file.write_all_at(head.as_bytes(), 0).map_err(name_file(HEAD))?;
        writer.files = Some(files);
        Ok(())
    }

    /// Opens the files, and returns the offset of the next line.
    fn open(&self) -> io::Result<(Files, u64)> {
        if self.store.size(FILE)? > self.max_size {
            self.rotate()?;
        }
        let files = Files { lines: self.store.keep_open(FILE)?, head: self.store.keep_open(HEAD)? };
        let end = files.lines.file.metadata()?.len();
        Ok((files, end))
    }

    /// Renames the full file over the previous one. Records first up to which line that drops, so that verification still
    /// notices any other missing line.
    fn rotate(&self) -> io::Result<()> {
        let mut first = Vec::new();
        BufReader::new(self.store.open_log(FILE)?).read_until(b'\n', &mut first)?;
        if let Ok(first) = serde_json::from_slice::<AuditLine>(&first)
            && first.number > 1
        {
            let dropped = format!("{} {}", first.number - 1, first.before);
            self.store.write(DROPPED, dropped.as_bytes())?;
        }
        self.store.rename(FILE, OLDER)
    }

    /// Reads all lines that are not dropped, and verifies the hash chain.
    pub fn read(store: &Store) -> io::Result<(Vec<AuditLine>, Chain)> {
        let dropped = read_head(store, DROPPED)?;
        let mut bytes = store.read(OLDER)?.unwrap_or_default();
        bytes.extend(store.read(FILE)?.unwrap_or_default());
        let mut lines: Vec<AuditLine> = Vec::new();
        let mut chain = Chain::Intact;
        let mut broken = |at: u64, why: &str| {
            if chain == Chain::Intact {
                chain = Chain::Broken(at, why.to_owned());
            }
        };
        for text in bytes.split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
            let at = lines.last().map_or(dropped.0, |line: &AuditLine| line.number) + 1;
            let Ok(line) = serde_json::from_slice::<AuditLine>(text) else {
                broken(at, "it cannot be read");
                continue;
            };
            if line.number <= dropped.0 && lines.is_empty() {
                continue;
            }
            let before = lines.last().map_or(dropped.1.as_str(), |line| line.hash.as_str());
            if line.number != at || line.before != before {
                broken(at, "lines were left out, put in or exchanged");
            } else if hash(line.number, &line.entry, &line.before)? != line.hash {
                broken(at, "it was changed");
            }
            lines.push(line);
        }
        let end = lines.last().map_or(dropped, |line| (line.number, line.hash.clone()));
        if !read_head(store, HEAD).is_ok_and(|head| head == end) {
            broken(end.0 + 1, "lines are missing at the end");
        }
        Ok((lines, chain))
    }
}

impl Files {
    /// The offset of the next line; `None` if the files were replaced or are full, and must be opened again.
    fn end(&self, store: &Store, max_size: u64) -> io::Result<Option<u64>> {
        let has_head = store.length(HEAD, &self.head)?.is_some();
        Ok(store.length(FILE, &self.lines)?.filter(|end| *end <= max_size && has_head))
    }

    /// Number and hash of the last line. If the head is empty, the chain starts again at 1, which verification reports.
    fn last(&self) -> io::Result<(u64, String)> {
        let mut head = [0; 128];
        match self.head.file.read_at(&mut head, 0)? {
            0 => Ok((0, String::new())),
            read => parse_head(HEAD, &head[..read]),
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// Number and hash of a line, as a file such as the head stores them.
fn read_head(store: &Store, file: &str) -> io::Result<(u64, String)> {
    match store.read(file)? {
        Some(head) => parse_head(file, &head),
        None => Ok((0, String::new())),
    }
}

fn parse_head(file: &str, head: &[u8]) -> io::Result<(u64, String)> {
    parse_number_and_hash(head).ok_or_else(|| io::Error::other(format!("`{file}` is damaged")))
}

fn parse_number_and_hash(head: &[u8]) -> Option<(u64, String)> {
    let (number, hash) = std::str::from_utf8(head).ok()?.split_once(' ')?;
    hash.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some(())?;
    Some((number.parse().ok()?, hash.to_owned()))
}

fn hash(number: u64, decided: &AuditEntry, before: &str) -> io::Result<String> {
    let bytes = serde_json::to_vec(&(number, decided, before))?;
    Ok(Hash::of(&bytes).to_string())
}

impl AuditEntry {
    /// An entry with the current time.
    pub(crate) fn now(cx: &crate::Context, input: &Value, decision: AuditOutcome, by: String) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            at: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            session: cx.session().id().to_string(),
            call: cx.call().to_string(),
            tool: cx.tool().to_string(),
            input: truncated(input),
            decision,
            by,
        }
    }
}

/// A copy of a value with long texts cut.
fn truncated(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > MAX_TEXT => {
            let kept = &text[..text.floor_char_boundary(MAX_TEXT)];
            Value::String(format!("{kept}… ({} bytes)", text.len()))
        }
        Value::Array(items) => items.iter().map(truncated).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), truncated(value))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(call: &str) -> AuditEntry {
        AuditEntry {
            at: 1,
            session: "s".into(),
            call: call.into(),
            tool: "Read".into(),
            input: serde_json::json!({"path": "a", "n": 1.5}),
            decision: AuditOutcome::Allowed,
            by: "it is safe".into(),
        }
    }

    fn three() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("state"));
        let audit = Audit::new(store.clone());
        audit.record(decided("1"), Flush::Batched).unwrap();
        audit.record(decided("2"), Flush::Now).unwrap();
        // Another process continues the chain.
        Audit::new(store.clone()).record(decided("3"), Flush::Batched).unwrap();
        (folder, store)
    }

    #[test]
    fn lines_follow_one_another_across_processes() {
        let (_folder, store) = three();
        let (lines, chain) = Audit::read(&store).unwrap();
        assert_eq!(chain, Chain::Intact);
        let calls: Vec<&str> = lines.iter().map(|line| line.entry.call.as_str()).collect();
        assert_eq!(calls, ["1", "2", "3"]);
    }

    #[test]
    fn a_full_file_is_rotated_and_the_chain_goes_on() {
        let (_folder, store) = three();
        let numbers = || {
            let (lines, chain) = Audit::read(&store).unwrap();
            assert_eq!(chain, Chain::Intact);
            lines.iter().map(|line| line.number).collect::<Vec<_>>()
        };
        let mut audit = Audit::new(store.clone());
        audit.max_size = 1;
        audit.record(decided("4"), Flush::Now).unwrap();
        assert_eq!(numbers(), [1, 2, 3, 4]);
        audit.record(decided("5"), Flush::Now).unwrap();
        audit.record(decided("6"), Flush::Now).unwrap();
        assert_eq!(numbers(), [5, 6]);
        // A process died after the first step of the next rotation.
        store.write(DROPPED, format!("5 {}", Audit::read(&store).unwrap().0[0].hash).as_bytes()).unwrap();
        assert_eq!(numbers(), [6]);
        store.remove(OLDER).unwrap();
        assert_eq!(numbers(), [6]);
        store.remove(DROPPED).unwrap();
        assert!(matches!(Audit::read(&store).unwrap().1, Chain::Broken(1, _)));
    }

    #[test]
    fn logging_continues_after_files_are_removed() {
        for gone in [FILE, HEAD] {
            let ways: [fn(&Store, &str) -> io::Result<()>; 2] =
                [|store, name| store.remove(name), |store, name| store.rename(name, "x")];
            for go in ways {
                let (_folder, store) = three();
                let audit = Audit::new(store.clone());
                audit.record(decided("4"), Flush::Now).unwrap();
                go(&store, gone).unwrap();
                audit.record(decided("5"), Flush::Now).unwrap();
                Audit::new(store.clone()).record(decided("6"), Flush::Now).unwrap();
                let (lines, chain) = Audit::read(&store).unwrap();
                let calls: Vec<&str> = lines.iter().map(|line| line.entry.call.as_str()).collect();
                assert!(calls.ends_with(&["5", "6"]), "{gone}: {calls:?}");
                assert!(matches!(chain, Chain::Broken(..)), "{gone}");
            }
        }
        // A process that died after it had made its files.
        let (_folder, store) = three();
        store.write(HEAD, b"").unwrap();
        Audit::new(store).record(decided("4"), Flush::Now).unwrap();
    }

    #[test]
    fn every_tampering_with_the_file_is_detected() {
        let change = |how: fn(Vec<String>) -> Vec<String>| {
            let (_folder, store) = three();
            let text = String::from_utf8(store.read(FILE).unwrap().unwrap()).unwrap();
            let lines = how(text.lines().map(str::to_owned).collect());
            store.write(FILE, (lines.join("\n") + "\n").as_bytes()).unwrap();
            Audit::read(&store).unwrap().1
        };
        assert_eq!(change(|lines| lines), Chain::Intact);
        let broken_at = |chain| match chain {
            Chain::Broken(at, _) => at,
            Chain::Intact => 0,
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
