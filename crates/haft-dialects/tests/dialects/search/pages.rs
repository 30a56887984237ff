//! Pages of any size, joined, are the whole result.

use haft_ops::Searching;
use serde_json::{Value, json};

use super::tree::{Random, Tree};
use super::{all_pages, call, lines, session};

fn searches(random: &mut Random) -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let pattern = random.pick(&["a", "beta|x", "^", "alpha", "\\w+$"]);
    let context = json!({"pattern": pattern, "output_mode": "content", "-C": random.below(4)});
    vec![
        ("claude", "Grep", "head_limit", json!({"pattern": pattern, "output_mode": "content"})),
        ("claude", "Grep", "head_limit", context),
        ("claude", "Grep", "head_limit", json!({"pattern": pattern})),
        ("claude", "Grep", "head_limit", json!({"pattern": pattern, "output_mode": "count"})),
        ("ally", "grep", "max_results", json!({"pattern": pattern})),
    ]
}

#[tokio::test]
async fn pages_joined_are_the_whole() {
    for seed in 20..26 {
        let tree = Tree::new(seed);
        let mut random = Random::new(seed);
        for (dialect, tool, limit, mut input) in searches(&mut random) {
            let fresh = || session(&tree.root(), dialect, Searching::default());
            input[limit] = 1000.into();
            let whole = all_pages(&fresh(), tool, &input).await;
            input[limit] = (1 + random.below(7)).into();
            let joined = all_pages(&fresh(), tool, &input).await;
            assert_eq!(joined, whole, "tree {seed}: {tool} {input}");
            // Another session has not cached where the page ended, and counts.
            input["offset"] = (1 + random.below(whole.len().max(1))).into();
            let (counted, _) = lines(&call(&fresh(), tool, &input).await);
            let from = whole.len().min(input["offset"].as_u64().unwrap() as usize);
            assert_eq!(counted, whole[from..from + counted.len()], "tree {seed}: {tool} {input}");
        }
    }
}

#[tokio::test]
async fn pages_of_cdd_joined_are_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..30 {
        let text: String =
            (0..17).map(|line| format!("match {file} {line} \"quoted\" \\ {}\n", "é".repeat(60))).collect();
        std::fs::write(dir.path().join(format!("{file:02}.txt")), text).unwrap();
    }
    let session = session(dir.path(), "cdd", Searching::default());
    let mut all = all_pages(&session, "grep", &json!({"pattern": "match"})).await;
    assert_eq!(all.len(), 30 * 17);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 30 * 17);
}

/// The length of a path counts as displayed, which may be longer than relative to the folder.
#[tokio::test]
async fn no_page_is_cut_however_long_the_paths_are() {
    let dir = tempfile::tempdir().unwrap();
    let folder = ["a-folder-with-quite-a-long-name"; 8].join("/");
    std::fs::create_dir_all(dir.path().join(&folder)).unwrap();
    let text: String = (0..900).map(|line| format!("{line} \"found\"\n")).collect();
    std::fs::write(dir.path().join(&folder).join("x.txt"), text).unwrap();
    for (dialect, tool, extra) in
        [("claude", "Grep", ("output_mode", "content")), ("ally", "grep", ("include", "*"))]
    {
        let session = session(dir.path(), dialect, Searching::default());
        let mut input = json!({"pattern": "found", "path": folder});
        input[extra.0] = extra.1.into();
        if dialect == "ally" {
            input["max_results"] = 1000.into();
        }
        assert_eq!(all_pages(&session, tool, &input).await.len(), 900, "{dialect}");
    }
}
