//! What must not reach the library that reads PDFs: streams that unpack to more than there is memory for,
//! and structures that it would follow until the stack or the patience is gone.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;

use flate2::read::ZlibDecoder;
use pdf_extract::content::Content;
use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

use super::Problem;

/// The largest part of a document, unpacked.
const MAX_UNPACKED: u64 = 64 * 1024 * 1024;
/// Deflate makes nothing smaller than this.
const MAX_RATIO: u64 = 1032;
/// Longer streams in the other, older packing are not unpacked.
const MAX_LZW: usize = 128 * 1024;
/// How deep the tree of pages and drawings within drawings may be.
const MAX_DEPTH: usize = 50;
/// How many operations a page may be, drawings within drawings counted as often as they are drawn.
const MAX_STEPS: u64 = 3_000_000;

fn bomb() -> Problem {
    Problem::Bomb((MAX_UNPACKED / 1024 / 1024) as usize)
}

/// Looks at what is unpacked already when a document is opened: all of it together has a limit.
pub(super) fn check_packed_objects(bytes: &[u8]) -> Result<(), Problem> {
    let mut left = MAX_UNPACKED;
    for at in memchr::memmem::find_iter(bytes, b"stream") {
        if bytes[..at].ends_with(b"end") {
            continue;
        }
        let start = at + b"stream".len();
        let before = &bytes[at.saturating_sub(4096)..at];
        let dictionary = memchr::memmem::rfind(before, b" obj").map_or(before, |from| &before[from..]);
        // A name may be written with its letters as numbers, so what has any is looked at, too.
        let is_opened = [&b"/ObjStm"[..], b"/XRef", b"#"]
            .iter()
            .any(|name| memchr::memmem::find(dictionary, name).is_some());
        if !is_opened {
            continue;
        }
        let packings = memchr::memmem::find_iter(dictionary, b"Decode").count();
        if packings > 3 || memchr::memmem::find(dictionary, b"LZWDecode").is_some() {
            return Err(bomb());
        }
        let data = &bytes[start..];
        let data = data.strip_prefix(b"\r").unwrap_or(data);
        let length = unpacked(data.strip_prefix(b"\n").unwrap_or(data), left);
        left = left.checked_sub(length).ok_or_else(bomb)?;
    }
    Ok(())
}

/// How long a stream is unpacked, up to one more than the most.
fn unpacked(packed: &[u8], most: u64) -> u64 {
    let mut unpacked = ZlibDecoder::new(packed).take(most + 1);
    // A stream that cannot be unpacked to its end is the library's matter.
    let mut chunk = vec![0; 64 * 1024];
    let mut length = 0;
    while let Ok(read @ 1..) = unpacked.read(&mut chunk) {
        length += read as u64;
    }
    length
}

fn check_unpacked(packed: &[u8]) -> Result<(), Problem> {
    if packed.len() as u64 * MAX_RATIO <= MAX_UNPACKED || unpacked(packed, MAX_UNPACKED) <= MAX_UNPACKED {
        return Ok(());
    }
    Err(bomb())
}

/// Looks at all streams. Pictures are emptied: they have no text, and the library would read them as drawings.
pub(super) fn check_streams(document: &mut Document) -> Result<(), Problem> {
    for object in document.objects.values_mut() {
        let Object::Stream(stream) = object else { continue };
        if stream.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Image") {
            stream.content = Vec::new();
            stream.dict.remove(b"Filter");
            continue;
        }
        let Ok(filters) = stream.filters() else { continue };
        let packings = filters.iter().filter(|name| matches!(**name, b"FlateDecode" | b"LZWDecode")).count();
        let old = filters.contains(&&b"LZWDecode"[..]);
        if packings > 1 || (old && stream.content.len() > MAX_LZW) {
            return Err(bomb());
        }
        if packings == 1 && !old {
            check_unpacked(&stream.content)?;
        }
    }
    Ok(())
}

/// Looks at what a page inherits and draws, as the library would.
pub(super) fn check_page(document: &Document, page: ObjectId) -> Result<(), String> {
    let dictionary = document.get_dictionary(page).map_err(|error| error.to_string())?;
    let resources = inherited(document, dictionary)?;
    let empty = Dictionary::new();
    let content = document.get_page_content(page).map_err(|error| error.to_string())?;
    let mut drawn = Drawn { document, known: HashMap::new(), within: HashSet::new() };
    let steps = drawn.steps(&content, resources.unwrap_or(&empty), 0)?;
    if steps > MAX_STEPS { Err("it is too much to draw".to_owned()) } else { Ok(()) }
}

/// The resources of a page or of the nearest folder of pages above it.
fn inherited<'a>(document: &'a Document, page: &'a Dictionary) -> Result<Option<&'a Dictionary>, String> {
    let mut found = None;
    let mut at = page;
    for _ in 0..MAX_DEPTH {
        if found.is_none() {
            found = dictionary_in(document, at, b"Resources");
        }
        match at.get(b"Parent").and_then(Object::as_reference).and_then(|id| document.get_dictionary(id)) {
            Ok(parent) => at = parent,
            Err(_) => return Ok(found),
        }
    }
    Err("its tree of pages leads in circles".to_owned())
}

fn dictionary_in<'a>(document: &'a Document, within: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    document.dereference(within.get(key).ok()?).ok()?.1.as_dict().ok()
}

/// How much there is to draw, drawings within drawings included.
struct Drawn<'a> {
    document: &'a Document,
    /// What is known already, by the drawing and where its names come from.
    known: HashMap<(*const Stream, *const Dictionary), u64>,
    within: HashSet<*const Stream>,
}

impl<'a> Drawn<'a> {
    fn steps(&mut self, content: &[u8], resources: &'a Dictionary, depth: usize) -> Result<u64, String> {
        let drawings = dictionary_in(self.document, resources, b"XObject");
        let operations = match Content::decode(content) {
            Ok(content) => content.operations,
            // The library will say what is wrong.
            Err(_) => return Ok(0),
        };
        let mut steps = operations.len() as u64;
        for operation in operations.iter().filter(|operation| operation.operator == "Do") {
            let name = operation.operands.first().and_then(|name| name.as_name().ok());
            let stream = name
                .zip(drawings)
                .and_then(|(name, drawings)| drawings.get(name).ok())
                .and_then(|object| self.document.dereference(object).ok())
                .and_then(|(_, object)| object.as_stream().ok());
            if let Some(stream) = stream {
                steps = steps.saturating_add(self.drawing(stream, resources, depth + 1)?);
            }
            if steps > MAX_STEPS {
                break;
            }
        }
        Ok(steps)
    }

    fn drawing(&mut self, stream: &'a Stream, outer: &'a Dictionary, depth: usize) -> Result<u64, String> {
        let resources = dictionary_in(self.document, &stream.dict, b"Resources").unwrap_or(outer);
        let key = (std::ptr::from_ref(stream), std::ptr::from_ref(resources));
        if let Some(steps) = self.known.get(&key) {
            return Ok(*steps);
        }
        if depth > MAX_DEPTH || !self.within.insert(key.0) {
            return Err("it draws itself within itself".to_owned());
        }
        let content = stream.decompressed_content().unwrap_or_else(|_| stream.content.clone());
        let steps = self.steps(&content, resources, depth)?;
        self.within.remove(&key.0);
        self.known.insert(key, steps);
        Ok(steps)
    }
}
