//! What a recorded change costs beside the bare sequence of calls: in full, beside writing a temporary file,
//! syncing, renaming and syncing the folder; fast, beside reading and overwriting.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, missing_docs, dead_code)]

#[path = "../tests/journal/common.rs"]
mod common;

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use common::{FAST, FULL, Fixture};

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn time(rounds: u32, mut act: impl FnMut(u32)) -> Duration {
    let once = |round| {
        let start = Instant::now();
        act(round);
        start.elapsed()
    };
    median((0..rounds).map(once).collect())
}

fn main() {
    for size in [1_000, 20_000, 200_000] {
        let fix = Fixture::new();
        let content = |round: u32| format!("{round:08}").repeat(size / 8);
        for name in ["bare", "full", "plain", "fast"] {
            fix.put(name, content(0));
        }
        let dir = File::open(fix.on_disk("")).unwrap();
        let bare = |round| {
            let mut temp = File::create(fix.on_disk("temp")).unwrap();
            temp.write_all(content(round).as_bytes()).unwrap();
            temp.sync_all().unwrap();
            std::fs::rename(fix.on_disk("temp"), fix.on_disk("bare")).unwrap();
            dir.sync_all().unwrap();
        };
        let full = |round| {
            fix.journal.change(&fix.workspace, fix.write_change("full", &content(round)), FULL).unwrap();
        };
        let plain = |round| {
            std::fs::read(fix.on_disk("plain")).unwrap();
            std::fs::write(fix.on_disk("plain"), content(round)).unwrap();
        };
        let fast = |round| {
            fix.journal.change(&fix.workspace, fix.write_change("fast", &content(round)), FAST).unwrap();
        };
        // One after the other, so that whatever else the disk does falls on both.
        let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        for round in 1..=150 {
            times[0].push(time(1, |_| bare(round)));
            times[1].push(time(1, |_| full(round)));
        }
        for round in 1..=1000 {
            times[2].push(time(1, |_| plain(round)));
            times[3].push(time(1, |_| fast(round)));
        }
        let [bare, full, plain, fast] = times.map(median);
        println!(
            "{size} bytes: bare {bare:?}, full {full:?} ({:.2}x); plain {plain:?}, fast {fast:?} ({:.2}x)",
            full.as_secs_f64() / bare.as_secs_f64(),
            fast.as_secs_f64() / plain.as_secs_f64(),
        );
    }
}
