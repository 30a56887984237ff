//! Rules that never take effect: they match no call, or what they say is decided before them. Such a rule is valid, but
//! its author should know. Decides nothing about calls.

use haft_shell::{self as shell, Side};

use super::known::{Kind, KnownApproval};
use super::tool_rule::{About, name_matches};
use super::{Effect, RuleBook, ToolRule};

impl RuleBook {
    /// Why a rule never takes effect beside the rules of the book; `None` if it may.
    pub fn ineffective(&self, effect: Effect, rule: &ToolRule) -> Option<String> {
        let own = match &rule.about {
            About::Tool if effect == Effect::Allow => self.allows_no_call(rule),
            About::Tool => self.names_foreign(rule),
            About::Paths { pattern, .. } => matches_no_path(pattern),
            About::Commands(command) => {
                let side = if effect == Effect::Allow { Side::Allow } else { Side::Deny };
                shell::Rule::parse(command).ok().and_then(|parsed| parsed.matches_nothing(side))
            }
            About::Domain { .. } => None,
        };
        own.or_else(|| self.overruled(effect, rule))
    }

    /// Why a rule that allows all calls of a tool allows none.
    fn allows_no_call(&self, rule: &ToolRule) -> Option<String> {
        let (tool, mut named) = (&rule.tool, self.known().named(&rule.tool).peekable());
        named.peek()?;
        let named: Vec<_> = named.collect();
        let all = |approval| named.iter().all(|(_, known)| known.approval == approval);
        let takes_paths = named.iter().any(|(_, known)| matches!(known.kind, Kind::Files(_)));
        if all(KnownApproval::Always) {
            let narrower = match takes_paths {
                true => format!("; `{tool}(PATH)` allows it for a path"),
                false => String::new(),
            };
            return Some(format!(
                "`{tool}` needs approval every time, since it can do harm that cannot be undone{narrower}"
            ));
        }
        if all(KnownApproval::Never) {
            return Some(match takes_paths {
                true => format!(
                    "`{tool}` needs no approval in the workspace, and outside of it only a rule that names the path \
                     allows it: `{tool}(/path/**)`"
                ),
                false => format!("`{tool}` changes nothing, and needs no approval"),
            });
        }
        self.names_foreign(rule)
    }

    /// Why a rule about all calls of a tool covers none.
    fn names_foreign(&self, rule: &ToolRule) -> Option<String> {
        let mut named = self.known().named(&rule.tool).peekable();
        named.peek()?;
        let is_foreign = named.all(|(_, known)| known.approval == KnownApproval::Foreign);
        is_foreign.then(|| format!("haft has no tool `{}`", rule.tool))
    }

    /// The stricter rule that decides every call which a rule covers.
    fn overruled(&self, effect: Effect, rule: &ToolRule) -> Option<String> {
        let covers = |other: &ToolRule| match (&other.about, &rule.about) {
            (About::Tool, About::Tool | About::Commands(_)) => name_matches(&other.tool, &rule.tool),
            // A rule about files binds every tool.
            (About::Paths { class: other, pattern: one }, About::Paths { class, pattern }) => {
                (other == class || *other == super::book::Class::Read) && one == pattern
            }
            (about, own) => about == own && !matches!(own, About::Tool),
        };
        let stricter = Effect::ALL.into_iter().take_while(|other| *other != effect);
        let mut found = stricter.flat_map(|effect| self.iter().filter(move |(other, ..)| *other == effect));
        let (effect, other, origin) = found.find(|(_, other, _)| covers(other))?;
        let decides = match effect {
            Effect::Deny => "denies",
            Effect::Ask | Effect::Allow => "asks about",
            Effect::Try => "tries",
        };
        Some(format!("`{other}` {decides} the same, in {origin}, and the strictest rule holds"))
    }
}

/// Why a pattern hardly matches the paths that its author means.
fn matches_no_path(pattern: &str) -> Option<String> {
    let is_home = pattern.starts_with('~') && !pattern.starts_with("~/");
    is_home.then(|| format!("`{pattern}` names a file in the workspace; `~/…` is the home"))
}
