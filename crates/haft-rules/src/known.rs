//! The tools that rules can be about, taken from a registry. Has no list of tools of its own, except names that other
//! agents use.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft_core::{Category, DynTool, Sensitivity, Spec, suggest};

use super::BadRule;
use super::book::Class;
use super::tool_rule::name_matches;

/// The tools that rules can be about, and the syntax of rules for each. Cheap to clone.
///
/// ```
/// use haft_core::{Category, Spec};
/// use haft_rules::{KnownTools, ToolRule};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Deploy {
///     /// The file that says where to
///     target: String,
/// }
///
/// let deploy = Spec::of::<Deploy>("deploy", "Deploys the project").category(Category::File);
/// let known = KnownTools::none().with(&deploy);
/// assert!(ToolRule::parse("deploy(targets/*.toml)", &known).is_ok());
/// assert!(ToolRule::parse("deplyo", &known).is_err(), "probably a typing mistake");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTools(Arc<BTreeMap<Arc<str>, Known>>);

/// What is known of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) kind: Kind,
    pub(super) approval: KnownApproval,
}

/// When calls of a tool need approval, as far as that is the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownApproval {
    /// Never: they change nothing.
    Never,
    /// That depends on the call.
    Depends,
    /// Every time: they can do harm that cannot be undone.
    Always,
    /// There is no such tool here; other agents have one of this name.
    Foreign,
}

/// What the brackets of a rule about a tool contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A command.
    Shell,
    /// Paths.
    Files(Class),
    /// Hosts.
    Web,
    /// Nothing: the rule has no brackets.
    Other,
}

impl KnownTools {
    /// No tools: rules can only cover all calls of a tool.
    pub fn none() -> Self {
        Self::default()
    }

    /// These tools, and names that other agents use for some of them.
    pub fn of(tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        let mut known: BTreeMap<Arc<str>, Known> = [
            ("LS", Kind::Files(Class::Read)),
            ("MultiEdit", Kind::Files(Class::Write)),
            ("WebFetch", Kind::Web),
            ("WebSearch", Kind::Other),
        ]
        .map(|(name, kind)| (name.into(), Known { kind, approval: KnownApproval::Foreign }))
        .into();
        known.extend(tools.into_iter().map(|tool| (tool.spec().name.clone(), known_of(tool.spec()))));
        Self(Arc::new(known))
    }

    /// Adds a tool.
    #[must_use]
    pub fn with(mut self, spec: &Spec) -> Self {
        if self.0.get(&spec.name) != Some(&known_of(spec)) {
            Arc::make_mut(&mut self.0).insert(spec.name.clone(), known_of(spec));
        }
        self
    }

    /// Whether a tool has this name.
    pub fn has(&self, tool: &str) -> bool {
        self.0.contains_key(tool)
    }

    /// The tools that a rule with this name, or pattern of names, is about.
    pub(super) fn named<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = (&'a str, Known)> + 'a {
        let all = self.0.iter().filter(move |(name, _)| name_matches(pattern, name));
        all.map(|(name, known)| (&**name, *known))
    }

    /// What the brackets of a rule about a tool contain. An unknown name is accepted, since a program or a server may
    /// add the tool later, unless it is so close to a known name that it is probably a typing mistake.
    pub(super) fn kind(&self, tool: &str) -> Result<Kind, BadRule> {
        if let Some(known) = self.0.get(tool) {
            return Ok(known.kind);
        }
        if tool.starts_with("mcp__") || tool.contains('*') {
            return Ok(Kind::Other);
        }
        match suggest::nearest(tool, self.0.keys().map(|name| &**name), 1).first() {
            Some(near) => {
                Err(BadRule::UnknownTool { tool: tool.to_owned(), hint: format!("; perhaps `{near}`") })
            }
            None => Ok(Kind::Other),
        }
    }
}

fn known_of(spec: &Spec) -> Known {
    let approval = match spec.sensitivity {
        Sensitivity::Safe => KnownApproval::Never,
        Sensitivity::Extreme => KnownApproval::Always,
        _ => KnownApproval::Depends,
    };
    Known { kind: kind(spec), approval }
}

fn kind(spec: &Spec) -> Kind {
    match (spec.category, spec.read_only) {
        (Category::Shell, _) => Kind::Shell,
        (Category::File | Category::Search, true) => Kind::Files(Class::Read),
        (Category::File, false) => Kind::Files(Class::Write),
        (Category::Web, _) => Kind::Web,
        _ => Kind::Other,
    }
}
