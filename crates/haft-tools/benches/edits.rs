//! What edits cost, told beside what they may: finding the nearest place to a text that is not there, and
//! changing a line of a large file without holding it twice.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code, unused_imports, missing_docs, unreachable_pub)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The modules are no part of the crate's interface, so they are compiled in here.
#[path = "../src/text"]
mod text {
    pub(crate) mod charset;
    pub(crate) mod diff;
    pub(crate) mod draft;
    pub(crate) mod edit;
    pub(crate) mod encoding;
    pub(crate) mod find;
    pub(crate) mod fit;
    pub(crate) mod gutter;
    pub(crate) mod lines;
    pub(crate) mod manner;
    pub(crate) mod mismatch;
    pub(crate) mod nearest;
    pub(crate) mod reindent;
    pub(crate) mod rows;
    pub(crate) mod splice;
}

use text::diff::{DiffLimits, short};
use text::edit::{Occurrences, Replace, plan};
use text::encoding::Source;
use text::manner::Leniency;
use text::mismatch::Problem;
use text::nearest::Nearest;

/// Counts what is held, and the most that was.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on as it is; only sizes are counted.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
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

fn timed<T>(rounds: usize, mut work: impl FnMut() -> T) -> (Duration, Duration) {
    let mut took: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed()
        })
        .collect();
    took.sort_unstable();
    (took[0], took[rounds / 2])
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
    let program = program(20_000);
    let source = Source::new(program.join("\n").into()).unwrap();
    let (mut all, mut right) = (Vec::new(), 0);
    for round in 0..40 {
        let start = scattered(round) % 19_900;
        let edit =
            Replace { old: remembered(&program, start), new: "x".to_owned(), occurrences: Occurrences::Only };
        let (least, middle) = timed(3, || plan(&source, std::slice::from_ref(&edit), Leniency::Lenient));
        all.push((middle, least));
        if let Err(mismatch) = plan(&source, &[edit], Leniency::Lenient)
            && let Problem::NotFound { near: Nearest::Place(near), .. } = mismatch.problem
            && near.first.abs_diff(start + 1) <= 2
        {
            right += 1;
        }
    }
    all.sort_unstable();
    println!(
        "{:62} {:8.2} ms",
        "nearest place to 20 lines among 20,000, the middle of 40",
        millis(all[20].0)
    );
    told("nearest place to 20 lines among 20,000, the worst of 40", millis(all[39].1), "ms", 50.0);
    println!("{:62} {right:8} of 40", "  of which named right");
}

fn large_file() {
    const SIZE: usize = 200 * 1000 * 1000;
    let mut text = String::with_capacity(SIZE + 100);
    let mut number = 0;
    while text.len() < SIZE {
        use std::fmt::Write as _;
        writeln!(text, "line {number:09} of a file that is far too long to be read").unwrap();
        number += 1;
    }
    let bytes = text.into_bytes();
    let size = bytes.len() as f64;
    let old = format!("line {:09} of", number / 2);
    let edits = [Replace { old, new: "another line of".to_owned(), occurrences: Occurrences::Only }];
    let start = Instant::now();
    let ((source, planned), held) = peak(|| {
        let source = Source::new(bytes).unwrap();
        let planned = plan(&source, &edits, Leniency::Lenient).unwrap();
        (source, planned)
    });
    let took = start.elapsed();
    // The file itself is held throughout.
    told("edit of a line of 200 MB, most that is held", (size + held as f64) / size, "x", 2.0);
    println!("{:62} {:8.2} ms", "  which takes", millis(took));
    let (after, held) = peak(|| planned.splices.apply(source.bytes()));
    told("  with the file as it will be", (size + held as f64) / size, "x", 2.01);
    let start = Instant::now();
    let diff = short(source.bytes(), &after, DiffLimits::default());
    println!("{:62} {:8.2} ms", "  and the diff of the two", millis(start.elapsed()));
    assert_eq!((diff.added, diff.removed), (1, 1));
}

fn main() {
    nearest_place();
    large_file();
}
