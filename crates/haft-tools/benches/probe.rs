#![allow(clippy::all, missing_docs, unused)]
use std::hint::black_box;
use std::time::{Duration, Instant};
#[path = "../src/check/depth.rs"]
mod depth;
#[path = "/tmp/depth_old.rs"]
mod depth_old;
#[path = "shared/programs.rs"]
mod programs;
fn time<T>(what: &str, mut f: impl FnMut() -> T) {
    let mut t: Vec<Duration> = (0..201)
        .map(|_| {
            let s = Instant::now();
            black_box(f());
            s.elapsed()
        })
        .collect();
    t.sort();
    println!("{what:50} median {:8.1} µs  min {:8.1}", t[100].as_secs_f64() * 1e6, t[0].as_secs_f64() * 1e6);
}
fn long(text: &str) -> bool {
    let mut start = 0;
    memchr::memchr_iter(b'\n', text.as_bytes())
        .chain([text.len()])
        .any(|end| end - std::mem::replace(&mut start, end + 1) > 20000)
}
fn main() {
    let pieces = [
        "(", ")", "[", "]", "{", "}", ";", ",", "\n", "a", "else ", "else", " ", "é", "!", "+", "-b", "\"",
        "#", "/", "_", "9", "} +", "}\n.", "elsex", "xelse ",
    ];
    let mut x = 7u64;
    let mut roll = |n: usize| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x % n as u64) as usize
    };
    let mut yes = 0;
    for _ in 0..20000 {
        let mut t = String::new();
        for _ in 0..roll(6) + 1 {
            let mut unit = String::new();
            for _ in 0..roll(4) + 1 {
                unit += pieces[roll(pieces.len())];
            }
            t += &unit.repeat(roll(4000));
        }
        for (a, b) in [
            (depth::Ends::Lines, depth_old::Ends::Lines),
            (depth::Ends::Semicolons, depth_old::Ends::Semicolons),
        ] {
            let (n, o) = (depth::too_long(&t, a), depth_old::too_long(&t, b));
            yes += usize::from(o);
            assert_eq!(n, o, "{}", t.len());
        }
    }
    println!("too_long: same, {yes} of 40000 are too long");
    for p in programs::programs() {
        println!("== {} {} bytes {} lines", p.name, p.text.len(), p.text.lines().count());
        let text = &p.text;
        time("hash", || haft::Hash::of(text.as_bytes()));
        time("too_deep", || depth::too_deep(text));
        time("too_long", || depth::too_long(text, depth::Ends::Semicolons));
        time("lines", || long(text));
        time("utf8+copy", || String::from_utf8(text.as_bytes().to_vec()));
        time("stacker", || stacker::grow(256 << 20, || black_box(1)));
        if p.name == "a.ts" {
            use oxc_allocator::Allocator;
            use oxc_parser::Parser;
            use oxc_span::SourceType;
            time("oxc fresh", || {
                let a = Allocator::default();
                let r = Parser::new(&a, text, SourceType::ts()).parse();
                r.diagnostics.errors().count()
            });
            let mut a = Allocator::default();
            time("oxc reused", || {
                a.reset();
                let r = Parser::new(&a, text, SourceType::ts()).parse();
                r.diagnostics.errors().count()
            });
            println!("capacity {} used {}", a.capacity(), a.used_bytes());
            time("oxc with capacity", || {
                let a = Allocator::with_capacity(2 << 20);
                let r = Parser::new(&a, text, SourceType::ts()).parse();
                r.diagnostics.errors().count()
            });
            time("oxc fresh on stacker", || {
                stacker::grow(256 << 20, || {
                    let a = Allocator::default();
                    let r = Parser::new(&a, text, SourceType::ts()).parse();
                    r.diagnostics.errors().count()
                })
            });
        }
        let checkers = haft_tools::check::Checkers::standard();
        time("compare known", || checkers.compare(p.name, None, text));
        let mut before = text.clone();
        let mut n = 0;
        let mut took = vec![];
        for _ in 0..300 {
            let place = n % 3;
            let after =
                before.replacen(&programs::name_at(place, n / 3), &programs::name_at(place, n / 3 + 1), 1);
            n += 1;
            let s = Instant::now();
            black_box(checkers.compare(p.name, Some(&before), &after));
            took.push(s.elapsed());
            before = after;
        }
        took.sort();
        println!("compare next edits  median {:?} min {:?}", took[150], took[0]);
        let broken = p.broken.unwrap_or("");
        let mut took = vec![];
        for n in 0..21 {
            let after = text.replacen("probe_1", &format!("{n}probe_1"), 1);
            let s = Instant::now();
            black_box(checkers.compare(p.name, Some(&text), &after));
            took.push(s.elapsed());
        }
        took.sort();
        println!("compare broken  median {:?} min {:?}", took[10], took[0]);
        if p.name == "a.c" {
            let text = format!(
                "{}EXPORT(one)\nLIST_HEAD(a) lists;\nint aa(void) {{\n    FOR_EACH(i, lists)\n        middle(i);\n    return 1;\n}}\n",
                text
            );
            let mut before = text.clone();
            let mut n = 0;
            let mut took = vec![];
            for _ in 0..30 {
                let place = n % 3;
                let after = before.replacen(
                    &programs::name_at(place, n / 3),
                    &programs::name_at(place, n / 3 + 1),
                    1,
                );
                n += 1;
                let s = Instant::now();
                let c = black_box(checkers.compare(p.name, Some(&before), &after));
                took.push(s.elapsed());
                if n == 20 {
                    println!("{c:?}");
                }
                before = after;
            }
            took.sort();
            println!("compare next edits of C with macros median {:?} min {:?}", took[15], took[0]);
        }
    }
}
