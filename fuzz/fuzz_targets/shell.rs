//! Whatever is asked about whatever text: nothing panics, and the rules that are offered for a command cover it.
#![no_main]

use std::path::Path;

use haft_shell::{self as shell, Rule, Side};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let understood = shell::parse(text);
    let _ = shell::read_only(&understood);
    let _ = shell::banned(&understood);
    let _ = shell::sensitive(&understood);
    let _ = shell::interactive(&understood);
    let _ = shell::accesses(&understood, Path::new("/ws"));
    let _ = shell::matches(text, &understood, Side::Allow);
    let _ = shell::matches(text, &understood, Side::Deny);
    let offered: Vec<Rule> = shell::offered_rules(&understood).iter().filter_map(|rule| Rule::parse(rule).ok()).collect();
    let rules = shell::RuleSet::new(offered.clone());
    let _ = (rules.denies(&understood), rules.might_deny(&understood), shell::unread(&understood));
    assert!(offered.is_empty() || shell::RuleSet::new(offered).allows(&understood).is_some());
    if let Some(edit) = shell::in_place(&understood) {
        let _ = edit.apply(text);
    }
});
