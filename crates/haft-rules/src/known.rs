//! The tools that rules can be about, as a registry tells of them. No tool is known here by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft_core::{Category, DynTool, Spec, suggest};

use super::BadRule;
use super::book::Class;

/// The tools that rules can be about, and what each is for. Cheap to clone.
///
/// ```
/// use haft_core::{Category, Spec};
/// use haft_rules::{KnownTools, Written};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Deploy {
///     /// The file that says where to
///     target: String,
/// }
///
/// let deploy = Spec::of::<Deploy>("deploy", "Deploys the project").category(Category::File);
/// let known = KnownTools::none().with(&deploy);
/// assert!(Written::parse("deploy(targets/*.toml)", &known).is_ok());
/// assert!(Written::parse("deplyo", &known).is_err(), "it is too near to be another tool");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTools(Arc<BTreeMap<Arc<str>, Kind>>);

/// What stands in the brackets of a rule about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A command.
    Shell,
    /// Paths.
    Files(Class),
    /// Hosts.
    Web,
    /// Nothing.
    Other,
}

impl KnownTools {
    /// No tools: rules can only be about tools as a whole.
    pub fn none() -> Self {
        Self::default()
    }

    /// These tools, and the names that other agents have for some of them.
    pub fn of(tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        let mut known: BTreeMap<Arc<str>, Kind> = [
            ("LS", Kind::Files(Class::Read)),
            ("MultiEdit", Kind::Files(Class::Write)),
            ("WebFetch", Kind::Web),
            ("WebSearch", Kind::Other),
        ]
        .map(|(name, kind)| (name.into(), kind))
        .into();
        known.extend(tools.into_iter().map(|tool| (tool.spec().name.clone(), kind(tool.spec()))));
        Self(Arc::new(known))
    }

    /// With another tool.
    #[must_use]
    pub fn with(mut self, spec: &Spec) -> Self {
        if self.0.get(&spec.name) != Some(&kind(spec)) {
            Arc::make_mut(&mut self.0).insert(spec.name.clone(), kind(spec));
        }
        self
    }

    /// Whether there is a tool of a name.
    pub fn has(&self, tool: &str) -> bool {
        self.0.contains_key(tool)
    }

    /// What stands in the brackets of a rule about a tool. A name that no tool has may be that of a tool which is added
    /// later, by a program or a server; one that is nearly the name of a tool is taken for a mistake.
    pub(super) fn kind(&self, tool: &str) -> Result<Kind, BadRule> {
        if let Some(kind) = self.0.get(tool) {
            return Ok(*kind);
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

fn kind(spec: &Spec) -> Kind {
    match (spec.category, spec.read_only) {
        (Category::Shell, _) => Kind::Shell,
        (Category::File | Category::Search, true) => Kind::Files(Class::Read),
        (Category::File, false) => Kind::Files(Class::Write),
        (Category::Web, _) => Kind::Web,
        _ => Kind::Other,
    }
}
