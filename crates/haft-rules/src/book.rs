//! All rules that hold, with where they came from; and the same made ready to be asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use haft_core::{AbsPath, Access, Workspace};
use haft_sandbox::Kind;

use super::known::KnownTools;
use super::paths::Patterns;
use super::recommended::RECOMMENDED;
use super::written::{About, fits};
use super::{BadRule, Effect, Written};
use haft_shell::{RuleSet, Understood};

/// More entries of a folder are not looked at to see whether a rule is about one of them: it is then taken to be.
const MAX_LOOKED_AT: usize = 20_000;

/// What a rule about files is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Class {
    /// Reading them; what may not be read may not be changed, either.
    Read,
    /// Changing them.
    Write,
}

/// Rules as they were written, each with where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    rules: Vec<(Effect, Written, String)>,
    known: KnownTools,
}

impl Book {
    /// A book without rules, for rules about these tools.
    pub fn new(known: KnownTools) -> Self {
        Self { rules: Vec::new(), known }
    }

    /// The tools that rules can be about.
    pub fn known(&self) -> &KnownTools {
        &self.known
    }

    /// Adds tools that rules can be about.
    pub(super) fn learn(&mut self, known: KnownTools) {
        self.known = known;
    }

    /// Adds a rule that was found in a place.
    pub fn add(&mut self, effect: Effect, text: &str, place: &str) -> Result<(), BadRule> {
        let rule = Written::parse(text, &self.known)?;
        if !self.rules.iter().any(|(known, other, _)| *known == effect && *other == rule) {
            self.rules.push((effect, rule, place.to_owned()));
        }
        Ok(())
    }

    /// Adds rules that most people agree with: usual builds, tests and git commands are allowed, files with secrets
    /// denied.
    pub fn recommend(&mut self) -> Result<(), BadRule> {
        for (effect, rules) in RECOMMENDED {
            rules.iter().try_for_each(|rule| self.add(*effect, rule, "recommended"))?;
        }
        Ok(())
    }

    /// Every rule, with where it was found.
    pub fn iter(&self) -> impl Iterator<Item = (Effect, &Written, &str)> {
        self.rules.iter().map(|(effect, rule, place)| (*effect, rule, place.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn rules(&self, effect: Effect) -> impl Iterator<Item = &Written> {
        self.rules.iter().filter(move |(other, ..)| *other == effect).map(|(_, rule, _)| rule)
    }
}

/// Rules of one effect.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    tools: HashMap<String, Written>,
    /// Tools by a pattern of their name.
    families: Vec<Written>,
    read: Patterns,
    write: Patterns,
    commands: RuleSet,
    command_rules: Vec<Written>,
    hosts: Vec<Written>,
}

impl Compiled {
    pub(super) fn new<'a>(
        rules: impl Iterator<Item = &'a Written>,
        folders: &[PathBuf],
        home: Option<&Path>,
    ) -> Self {
        let mut compiled = Self::default();
        let (mut read, mut write, mut commands) = (Vec::new(), Vec::new(), Vec::new());
        for rule in rules {
            match &rule.about {
                About::Tool if rule.tool.contains('*') => compiled.families.push(rule.clone()),
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
            && self.families.is_empty()
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

    /// The rule for every call of a tool.
    pub(super) fn tool(&self, name: &str) -> Option<&Written> {
        self.tools.get(name).or_else(|| self.families.iter().find(|rule| fits(&rule.tool, name)))
    }

    pub(super) fn denies_command(&self, understood: &Understood) -> Option<&Written> {
        self.commands.denies(understood).map(|rule| &self.command_rules[rule])
    }

    pub(super) fn might_deny_command(&self, understood: &Understood) -> Option<&Written> {
        self.commands.might_deny(understood).map(|rule| &self.command_rules[rule])
    }

    pub(super) fn allows_command(&self, understood: &Understood) -> Option<(&Written, bool)> {
        let covered = self.commands.allows(understood)?;
        Some((&self.command_rules[covered.by], covered.exactly))
    }

    pub(super) fn host(&self, host: &str) -> Option<&Written> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.iter().find(|rule| match &rule.about {
            About::Domain { host: named, below: false } => *named == host,
            About::Domain { host: named, below: true } => {
                host.strip_suffix(named.as_str()).is_some_and(|sub| sub.ends_with('.') && sub.len() > 1)
            }
            _ => false,
        })
    }

    /// The rule that forbids what is done to a path, or to something in the folder that it is.
    pub(super) fn on_path(
        &self,
        access: Access,
        path: &AbsPath,
        workspace: &Workspace,
    ) -> Option<(&Written, String)> {
        let about = || format!("`{}`", workspace.display(path));
        let classes: &[Class] =
            if access == Access::Write { &[Class::Read, Class::Write] } else { &[Class::Read] };
        for class in classes {
            let patterns = self.paths(*class);
            if let Some(found) = patterns.matches(path.as_path()) {
                return Some((found.rule, about()));
            }
            // What is read of a folder is looked at file by file; what is done to a folder, is done to all in it.
            if access == Access::Write && !patterns.is_empty() {
                let is_there = || contains(path, patterns, workspace);
                if let Some(rule) =
                    is_folder(path, workspace).then(|| patterns.within(path.as_path(), is_there)).flatten()
                {
                    return Some((rule, format!("something in {}", about())));
                }
            }
        }
        None
    }

    /// The rule that allows what is done to a path.
    pub(super) fn allows_path(
        &self,
        access: Access,
        path: &AbsPath,
        workspace: &Workspace,
    ) -> Option<&Written> {
        let delicate = || {
            let claims = haft_core::Claims::none().write(haft_core::Resource::Path(path.clone()));
            haft_core::permissions::runs_code(&claims, workspace).is_some()
        };
        let written = self.write.matches(path.as_path());
        if access == Access::Read {
            return self.read.matches(path.as_path()).or(written).map(|found| found.rule);
        }
        written.filter(|found| found.names_delicate || !delicate()).map(|found| found.rule)
    }
}

fn is_folder(path: &AbsPath, workspace: &Workspace) -> bool {
    workspace.stat(path).is_ok_and(|stat| stat.kind == Kind::Directory)
}

/// Whether there is something in a folder that a pattern fits; a folder that is too large is taken to have it.
fn contains(folder: &AbsPath, patterns: &Patterns, workspace: &Workspace) -> bool {
    let mut looked_at = 0;
    let mut folders = vec![folder.clone()];
    while let Some(folder) = folders.pop() {
        for name in workspace.names(&folder).unwrap_or_default() {
            let path = folder.child(&name.name);
            looked_at += 1;
            if looked_at > MAX_LOOKED_AT || patterns.matches(path.as_path()).is_some() {
                return true;
            }
            if name.kind == Kind::Directory {
                folders.push(path);
            }
        }
    }
    false
}
