//! Percentiles against exact ones, and files shared by many writers.

use std::thread;

use proptest::prelude::*;

use super::*;

fn recorded(samples: &[(u64, bool)]) -> ToolStats {
    let stats = Stats::new();
    let tool: Arc<str> = "Read".into();
    for (ns, good) in samples {
        let outcome = if *good { Outcome::Success } else { Outcome::Failure };
        stats.record(&tool, Duration::from_nanos(*ns), outcome);
    }
    stats.snapshot().remove("Read").unwrap_or_default()
}

fn any_samples() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let ns = (0..40u32, any::<u64>()).prop_map(|(bits, ns)| ns >> 20 >> bits);
    proptest::collection::vec((ns, any::<bool>()), 0..80)
}

fn exact(samples: &[(u64, bool)], percent: usize) -> u64 {
    let mut all: Vec<u64> = samples.iter().map(|(ns, _)| *ns).collect();
    all.sort_unstable();
    all[(all.len() * percent).div_ceil(100).max(1) - 1]
}

fn assert_near(found: Duration, exact: u64) {
    let found = found.as_nanos() as f64;
    assert!((found - exact as f64).abs() <= exact as f64 * 0.032, "{found} is not near {exact}");
}

proptest! {
    #[test]
    fn percentiles_are_near_the_exact_ones(samples in any_samples()) {
        let stats = recorded(&samples);
        prop_assert!(stats.is_sound());
        if samples.is_empty() {
            prop_assert_eq!((stats.p50(), stats.average(), stats.success_rate()), (None, None, None));
            return Ok(());
        }
        for (percent, found) in [(50, stats.p50().unwrap()), (95, stats.p95().unwrap())] {
            assert_near(found, exact(&samples, percent));
            prop_assert!(Duration::from_nanos(stats.min_ns) <= found && found <= Duration::from_nanos(stats.max_ns));
        }
        let good = samples.iter().filter(|(_, good)| *good).count();
        prop_assert_eq!(stats.success_rate(), Some(good as f64 / samples.len() as f64));
    }

    #[test]
    fn merging_is_recording_together(a in any_samples(), b in any_samples(), c in any_samples()) {
        let merged = |parts: [&ToolStats; 2]| {
            let mut sum = parts[0].clone();
            sum.merge(parts[1]);
            sum
        };
        let (x, y, z) = (recorded(&a), recorded(&b), recorded(&c));
        let left = merged([&merged([&x, &y]), &z]);
        prop_assert_eq!(&left, &merged([&x, &merged([&y, &z])]));
        prop_assert_eq!(&left, &merged([&z, &merged([&y, &x])]));
        prop_assert_eq!(&left, &recorded(&[a, b, c].concat()));
        let text = serde_json::to_string(&left).unwrap();
        prop_assert_eq!(&left, &serde_json::from_str::<ToolStats>(&text).unwrap());
    }
}

#[test]
fn few_calls_have_sane_percentiles() {
    let one = recorded(&[(1_000_003, true)]);
    assert_eq!(one.p50(), Some(Duration::from_nanos(1_000_003)));
    assert_eq!(one.p95(), one.p50());
    let two = recorded(&[(100, true), (9_000, false)]);
    assert_eq!((two.p50(), two.p95()), (Some(Duration::from_nanos(100)), Some(Duration::from_nanos(9_000))));
    assert_eq!(two.average(), Some(Duration::from_nanos(4_550)));
}

#[test]
fn writers_side_by_side_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path());
    let shared = Stats::new();
    thread::scope(|scope| {
        // Some threads share their statistics like the calls of one process, others stand for processes.
        for n in 0..6 {
            let (store, shared) = (store.clone(), &shared);
            scope.spawn(move || {
                let own = Stats::new();
                let stats = if n % 2 == 0 { shared } else { &own };
                for _ in 0..10 {
                    stats.record(&"Read".into(), Duration::from_micros(5), Outcome::Success);
                    stats.record(&format!("tool {n}").into(), Duration::from_micros(7), Outcome::Failure);
                    stats.save(&store, "stats.json").unwrap();
                }
            });
        }
    });
    let all = Stats::load(&store, "stats.json").unwrap();
    assert_eq!(all["Read"].calls, 60);
    assert_eq!(all.len(), 7);
    assert!((0..6).all(|n| all[&format!("tool {n}")].failures == 10));
    assert_eq!(shared.snapshot()["Read"].calls, 30);
}

#[test]
fn the_next_save_includes_a_failed_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path());
    let stats = Stats::new();
    let tool: Arc<str> = "Read".into();
    stats.record(&tool, Duration::from_micros(5), Outcome::Success);
    assert!(stats.save(&store, "no/name").is_err());
    stats.record(&tool, Duration::from_micros(5), Outcome::Success);
    stats.save(&store, "stats.json").unwrap();
    stats.save(&store, "stats.json").unwrap();
    assert_eq!(Stats::load(&store, "stats.json").unwrap()["Read"].calls, 2);
    assert_eq!(stats.snapshot()["Read"].calls, 2);
}

#[test]
fn merged_statistics_are_not_saved_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path());
    let stats = Stats::new();
    assert_eq!(Stats::load(&store, "stats.json").unwrap(), BTreeMap::new());
    stats.merge(&BTreeMap::from([("Read".to_owned(), recorded(&[(5, true), (6, true)]))]));
    stats.record(&"Read".into(), Duration::from_nanos(7), Outcome::Success);
    stats.save(&store, "stats.json").unwrap();
    assert_eq!(stats.snapshot()["Read"].calls, 3);
    assert_eq!(Stats::load(&store, "stats.json").unwrap()["Read"].calls, 1);
}

#[test]
fn a_damaged_file_is_reported_and_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path());
    let contradiction = serde_json::json!({"Read": {
        "calls": 3, "successes": 1, "failures": 1, "total_ns": 0, "min_ns": 0, "max_ns": 0, "histogram": [[7, 3]],
    }});
    let damage = [b"{\"Read\": {\"calls\"".to_vec(), contradiction.to_string().into_bytes()];
    for (bytes, aside) in damage.iter().zip(["stats.json.damaged", "stats.json.damaged-2"]) {
        store.write("stats.json", bytes).unwrap();
        assert_eq!(Stats::load(&store, "stats.json").unwrap_err().kind(), ErrorKind::InvalidData);
        let stats = Stats::new();
        stats.record(&"Read".into(), Duration::from_nanos(7), Outcome::Success);
        stats.save(&store, "stats.json").unwrap();
        assert_eq!(Stats::load(&store, "stats.json").unwrap(), stats.snapshot());
        assert_eq!(store.read(aside).unwrap().as_ref(), Some(bytes));
    }
}
