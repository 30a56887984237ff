//! The performance that haft promises, measured in one run and compared with its limits. Ratios come from interleaved
//! rounds, so that load on the machine affects both sides alike.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haft_core::{
    AbsPath, Call, Claims, Context, Engine, Fault, Operation, Reply, Resource, Session, Spec, Tool, Typed,
    Workspace,
};
use haft_dialects::Claude;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A no-op tool, so that only the pipeline is measured.
struct Nothing;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A word
    #[allow(dead_code)]
    word: String,
    /// A number
    #[allow(dead_code)]
    count: Option<u64>,
}

struct Idle(AbsPath);

impl Operation for Idle {
    type Output = ();

    fn claims(&self) -> Claims {
        Claims::none().read(Resource::Path(self.0.clone()))
    }

    async fn run(self, _cx: &Context) -> Result<(), Fault> {
        Ok(())
    }
}

impl Tool for Nothing {
    const NAME: &'static str = "nothing";
    const DESCRIPTION: &'static str = "Does nothing.";
    type Input = Input;
    type Op = Idle;

    fn spec(spec: Spec) -> Spec {
        spec.read_only()
    }

    fn lower(_input: &Input, cx: &Context) -> Result<Idle, Fault> {
        Ok(Idle(cx.cwd()))
    }

    fn render(_input: &Input, _output: (), _cx: &Context) -> Result<Reply, Fault> {
        Ok(Reply::text("done"))
    }
}

fn nothing(id: usize) -> Call {
    Call::new(id.to_string(), "nothing", json!({"word": "x", "count": 3}))
}

fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap()
}

fn median(mut rounds: Vec<Duration>) -> Duration {
    rounds.sort();
    rounds[rounds.len() / 2]
}

static OVER: AtomicBool = AtomicBool::new(false);

fn report(what: &str, value: f64, unit: &str, limit: f64) {
    OVER.fetch_or(value > limit, Ordering::Relaxed);
    let verdict = if value <= limit { "ok" } else { "OVER" };
    println!("{what:62} {value:8.2} {unit:2} (at most {limit}) {verdict}");
}

/// Sequential calls on one core. A subscriber receives every event, and reads them between rounds.
fn pipeline(session: &Session, runtime: &tokio::runtime::Runtime) {
    const CALLS: usize = 1_000;
    let mut events = session.engine().activity().subscribe();
    let mut took = Duration::MAX;
    for _ in 0..30 {
        took = took.min(best(1, || {
            runtime.block_on(async {
                for id in 0..CALLS {
                    black_box(session.call(nothing(id)).await);
                }
            });
        }));
        while events.try_next().is_some() {}
    }
    let each = took.as_secs_f64() * 1e6 / CALLS as f64;
    report("pipeline around a tool that does nothing, one core, one listener", each, "µs", 10.0);
}

fn turns(session: &Session, runtime: &tokio::runtime::Runtime) {
    let turn = |calls: usize| {
        runtime.block_on(async {
            let mut turn = session.turn();
            for id in 0..calls {
                turn.submit(nothing(id));
            }
            assert_eq!(black_box(turn.finish().await).len(), calls);
        });
    };
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..25 {
        small.push(best(1, || turn(1_000)));
        large.push(best(1, || turn(10_000)));
    }
    let (small, large) = (median(small), median(large));
    report(
        "turn of 10,000 independent calls against one of 1,000",
        large.as_secs_f64() / small.as_secs_f64(),
        "x",
        12.0,
    );
    println!(
        "{:62} {:8.2} µs a call",
        "  of which a call in the turn of 10,000",
        large.as_secs_f64() * 1e6 / 10_000.0
    );
}

/// The naive implementation: reads the file and numbers its lines.
fn naive(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let mut out = String::with_capacity(text.len() * 2);
    for (at, line) in text.lines().enumerate() {
        writeln!(out, "{:6}\t{line}", at + 1).unwrap();
    }
    out
}

fn reading(folder: &Path, session: &Session, runtime: &tokio::runtime::Runtime) {
    let path = folder.join("src/engine/parts/file.rs");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text: String = (0..200).map(|n| format!("    let value_{n} = compute(input, {n});\n")).collect();
    std::fs::write(&path, text).unwrap();
    let input: Value = json!({"file_path": "src/engine/parts/file.rs"});
    const ROUNDS: usize = 200;
    let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
    for _ in 0..30 {
        theirs = theirs.min(best(1, || {
            (0..ROUNDS).for_each(|_| {
                black_box(naive(&path));
            })
        }));
        ours = ours.min(best(1, || {
            runtime.block_on(async {
                for _ in 0..ROUNDS {
                    let reply = session.call(Call::new("1", "Read", input.clone())).await;
                    assert!(!black_box(reply).is_error);
                }
            });
        }));
    }
    report(
        "Read of 200 lines against a bare read and numbering loop",
        ours.as_secs_f64() / theirs.as_secs_f64(),
        "x",
        3.0,
    );
    let micros = |took: Duration| took.as_secs_f64() * 1e6 / ROUNDS as f64;
    println!("{:62} {:8.2} µs against {:.2} µs", "  of which", micros(ours), micros(theirs));
}

fn deep_in_a_large_file(folder: &Path, session: &Session, runtime: &tokio::runtime::Runtime) {
    let path = folder.join("large.log");
    let line = format!("{}\n", "x".repeat(199));
    let block = line.repeat(50_000);
    {
        use std::io::Write as _;
        let mut file = std::fs::File::create(&path).unwrap();
        for _ in 0..107 {
            file.write_all(block.as_bytes()).unwrap();
        }
    }
    let input = json!({"file_path": "large.log", "offset": 5_000_000, "limit": 20});
    let took = best(3, || {
        let reply = runtime.block_on(session.call(Call::new("1", "Read", input.clone())));
        assert!(reply.full_text().contains("5000019\tx"), "{}", reply.full_text());
    });
    std::fs::remove_file(&path).unwrap();
    println!("{:62} {:8.2} ms", "20 lines at line 5,000,000 of 1 GB", took.as_secs_f64() * 1e3);
}

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let session = Engine::default()
        .session(Workspace::open(folder.path()).unwrap())
        .dialect(Arc::new(Claude))
        .tool(Typed::<Nothing>::new())
        .start();
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    pipeline(&session, &one);
    turns(&session, &many);
    reading(folder.path(), &session, &one);
    deep_in_a_large_file(folder.path(), &session, &one);
    if OVER.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
