//! The settings of rules about calls, with examples that are checked when the settings load.

use std::fmt;
use std::path::Path;

use haft_rules::{Effect, EffectRule, KnownTools, RuleBook, ToolRule};
use schemars::JsonSchema;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::{Explain as _, HostError, HostErrorKind};

/// Rules about calls: what is denied stays denied, then it is asked, then it is tried, then it is allowed.
///
/// A rule is `Tool`, or `Tool(what it is about)`: a pattern of paths for tools of files (`Edit(src/**)`, `Read(.env)`,
/// `Read(~/notes/**)`), a command for shells (`Bash(git status:*)`, `Bash(npm run *)`), `domain:example.org` for the
/// web, a family of tools (`mcp__github__*`). A rule about files binds every way to them: `Read(.env)` under `deny`
/// holds for searches and commands, too.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// Calls that run without a question. Trusted projects only.
    pub allow: Vec<RuleSetting>,
    /// Calls that haft asks about every time.
    pub ask: Vec<RuleSetting>,
    /// Commands that run on a copy-on-write view of the workspace without a question; haft asks about what they changed
    /// there before it counts. Trusted projects only.
    pub r#try: Vec<RuleSetting>,
    /// Calls that haft denies.
    pub deny: Vec<RuleSetting>,
    /// What commands that are tried may change without a question: `add`, `change`, `delete` or `any` and a pattern of
    /// paths, such as `add src/**`. Holds if these rules cover all that a command did, and nothing of it makes other
    /// programs run something. Trusted projects only.
    pub effects: Vec<String>,
    /// Whether haft's own recommended rules are added: usual builds, tests and git commands are allowed, files with
    /// secrets denied. Trusted projects only.
    pub recommended: Option<bool>,
    /// Seconds after which an unanswered question counts as denied (default: never). A project that is
    /// not trusted can only make it shorter.
    #[schemars(range(min = 1))]
    pub seconds: Option<u64>,
}

/// A rule, alone or with examples.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum RuleSetting {
    /// The rule.
    Text(String),
    /// The rule, with what it must and must not cover; haft does not start if an example does not hold.
    WithExamples(RuleWithExamples),
}

/// A rule with examples.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleWithExamples {
    /// The rule.
    rule: String,
    /// Commands, paths, hosts or tools that it covers.
    #[serde(default)]
    matches: Vec<String>,
    /// Others that it does not.
    #[serde(default)]
    not_matches: Vec<String>,
}

impl<'de> Deserialize<'de> for RuleSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RuleSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule such as \"Bash(git status:*)\", or a table with `rule` and examples")
            }

            fn visit_str<E: de::Error>(self, rule: &str) -> Result<RuleSetting, E> {
                Ok(RuleSetting::Text(rule.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RuleSetting, A::Error> {
                let table = RuleWithExamples::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(RuleSetting::WithExamples(table))
            }
        }
        from.deserialize_any(Either)
    }
}

impl RuleSetting {
    fn rule(&self) -> &str {
        match self {
            RuleSetting::Text(rule) | RuleSetting::WithExamples(RuleWithExamples { rule, .. }) => rule,
        }
    }
}

impl Permissions {
    fn all(&self) -> impl Iterator<Item = (Effect, &RuleSetting)> {
        let deny = self.deny.iter().map(|rule| (Effect::Deny, rule));
        let ask = self.ask.iter().map(|rule| (Effect::Ask, rule));
        let tried = self.r#try.iter().map(|rule| (Effect::Try, rule));
        deny.chain(ask).chain(tried).chain(self.allow.iter().map(|rule| (Effect::Allow, rule)))
    }

    /// Checks every rule and its examples.
    pub(super) fn check(&self, root: &Path, known: &KnownTools) -> Result<(), HostError> {
        for (effect, setting) in self.all() {
            let place = || format!("`permissions.{}`", effect.name());
            let rule = ToolRule::parse(setting.rule(), known).explain(HostErrorKind::Settings, place)?;
            let RuleSetting::WithExamples(RuleWithExamples { matches, not_matches, .. }) = setting else {
                continue;
            };
            rule.check_examples(effect, matches, not_matches, root, home().as_deref())
                .explain(HostErrorKind::Settings, place)?;
        }
        for rule in &self.effects {
            EffectRule::parse(rule)
                .explain(HostErrorKind::Settings, || "`permissions.effects`".to_owned())?;
        }
        Ok(())
    }

    /// Adds the rules to a book, with their origin.
    pub(super) fn add_to(&self, book: &mut RuleBook, place: &str) -> Result<(), HostError> {
        for (effect, setting) in self.all() {
            book.add(effect, setting.rule(), place)?;
        }
        self.effects.iter().try_for_each(|rule| book.add_effect_rule(rule))?;
        if self.recommended == Some(true) {
            book.add_recommended()?;
        }
        Ok(())
    }
}

/// The user's home folder.
pub(crate) fn home() -> Option<std::path::PathBuf> {
    etcetera::home_dir().ok()
}
