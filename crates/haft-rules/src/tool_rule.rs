//! Parses rules: `Tool`, or `Tool(pattern)` with a path, command or host as the pattern.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::Path;

use haft_core::Fault;
use haft_shell as shell;

use super::book::{Class, Compiled};
use super::known::{Kind, KnownTools};
use super::{Effect, paths};

/// A parsed rule, with its source text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolRule {
    text: String,
    pub(super) tool: String,
    pub(super) about: About,
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum About {
    /// Every call of the tool, or of the tools that match its wildcard.
    Tool,
    /// Accesses to files that match a pattern.
    Paths { class: Class, pattern: String },
    /// Commands that match a rule of `haft_shell`.
    Commands(String),
    /// A host, or all its subdomains.
    Domain { host: String, subdomains: bool },
}

/// Why a rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// Not of the form `Tool` or `Tool(pattern)`.
    #[error("`{0}` is no rule: write `Tool`, or `Tool(what it is about)`")]
    Form(String),
    /// No tool has this name, but one has a similar name.
    #[error("there is no tool `{tool}`{hint}")]
    UnknownTool {
        /// The unknown name.
        tool: String,
        /// A suggestion, to append to the message.
        hint: String,
    },
    /// Invalid path, command or host in the brackets.
    #[error("`{rule}`: {why}")]
    About {
        /// The rule.
        rule: String,
        /// The error.
        why: String,
    },
    /// An example contradicts the rule.
    #[error("`{rule}` {what} `{example}`, which it should{not}", what = if *.matches { "covers" } else { "does not cover" }, not = if *.matches { " not" } else { "" })]
    Example {
        /// The rule.
        rule: String,
        /// The example.
        example: String,
        /// Whether the rule covers the example.
        matches: bool,
    },
}

impl From<BadRule> for Fault {
    fn from(error: BadRule) -> Self {
        Fault::invalid(error.to_string())
    }
}

impl ToolRule {
    /// Parses a rule about one of the known tools.
    pub fn parse(text: &str, known: &KnownTools) -> Result<Self, BadRule> {
        let text = text.trim();
        let form = || BadRule::Form(text.to_owned());
        let (tool, about) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(form)?)),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.*/".contains(c);
        if tool.is_empty() || !tool.chars().all(is_name) || text.chars().any(char::is_control) {
            return Err(form());
        }
        let wrong = |why: String| BadRule::About { rule: text.to_owned(), why };
        let kind = known.kind(tool)?;
        let about = match about {
            None => About::Tool,
            Some(about) if about.trim().is_empty() => {
                return Err(wrong("nothing stands in the brackets".into()));
            }
            Some("*") => About::Tool,
            Some(about) => match kind {
                Kind::Shell => {
                    shell::Rule::parse(about).map_err(|error| wrong(error.to_string()))?;
                    About::Commands(about.to_owned())
                }
                Kind::Files(class) => {
                    paths::check(about).map_err(wrong)?;
                    About::Paths { class, pattern: about.to_owned() }
                }
                Kind::Web => domain(about).map_err(wrong)?,
                Kind::Other => return Err(wrong(format!("`{tool}` takes nothing in brackets"))),
            },
        };
        Ok(Self { text: text.to_owned(), tool: tool.to_owned(), about })
    }

    /// Name of the tool, or a pattern with wildcards.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Source text of the rule.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks the examples of a rule: it must cover all of `matches` and none of `not_matches`.
    pub fn check_examples(
        &self,
        effect: Effect,
        matches: &[String],
        not_matches: &[String],
        root: &Path,
        home: Option<&Path>,
    ) -> Result<(), BadRule> {
        let wrong = |example: &String, matches| {
            Err(BadRule::Example { rule: self.text.clone(), example: example.clone(), matches })
        };
        let covers = |example: &&String| self.covers(example, effect, root, home);
        if let Some(example) = matches.iter().find(|example| !covers(example)) {
            return wrong(example, false);
        }
        match not_matches.iter().find(covers) {
            Some(example) => wrong(example, true),
            None => Ok(()),
        }
    }

    /// Whether the rule covers a tool, path, command or host.
    fn covers(&self, example: &str, effect: Effect, root: &Path, home: Option<&Path>) -> bool {
        match &self.about {
            About::Tool => name_matches(&self.tool, example),
            About::Commands(rule) => {
                let side = if effect == Effect::Allow { shell::Side::Allow } else { shell::Side::Deny };
                shell::matches(rule, &shell::parse(example), side)
            }
            About::Paths { pattern, .. } => {
                let rules = vec![(self.clone(), pattern.clone())];
                paths::Patterns::new(rules, &[root.to_owned()], home).matches(&root.join(example)).is_some()
            }
            About::Domain { .. } => Compiled::new(std::iter::once(self), &[], None).host(example).is_some(),
        }
    }

    /// A rule for a tool about a path pattern.
    pub(super) fn on_path(tool: &str, pattern: &str, known: &KnownTools) -> Option<Self> {
        Self::parse(&format!("{tool}({pattern})"), known).ok()
    }
}

impl fmt::Display for ToolRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a name matches a pattern with `*` wildcards.
pub(super) fn name_matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => {
            let Some(behind) = name.strip_prefix(start) else { return false };
            match rest.is_empty() {
                true => true,
                false => (0..=behind.len())
                    .any(|at| behind.is_char_boundary(at) && name_matches(rest, &behind[at..])),
            }
        }
    }
}

/// Parses `domain:example.org` or `domain:*.example.org`.
fn domain(about: &str) -> Result<About, String> {
    let Some(domain) = about.strip_prefix("domain:") else {
        return Err("write the host as `domain:example.org`".to_owned());
    };
    let (host, subdomains) = match domain.strip_prefix("*.") {
        Some(host) => (host, true),
        None => (domain, false),
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    // An address of IPv6, as URLs write it.
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_address = !subdomains && address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    match is_address || host.split('.').all(is_label) {
        true => Ok(About::Domain { host, subdomains }),
        false => Err(format!("`{host}` is no host")),
    }
}
