//! Properties of all rules and calls.

use haft_core::Mode;
use haft_rules::Effect;
use proptest::prelude::*;

use super::{book, decided, session, workspace};

const RULES: [&str; 16] = [
    "Read(.env)",
    "Read(src/**)",
    "Edit(src/**)",
    "Edit(**)",
    "Edit",
    "Write(.git/**)",
    "Bash",
    "Bash(git status:*)",
    "Bash(git *)",
    "Bash(rm:*)",
    "Bash(rm -rf build)",
    "Bash(cat:*)",
    "Bash(touch:*)",
    "Bash(echo *)",
    "Grep",
    "Read(/srv/**)",
];
const PARTS: [&str; 14] = [
    "git status",
    "git push",
    "rm -rf build",
    "rm one.txt",
    "cat .env",
    "cat src/main.rs",
    "touch x",
    "echo hi",
    "echo hi > src/y",
    "cargo build",
    "ls",
    "cat /srv/x",
    "curl http://a.test",
    "python3 -c 'print(1)'",
];
const CALLS: [&str; 8] = [
    "Read: .env",
    "Read: src/main.rs",
    "Edit: src/main.rs",
    "Write: new.txt",
    "Write: .git/hooks/x",
    "Grep: a",
    "Read: /srv/x",
    "Glob: *.rs",
];

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(Mode::ALL.to_vec())
}

fn effect() -> impl Strategy<Value = Effect> {
    prop::sample::select(Effect::ALL.to_vec())
}

fn rules() -> impl Strategy<Value = Vec<(Effect, &'static str)>> {
    prop::collection::vec((effect(), prop::sample::select(RULES.to_vec())), 0..6)
}

fn any_call() -> impl Strategy<Value = String> {
    let command = prop::collection::vec(prop::sample::select(PARTS.to_vec()), 1..4)
        .prop_map(|parts| format!("Bash: {}", parts.join(" && ")));
    prop_oneof![command, prop::sample::select(CALLS.to_vec()).prop_map(str::to_owned)]
}

/// The stricter a decision, the greater.
fn strictness(decision: &str) -> u8 {
    match decision {
        "allow" => 0,
        "ask" => 1,
        _ => 2,
    }
}

fn decide(rules: &[(Effect, &str)], mode: Mode, call: &str) -> &'static str {
    haft_sandbox::sandbox::arm();
    let (folder, state) = (workspace(), tempfile::tempdir().unwrap());
    let session = session(folder.path(), state.path(), book(rules), mode);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(decided(&session, call)).0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn another_denial_never_allows_more(
        rules in rules(), mode in mode(), call in any_call(), rule in prop::sample::select(RULES.to_vec()),
    ) {
        let before = decide(&rules, mode, &call);
        let stricter = [rules, vec![(Effect::Deny, rule)]].concat();
        let after = decide(&stricter, mode, &call);
        prop_assert!(strictness(after) >= strictness(before), "{before} became {after}");
    }

    #[test]
    fn the_order_of_rules_does_not_matter(rules in rules(), mode in mode(), call in any_call()) {
        let reversed: Vec<_> = rules.iter().rev().copied().collect();
        prop_assert_eq!(decide(&rules, mode, &call), decide(&reversed, mode, &call));
    }

    #[test]
    fn a_list_is_never_more_permitted_than_its_strictest_part(
        rules in rules(), mode in mode(), parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 1..4),
    ) {
        let whole = strictness(decide(&rules, mode, &format!("Bash: {}", parts.join(" && "))));
        for part in &parts {
            let alone = strictness(decide(&rules, mode, &format!("Bash: {part}")));
            prop_assert!(whole >= alone, "{part} alone is stricter");
        }
    }
}
