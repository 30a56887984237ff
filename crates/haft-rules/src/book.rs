//! The list of all rules with their origins, and the compiled form that matches calls.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use haft_core::{AbsPath, Access, Workspace};
use haft_sandbox::Kind;

use super::known::KnownTools;
use super::paths::Patterns;
use super::recommended::RECOMMENDED;
use super::tool_rule::{About, name_matches};
use super::{BadRule, Effect, EffectRule, ToolRule};
use haft_shell::{ParsedCommand, RuleSet};

/// Most entries of a folder that are searched for a match of a rule; a larger folder is assumed to have one.
const MAX_ENTRIES: usize = 20_000;

/// The access that a rule about files governs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Class {
    /// Reading. A file that must not be read must not be changed either.
    Read,
    /// Changing.
    Write,
}

/// All rules, each with its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleBook {
    rules: Vec<(Effect, ToolRule, String)>,
    effect_rules: Vec<EffectRule>,
    known: KnownTools,
}

impl RuleBook {
    /// An empty book, for rules about these tools.
    pub fn new(known: KnownTools) -> Self {
        Self { known, ..Self::default() }
    }

    /// The tools that rules can be about.
    pub fn known(&self) -> &KnownTools {
        &self.known
    }

    /// Replaces the tools that rules can be about.
    pub(super) fn set_known(&mut self, known: KnownTools) {
        self.known = known;
    }

    /// Adds a rule, with its origin. A rule that is there already is not added again.
    pub fn add(&mut self, effect: Effect, text: &str, origin: &str) -> Result<(), BadRule> {
        let rule = ToolRule::parse(text, &self.known)?;
        if !self.rules.iter().any(|(known, other, _)| *known == effect && *other == rule) {
            self.rules.push((effect, rule, origin.to_owned()));
        }
        Ok(())
    }

    /// Adds a rule about the effects of tried calls.
    pub fn add_effect_rule(&mut self, text: &str) -> Result<(), BadRule> {
        self.effect_rules.push(EffectRule::parse(text)?);
        Ok(())
    }

    /// The rules about the effects of tried calls.
    pub fn effect_rules(&self) -> &[EffectRule] {
        &self.effect_rules
    }

    /// Adds the recommended rules, which allow usual builds, tests and git commands and deny reading files with
    /// secrets.
    pub fn add_recommended(&mut self) -> Result<(), BadRule> {
        for (effect, rules) in RECOMMENDED {
            rules.iter().try_for_each(|rule| self.add(*effect, rule, "recommended"))?;
        }
        Ok(())
    }

    /// Every rule, with its origin.
    pub fn iter(&self) -> impl Iterator<Item = (Effect, &ToolRule, &str)> {
        self.rules.iter().map(|(effect, rule, origin)| (*effect, rule, origin.as_str()))
    }

    /// Whether the book has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn rules(&self, effect: Effect) -> impl Iterator<Item = &ToolRule> {
        self.rules.iter().filter(move |(other, ..)| *other == effect).map(|(_, rule, _)| rule)
    }
}

/// The rules of one effect, indexed by what they are about.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    tools: HashMap<String, ToolRule>,
    /// Rules with a wildcard in the tool's name.
    tool_patterns: Vec<ToolRule>,
    read: Patterns,
    write: Patterns,
    commands: RuleSet,
    command_rules: Vec<ToolRule>,
    hosts: Vec<ToolRule>,
}

impl Compiled {
    pub(super) fn new<'a>(
        rules: impl Iterator<Item = &'a ToolRule>,
        folders: &[PathBuf],
        home: Option<&Path>,
    ) -> Self {
        let mut compiled = Self::default();
        let (mut read, mut write, mut commands) = (Vec::new(), Vec::new(), Vec::new());
        for rule in rules {
            match &rule.about {
                About::Tool if rule.tool.contains('*') => compiled.tool_patterns.push(rule.clone()),
                About::Tool => drop(compiled.tools.insert(rule.tool.clone(), rule.clone())),
                About::Paths { class: Class::Read, pattern } => read.push((rule.clone(), pattern.clone())),
                About::Paths { class: Class::Write, pattern } => write.push((rule.clone(), pattern.clone())),
                About::Commands(about) => {
                    if let Ok(command) = haft_shell::Rule::parse(about) {
                        commands.push(command);
                        compiled.command_rules.push(rule.clone());
                    }
                }
                About::Domain { .. } => compiled.hosts.push(rule.clone()),
            }
        }
        compiled.read = Patterns::new(read, folders, home);
        compiled.write = Patterns::new(write, folders, home);
        compiled.commands = RuleSet::new(commands);
        compiled
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
            && self.tool_patterns.is_empty()
            && self.read.is_empty()
            && self.write.is_empty()
            && self.commands.is_empty()
            && self.hosts.is_empty()
    }

    pub(super) fn paths(&self, class: Class) -> &Patterns {
        match class {
            Class::Read => &self.read,
            Class::Write => &self.write,
        }
    }

    /// The rule that covers every call of a tool.
    pub(super) fn tool(&self, name: &str) -> Option<&ToolRule> {
        self.tools.get(name).or_else(|| self.tool_patterns.iter().find(|rule| name_matches(&rule.tool, name)))
    }

    pub(super) fn has_command_rules(&self) -> bool {
        !self.commands.is_empty()
    }

    pub(super) fn denies_command(&self, understood: &ParsedCommand) -> Option<&ToolRule> {
        self.commands.denies(understood).map(|rule| &self.command_rules[rule])
    }

    /// A rule that might mean a command, and the part of the command that is not certain.
    pub(super) fn might_deny_command(&self, understood: &ParsedCommand) -> Option<(&ToolRule, String)> {
        let found = self.commands.might_deny(understood)?;
        Some((&self.command_rules[found.rule], found.because))
    }

    pub(super) fn allows_command(&self, understood: &ParsedCommand) -> Option<(&ToolRule, bool)> {
        let covered = self.commands.allows(understood)?;
        Some((&self.command_rules[covered.by], covered.exact))
    }

    pub(super) fn host(&self, host: &str) -> Option<&ToolRule> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.iter().find(|rule| match &rule.about {
            About::Domain { host: named, subdomains: false } => *named == host,
            About::Domain { host: named, subdomains: true } => {
                host.strip_suffix(named.as_str()).is_some_and(|sub| sub.ends_with('.') && sub.len() > 1)
            }
            _ => false,
        })
    }

    /// The rule that covers an access to a path, or to something in that folder; with the subject for messages.
    pub(super) fn on_path(
        &self,
        access: Access,
        path: &AbsPath,
        workspace: &Workspace,
    ) -> Option<(&ToolRule, String)> {
        let subject = || format!("`{}`", workspace.display(path));
        let classes: &[Class] =
            if access == Access::Write { &[Class::Read, Class::Write] } else { &[Class::Read] };
        for class in classes {
            let patterns = self.paths(*class);
            if let Some(found) = patterns.matches(path.as_path()) {
                return Some((found.rule, subject()));
            }
            // A tool that reads a folder checks each file on its own. A change to a folder (move, delete) affects
            // everything in it at once, so it is checked here.
            if access == Access::Write && !patterns.is_empty() {
                let has_match = || contains(path, patterns, workspace);
                if let Some(rule) =
                    is_folder(path, workspace).then(|| patterns.within(path.as_path(), has_match)).flatten()
                {
                    return Some((rule, format!("something in {}", subject())));
                }
            }
        }
        None
    }

    /// The rule that allows an access to a path.
    pub(super) fn allows_path(
        &self,
        access: Access,
        path: &AbsPath,
        workspace: &Workspace,
    ) -> Option<&ToolRule> {
        let runs_code = || {
            let claims = haft_core::Claims::none().write(haft_core::Resource::Path(path.clone()));
            haft_core::permissions::runs_code(&claims, workspace).is_some()
        };
        let written = self.write.matches(path.as_path());
        if access == Access::Read {
            return self.read.matches(path.as_path()).or(written).map(|found| found.rule);
        }
        written.filter(|found| found.names_code || !runs_code()).map(|found| found.rule)
    }
}

fn is_folder(path: &AbsPath, workspace: &Workspace) -> bool {
    workspace.stat(path).is_ok_and(|stat| stat.kind == Kind::Directory)
}

/// Whether a pattern matches something in a folder. A folder with too many entries is assumed to contain a match.
fn contains(folder: &AbsPath, patterns: &Patterns, workspace: &Workspace) -> bool {
    let mut entries = 0;
    let mut folders = vec![folder.clone()];
    while let Some(folder) = folders.pop() {
        for name in workspace.names(&folder).unwrap_or_default() {
            let path = folder.child(&name.name);
            entries += 1;
            if entries > MAX_ENTRIES || patterns.matches(path.as_path()).is_some() {
                return true;
            }
            if name.kind == Kind::Directory {
                folders.push(path);
            }
        }
    }
    false
}
