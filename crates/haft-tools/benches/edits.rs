//! What edits cost, made by calls and told beside what they may: one string of a file of 2,000 lines, one line
//! of a file of 200 MB, and the nearest place to a text that is not there.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haft::Durability;
use haft_tools::check::Checkers;
use rig::Rig;

#[path = "shared/rig.rs"]
mod rig;

/// Counts what is held, and the most that was.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on as it is; only sizes are counted.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn count(layout: Layout) {
    let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
    MOST.fetch_max(held, Ordering::Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that is held during some work, from what is held before.
fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let done = work();
    (done, MOST.load(Ordering::Relaxed) - before)
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn told(what: &str, value: f64, unit: &str, limit: f64) {
    let verdict = if value <= limit { "ok" } else { "OVER" };
    println!("{what:62} {value:8.2} {unit:2} (at most {limit}) {verdict}");
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// A number that looks random and is the same every time.
fn scattered(seed: usize) -> usize {
    let mut x = seed as u64 ^ 0x9E37_79B9_7F4A_7C15;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x ^ (x >> 31)) as usize
}

/// Lines like those of a program, most of them different.
fn program(lines: usize) -> Vec<String> {
    const WORDS: [&str; 16] = [
        "buffer", "handle", "poll", "waker", "state", "shared", "queue", "permit", "driver", "entry", "slot",
        "budget", "stream", "reader", "writer", "task",
    ];
    let word = |seed: usize| WORDS[scattered(seed) % WORDS.len()];
    let line = |n: usize| match scattered(n * 7) % 6 {
        0 => format!("        let {} = self.{}.{}({});", word(n), word(n + 1), word(n + 2), n % 97),
        1 => format!("    pub fn {}_{}(&mut self, {}: usize) -> bool {{", word(n), word(n + 3), word(n + 4)),
        2 => "    }".to_owned(),
        3 => String::new(),
        4 => format!("        if {}.is_{}() && {} > {} {{", word(n), word(n + 5), word(n + 6), n % 1000),
        _ => format!("            {}.{}({}, {});", word(n), word(n + 1), word(n + 2), n % 1013),
    };
    (0..lines).map(line).collect()
}

/// A block of the program as a model might remember it.
fn remembered(program: &[String], start: usize) -> String {
    let mut block: Vec<String> =
        program[start..start + 20].iter().map(|line| line.trim_start().to_owned()).collect();
    for at in [3, 8, 12, 17] {
        block[at] = block[at].replace("self.", "this.").replace('(', "(extra, ");
    }
    block.remove(5);
    block.insert(10, "let invented = compute_something();".to_owned());
    block.join("\n")
}

fn nearest_place() {
    let rig = Rig::new(Durability::Fast, Checkers::standard());
    let program = program(20_000);
    rig.seen("program.txt", program.join("\n").as_bytes());
    let (mut all, mut right) = (Vec::new(), 0);
    for round in 0..40 {
        let start = scattered(round) % 19_900;
        let old = remembered(&program, start);
        let mut reply = None;
        all.push(timed(|| reply = Some(rig.edit("program.txt", &old, "x"))));
        let text = reply.unwrap().full_text();
        let lines = text.lines().filter_map(|line| line.split(':').next()?.trim().parse::<usize>().ok());
        right += usize::from(lines.clone().any(|line| line.abs_diff(start + 1) <= 2));
    }
    all.sort_unstable();
    println!("{:62} {:8.2} ms", "nearest place to 20 lines among 20,000, the middle of 40", millis(all[20]));
    told("nearest place to 20 lines among 20,000, the worst of 40", millis(all[39]), "ms", 50.0);
    println!("{:62} {right:8} of 40", "  of which named right");
}

/// What a careful program does by hand: a temporary file, on disk before it is renamed, and the folder after.
fn by_hand(path: &Path, folder: &File, old: &str, new: &str) {
    let text = std::fs::read_to_string(path).unwrap().replacen(old, new, 1);
    let temp = path.with_extension("new");
    let mut file = File::create(&temp).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(temp, path).unwrap();
    folder.sync_all().unwrap();
}

fn small_file(durability: Durability, rounds: usize) -> (Duration, Duration) {
    let rig = Rig::new(durability, Checkers::standard());
    let text = program(2000).join("\n");
    let name = |round: usize| format!("name_{round:08}");
    let text = text.replacen("self.", &format!("{}.", name(0)), 1);
    rig.seen("ours.txt", text.as_bytes());
    std::fs::write(rig.path("theirs.txt"), &text).unwrap();
    let folder = File::open(rig.path("")).unwrap();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // One after the other, so that whatever else the disk does falls on both.
    for round in 1..=rounds {
        let (old, new) = (name(round - 1), name(round));
        theirs.push(timed(|| match durability {
            Durability::Full => by_hand(&rig.path("theirs.txt"), &folder, &old, &new),
            Durability::Fast => {
                let text = std::fs::read_to_string(rig.path("theirs.txt")).unwrap();
                std::fs::write(rig.path("theirs.txt"), text.replacen(&old, &new, 1)).unwrap();
            }
        }));
        ours.push(timed(|| assert!(!rig.edit("ours.txt", &old, &new).is_error)));
    }
    (median(ours), median(theirs))
}

fn small_files() {
    let (ours, theirs) = small_file(Durability::Full, 200);
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    told("edit in a file of 2,000 lines, beside fsync and rename by hand", ratio, "x", 1.5);
    println!("{:62} {:8.2} ms against {:.2}", "  which takes", millis(ours), millis(theirs));
    let (ours, theirs) = small_file(Durability::Fast, 1000);
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    told("the same with durability fast, beside read and write", ratio, "x", 5.0);
    println!("{:62} {:8.3} ms against {:.3}", "  which takes", millis(ours), millis(theirs));
}

fn large_file() {
    const SIZE: usize = 200 * 1000 * 1000;
    let rig = Rig::new(Durability::Full, Checkers::standard());
    let mut text = Vec::with_capacity(SIZE + 100);
    let mut number = 0;
    while text.len() < SIZE {
        writeln!(text, "line {number:09} of a file that is far too long to be read").unwrap();
        number += 1;
    }
    let size = text.len() as f64;
    rig.seen("large.txt", &text);
    drop(text);
    File::open(rig.path("large.txt")).unwrap().sync_all().unwrap();
    let copy = || {
        std::fs::copy(rig.path("large.txt"), rig.path("copy.txt")).unwrap();
        File::open(rig.path("copy.txt")).unwrap().sync_all().unwrap();
    };
    let (mut ours, mut theirs, mut most) = (Vec::new(), Vec::new(), 0);
    for round in 0..3 {
        theirs.push(timed(copy));
        std::fs::remove_file(rig.path("copy.txt")).unwrap();
        let old = format!("line {:09} of", number / 2 + round);
        ours.push(timed(|| {
            let (reply, held) = peak(|| rig.edit("large.txt", &old, "another line of"));
            assert!(!reply.is_error, "{}", reply.full_text());
            most = most.max(held);
        }));
    }
    told("edit of a line of 200 MB, the most that is held", most as f64 / size, "x", 2.0);
    let (ours, theirs) = (median(ours), median(theirs));
    told("  beside copying it to the disk", ours.as_secs_f64() / theirs.as_secs_f64(), "x", 3.0);
    println!("{:62} {:8.1} ms against {:.1}", "  which takes", millis(ours), millis(theirs));
}

fn main() {
    small_files();
    nearest_place();
    large_file();
}
