//! The audit log: one line per decision about a call, in an append-only file. Each line holds the hash of the line before
//! it (a hash chain), so that no line can be changed, removed or inserted unnoticed. Decisions about calls that needed no
//! approval are written in batches, all others at once. A full file is rotated, and the oldest file is dropped.
//! A process that is killed leaves at most lines that the head does not name yet, and the start of a line: the next write
//! goes on after the one and removes the other.

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
/// Bytes at the end of the file in which the last line is looked for first.
const TAIL: u64 = 4 << 10;
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
        let Position { mut number, hash: mut before, end } = files.position(end)?;
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
        // From the first line on there is a head, so that one that is missing later is a sign of tampering.
        if end == 0 && files.head.file.metadata()?.len() == 0 && !self.store.has(OLDER)? {
            files.head.file.write_all_at(b"0 ", 0)?;
        }
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
        // A killed process may leave the start of a line; the head does not name it, so it was never a decision's record.
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for text in bytes[..complete].split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
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
        let end = lines.last().map_or_else(|| dropped.clone(), |line| (line.number, line.hash.clone()));
        match read_head(store, HEAD) {
            Ok(head) if head == end => {}
            // A process was killed after it had written lines and before it wrote the head: nothing is missing.
            Ok((number, hash))
                if store.has(HEAD)? && number < end.0 && is_in_chain(number, &hash, &dropped, &lines) => {}
            Ok((number, _)) if number > end.0 => {
                broken(end.0 + 1, &format!("lines are missing at the end; the last one was {number}"));
            }
            Ok(_) => broken(end.0 + 1, "the note of the last line does not belong to these lines"),
            // A process was killed before it wrote anything.
            Err(_) if end.0 == 0 && store.size(HEAD)? == 0 => {}
            Err(error) => broken(end.0 + 1, &format!("the note of the last line is damaged: {error}")),
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

    /// Where the next line goes. The head tells, unless a process was killed after it wrote lines and before it wrote the
    /// head: then the lines that follow from the head count as well, and the start of a line is removed. If the head is
    /// empty, the chain starts again at 1, which verification reports.
    fn position(&self, end: u64) -> io::Result<Position> {
        let mut head = [0; 128];
        let (number, hash) = match self.head.file.read_at(&mut head, 0)? {
            0 => return Ok(Position { number: 0, hash: String::new(), end }),
            read => parse_head(HEAD, &head[..read])?,
        };
        let tail = Tail::read(&self.lines.file, end)?;
        if tail.torn > 0 {
            self.lines.file.set_len(end - tail.torn)?;
        }
        let end = end - tail.torn;
        let Some(last) = tail.last.filter(|last| last.number > number) else {
            return Ok(Position { number, hash, end });
        };
        // Rare: a look at the whole file decides whether the lines follow from the head.
        let mut bytes = vec![0; usize::try_from(end).map_err(io::Error::other)?];
        self.lines.file.read_exact_at(&mut bytes, 0)?;
        match follows(&bytes, number, &hash)? {
            true => Ok(Position { number: last.number, hash: last.hash, end }),
            false => Ok(Position { number, hash, end }),
        }
    }
}

/// Number and hash of the last line, and the offset after it.
struct Position {
    number: u64,
    hash: String,
    end: u64,
}

/// The end of the file with the lines.
struct Tail {
    /// The last complete line, where it can be read.
    last: Option<AuditLine>,
    /// Bytes after it: the start of a line.
    torn: u64,
}

impl Tail {
    /// Reads backwards until a whole line is found.
    fn read(file: &std::fs::File, end: u64) -> io::Result<Self> {
        let mut size = end.min(TAIL);
        loop {
            let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, end - size)?;
            let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let before = bytes[..complete.saturating_sub(1)].iter().rposition(|byte| *byte == b'\n');
            if let (None, true) = (before, size < end) {
                size = end.min(size * 8);
                continue;
            }
            let line = &bytes[before.map_or(0, |at| at + 1)..complete];
            return Ok(Self {
                last: serde_json::from_slice(line).ok(),
                torn: (bytes.len() - complete) as u64,
            });
        }
    }
}

/// Whether the lines after the one with this number follow from it, one after another, to the end.
fn follows(bytes: &[u8], number: u64, head: &str) -> io::Result<bool> {
    let (mut number, mut before) = (number, head.to_owned());
    for text in bytes.split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
        let Ok(line) = serde_json::from_slice::<AuditLine>(text) else { return Ok(false) };
        if line.number <= number && before == head {
            continue;
        }
        let sound = line.number == number + 1
            && line.before == before
            && hash(line.number, &line.entry, &line.before)? == line.hash;
        if !sound {
            return Ok(false);
        }
        (number, before) = (line.number, line.hash);
    }
    Ok(true)
}

impl Drop for Audit {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// Whether a line with this number and hash is in the chain, which begins after a line that was dropped.
fn is_in_chain(number: u64, hash: &str, dropped: &(u64, String), lines: &[AuditLine]) -> bool {
    (dropped.0 == number && dropped.1 == hash)
        || lines.iter().any(|line| line.number == number && line.hash == hash)
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
    fn a_kill_between_two_writes_is_no_tampering() {
        let chain_of = |store: &Store| Audit::read(store).unwrap().1;
        let calls = |store: &Store| -> Vec<String> {
            Audit::read(store).unwrap().0.into_iter().map(|line| line.entry.call).collect()
        };
        let (_folder, store) = three();
        let head = store.read(HEAD).unwrap().unwrap();
        Audit::new(store.clone()).record(decided("4"), Flush::Now).unwrap();
        // The line was written, the head not yet.
        store.write(HEAD, &head).unwrap();
        assert_eq!(chain_of(&store), Chain::Intact);
        Audit::new(store.clone()).record(decided("5"), Flush::Now).unwrap();
        assert_eq!((chain_of(&store), calls(&store).len()), (Chain::Intact, 5));
        // Only the start of a line was written.
        let mut bytes = store.read(FILE).unwrap().unwrap();
        bytes.extend(br#"{"number":6,"at":1,"sess"#);
        store.write(FILE, &bytes).unwrap();
        assert_eq!(chain_of(&store), Chain::Intact);
        Audit::new(store.clone()).record(decided("6"), Flush::Now).unwrap();
        assert_eq!(
            (chain_of(&store), calls(&store)),
            (Chain::Intact, ["1", "2", "3", "4", "5", "6"].map(String::from).into())
        );
        // The first line of all.
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("state"));
        Audit::new(store.clone()).record(decided("1"), Flush::Now).unwrap();
        store.write(HEAD, b"0 ").unwrap();
        assert_eq!(chain_of(&store), Chain::Intact);
        Audit::new(store.clone()).record(decided("2"), Flush::Now).unwrap();
        assert_eq!((chain_of(&store), calls(&store).len()), (Chain::Intact, 2));
        // Nothing but empty files.
        store.write(FILE, b"").unwrap();
        store.write(HEAD, b"").unwrap();
        assert_eq!(chain_of(&store), Chain::Intact);
    }

    #[test]
    fn a_cut_at_the_end_is_noticed() {
        let (_folder, store) = three();
        let bytes = store.read(FILE).unwrap().unwrap();
        // Within a line that the head names, and between two lines.
        let ends: Vec<usize> =
            bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
        for cut in [ends[2] - 1, ends[2] - 20, ends[1], ends[1] - 1, 1] {
            store.write(FILE, &bytes[..cut]).unwrap();
            let (lines, chain) = Audit::read(&store).unwrap();
            assert!(
                matches!(&chain, Chain::Broken(_, why) if why.contains("missing at the end")),
                "{cut}: {chain:?}"
            );
            assert!(lines.len() < 3, "{cut}");
        }
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
