//! Checks before a document reaches the PDF library: rejects decompression bombs, and structures that the library would
//! follow until the stack overflows or the time limit is reached. The checks follow the library's own order of work and
//! must not be weaker than its parser.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;

use flate2::read::ZlibDecoder;
use pdf_extract::content::Content;
use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

use super::PdfProblem;

/// Largest stream after decompression, in bytes.
const MAX_UNPACKED: u64 = 64 * 1024 * 1024;
/// Highest compression ratio of Deflate. A stream that is small enough for it needs no trial decompression.
const MAX_RATIO: u64 = 1032;
/// Longest stream in LZW, the older compression, for which there is no trial decompression.
const MAX_LZW: usize = 128 * 1024;
/// Deepest page tree, and deepest nesting of drawings (form XObjects).
const MAX_DEPTH: usize = 50;
/// Largest number of operations of a page; nested drawings count as often as they are drawn.
const MAX_STEPS: u64 = 3_000_000;

fn bomb() -> PdfProblem {
    PdfProblem::Bomb((MAX_UNPACKED / 1024 / 1024) as usize)
}

/// Checks the streams that the library decompresses as soon as it opens a document, object and cross-reference streams.
/// Their sizes count together, because the library keeps all of them in memory.
pub(super) fn check_packed_objects(bytes: &[u8]) -> Result<(), PdfProblem> {
    let mut left = MAX_UNPACKED;
    for at in memchr::memmem::find_iter(bytes, b"stream") {
        if bytes[..at].ends_with(b"end") {
            continue;
        }
        let start = at + b"stream".len();
        let before = &bytes[at.saturating_sub(4096)..at];
        let dictionary = memchr::memmem::rfind(before, b" obj").map_or(before, |from| &before[from..]);
        // A name can spell its letters as `#` and a code, so a dictionary with any `#` may hide one of these names.
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

/// Length of a stream after decompression; stops at `max + 1`.
fn unpacked(packed: &[u8], max: u64) -> u64 {
    let mut unpacked = ZlibDecoder::new(packed).take(max + 1);
    // An error in the stream ends the count: reporting it is up to the library.
    let mut chunk = vec![0; 64 * 1024];
    let mut length = 0;
    while let Ok(read @ 1..) = unpacked.read(&mut chunk) {
        length += read as u64;
    }
    length
}

fn check_unpacked(packed: &[u8]) -> Result<(), PdfProblem> {
    if packed.len() as u64 * MAX_RATIO <= MAX_UNPACKED || unpacked(packed, MAX_UNPACKED) <= MAX_UNPACKED {
        return Ok(());
    }
    Err(bomb())
}

/// Checks all streams. Empties images: they have no text, and the library would parse them as drawings.
pub(super) fn check_streams(document: &mut Document) -> Result<(), PdfProblem> {
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

/// Checks what a page inherits and draws, in the way in which the library would follow it.
pub(super) fn check_page(document: &Document, page: ObjectId) -> Result<(), String> {
    let dictionary = document.get_dictionary(page).map_err(|error| error.to_string())?;
    let resources = inherited(document, dictionary)?;
    let empty = Dictionary::new();
    let content = document.get_page_content(page).map_err(|error| error.to_string())?;
    let mut cost = DrawingCost { document, cache: HashMap::new(), within: HashSet::new() };
    let steps = cost.steps(&content, resources.unwrap_or(&empty), 0)?;
    if steps > MAX_STEPS { Err("it is too much to draw".to_owned()) } else { Ok(()) }
}

/// Resources of a page, or those of its nearest ancestor in the page tree.
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

/// Counts the operations of a page including its nested drawings, without drawing them.
struct DrawingCost<'a> {
    document: &'a Document,
    /// Results so far, by drawing and by the dictionary in which it looks up names. Without the cache, drawings that nest
    /// would cost exponential time here, too.
    cache: HashMap<(*const Stream, *const Dictionary), u64>,
    /// The chain of drawings being counted, to detect one that contains itself.
    within: HashSet<*const Stream>,
}

impl<'a> DrawingCost<'a> {
    fn steps(&mut self, content: &[u8], resources: &'a Dictionary, depth: usize) -> Result<u64, String> {
        let drawings = dictionary_in(self.document, resources, b"XObject");
        let operations = match Content::decode(content) {
            Ok(content) => content.operations,
            // The library reports what is wrong with it.
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
        if let Some(steps) = self.cache.get(&key) {
            return Ok(*steps);
        }
        if depth > MAX_DEPTH || !self.within.insert(key.0) {
            return Err("it draws itself within itself".to_owned());
        }
        let content = stream.decompressed_content().unwrap_or_else(|_| stream.content.clone());
        let steps = self.steps(&content, resources, depth)?;
        self.within.remove(&key.0);
        self.cache.insert(key, steps);
        Ok(steps)
    }
}
