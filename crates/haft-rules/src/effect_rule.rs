//! Rules about what a tried call did, such as `add src/**`: effects that count without a question. All effects of a trial
//! must be covered, or a person is asked about all of them.

use std::fmt;
use std::path::{Path, PathBuf};

use globset::{GlobSet, GlobSetBuilder};
use haft_core::AbsPath;

use super::BadRule;
use super::paths::{absolute, check, glob};

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happened {
    /// It is new.
    Added,
    /// Its content, mode or time changed.
    Changed,
    /// It is gone.
    Deleted,
}

impl Happened {
    const ALL: [Self; 3] = [Self::Added, Self::Changed, Self::Deleted];

    /// Its name in rules.
    fn verb(self) -> &'static str {
        match self {
            Self::Added => "add",
            Self::Changed => "change",
            Self::Deleted => "delete",
        }
    }
}

/// A rule that approves effects: a verb and a pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectRule {
    /// What it approves; everything if it is `None`.
    happened: Option<Happened>,
    pattern: String,
}

impl EffectRule {
    /// Parses `add src/**`, `change …`, `delete …` or `any …`.
    pub fn parse(text: &str) -> Result<Self, BadRule> {
        let bad = |why: &str| BadRule::About { rule: text.to_owned(), why: why.to_owned() };
        let Some((verb, pattern)) = text.trim().split_once(char::is_whitespace) else {
            return Err(bad("write a verb and a pattern of paths, such as `add src/**`"));
        };
        let happened = match verb {
            "any" => None,
            verb => Some(
                Happened::ALL
                    .into_iter()
                    .find(|happened| happened.verb() == verb)
                    .ok_or_else(|| bad("the first word is `add`, `change`, `delete` or `any`"))?,
            ),
        };
        let pattern = pattern.trim();
        check(pattern).map_err(|why| bad(&why))?;
        Ok(Self { happened, pattern: pattern.to_owned() })
    }
}

impl fmt::Display for EffectRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.happened.map_or("any", Happened::verb), self.pattern)
    }
}

/// Rules about effects, compiled for one workspace.
#[derive(Debug, Default)]
pub(super) struct EffectPatterns {
    set: GlobSet,
    /// The rule of each pattern of the set.
    rules: Vec<EffectRule>,
}

impl EffectPatterns {
    pub(super) fn new(rules: &[EffectRule], folders: &[PathBuf], home: Option<&Path>) -> Self {
        let (mut set, mut owners) = (GlobSetBuilder::new(), Vec::new());
        for rule in rules {
            for whole in absolute(&rule.pattern, folders, home) {
                let whole = whole.trim_end_matches('/');
                for text in [whole.to_owned(), format!("{whole}/**")] {
                    // `check` accepted the pattern when the rule was parsed, so this does not fail.
                    if let Ok(glob) = glob(&text) {
                        set.add(glob);
                        owners.push(rule.clone());
                    }
                }
            }
        }
        Self { set: set.build().unwrap_or_default(), rules: owners }
    }

    /// The rule that approves an effect on a path.
    pub(super) fn approves(&self, happened: Happened, path: &AbsPath) -> Option<&EffectRule> {
        let found = self.set.matches(path.as_path());
        let mut found = found.into_iter().filter_map(|glob| self.rules.get(glob));
        found.find(|rule| rule.happened.is_none_or(|named| named == happened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> EffectPatterns {
        let rules: Vec<EffectRule> = texts.iter().map(|text| EffectRule::parse(text).unwrap()).collect();
        EffectPatterns::new(&rules, &[PathBuf::from("/ws")], None)
    }

    fn path(path: &str) -> AbsPath {
        AbsPath::lexical(path.as_ref())
    }

    #[test]
    fn a_rule_approves_what_it_names_and_nothing_else() {
        let rules = rules(&["add src/**", "any docs"]);
        assert!(rules.approves(Happened::Added, &path("/ws/src/a/b")).is_some());
        assert!(rules.approves(Happened::Changed, &path("/ws/src/a")).is_none());
        assert!(rules.approves(Happened::Deleted, &path("/ws/src/a")).is_none());
        assert!(rules.approves(Happened::Added, &path("/ws/lib/a")).is_none());
        assert!(rules.approves(Happened::Deleted, &path("/ws/docs/a")).is_some());
    }

    #[test]
    fn bad_rules_say_what_is_wrong() {
        for (text, why) in [("src/**", "a verb"), ("make src/**", "the first word"), ("add ../x", "`..`")] {
            let error = EffectRule::parse(text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
