//! Rules that people write about calls: `Edit(src/**)`, `Bash(git status:*)`, `mcp__github__*`. What is denied stays
//! denied, then it is asked, then it is allowed; among rules of one kind the order does not matter. A rule about
//! files binds every call that touches them, whatever the tool is called and however the file is named.

mod book;
mod judge;
mod known;
mod paths;
mod recommended;
mod written;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::permissions::HiddenFiles;
use haft_core::{AbsPath, Access, Claims, CommandLine, Resource, Workspace};

pub use book::Book;
pub use judge::{Memory, RuleJudge, Ruled};
pub use known::KnownTools;
pub use written::{BadRule, Written};

use book::{Class, Compiled};
use haft_shell::{self as shell, Understood};

/// What a rule does to the calls that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// They do not happen, and nobody is asked.
    Deny,
    /// Somebody is asked.
    Ask,
    /// They happen, and nobody is asked.
    Allow,
}

impl Effect {
    /// Every effect, the strictest first.
    pub const ALL: [Effect; 3] = [Effect::Deny, Effect::Ask, Effect::Allow];

    /// The name of the effect, as it stands in settings.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Deny => "deny",
            Effect::Ask => "ask",
            Effect::Allow => "allow",
        }
    }
}

/// What the rules say of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// What becomes of it.
    pub effect: Effect,
    /// The rule that says so, as it is written.
    pub rule: Written,
    /// What of the call it is about.
    pub about: String,
    /// Whether the rule means this very call, and not only calls like it.
    pub exactly: bool,
}

/// Rules that are ready to be asked, for one workspace.
#[derive(Debug, Default)]
pub struct Rules {
    deny: Compiled,
    ask: Compiled,
    allow: Compiled,
}

/// A call as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Everything that it may touch.
    pub claims: &'a Claims,
    /// Where.
    pub workspace: &'a Workspace,
}

impl Rules {
    /// Makes the rules of a book ready for a workspace. `home` is what `~` stands for.
    pub fn new(book: &Book, workspace: &Workspace, home: Option<&Path>) -> Self {
        let folders: Vec<PathBuf> =
            workspace.folders().iter().map(|folder| folder.path.as_path().to_owned()).collect();
        let compiled = |effect| Compiled::new(book.rules(effect), &folders, home);
        Self { deny: compiled(Effect::Deny), ask: compiled(Effect::Ask), allow: compiled(Effect::Allow) }
    }

    /// What the rules say of a call, if they say anything.
    pub fn rule_on(&self, called: &Called<'_>) -> Option<Ruling> {
        self.touched_by(&self.deny, Effect::Deny, called)
            .or_else(|| self.touched_by(&self.ask, Effect::Ask, called))
            .or_else(|| self.covered(called))
    }

    /// A rule that denies commands and might be about one of these, which does not tell what it runs.
    pub fn might_deny(&self, claims: &Claims) -> Option<(&Written, String)> {
        claims.iter().find_map(|(_, resource)| match resource {
            Resource::Command(line) => {
                Some((self.deny.might_deny_command(&meaning(line))?, line.text().to_owned()))
            }
            _ => None,
        })
    }

    /// Whether the content of a file is not to be read.
    pub fn hides(&self, path: &AbsPath) -> bool {
        self.deny.paths(Class::Read).matches(path.as_path()).is_some()
    }

    /// What is not to be read and need not lie in the workspace, as far as it can be named.
    pub fn hidden_outside(&self) -> Vec<PathBuf> {
        self.deny.paths(Class::Read).absolute()
    }

    /// Whether any rule keeps content from being read.
    pub fn hide_something(&self) -> bool {
        !self.deny.paths(Class::Read).is_empty()
    }

    /// Whether any rule keeps files from being changed.
    pub fn guard_something(&self) -> bool {
        !self.deny.paths(Class::Write).is_empty()
    }

    /// Whether a file is not to be changed.
    pub fn guards(&self, path: &AbsPath) -> bool {
        self.deny.paths(Class::Write).matches(path.as_path()).is_some() || self.hides(path)
    }

    /// The rule that forbids, or asks about, any part of a call.
    fn touched_by(&self, rules: &Compiled, effect: Effect, called: &Called<'_>) -> Option<Ruling> {
        if rules.is_empty() {
            return None;
        }
        let ruling =
            |rule: &Written, about: String| Ruling { effect, rule: rule.clone(), about, exactly: true };
        if let Some(rule) = rules.tool(called.tool) {
            return Some(ruling(rule, format!("`{}`", called.tool)));
        }
        for (access, resource) in called.claims.iter() {
            let found = match resource {
                Resource::Path(path) => rules.on_path(access, path, called.workspace),
                Resource::Command(line) => {
                    rules.denies_command(&meaning(line)).map(|rule| (rule, format!("`{}`", line.text())))
                }
                Resource::Host(host) => rules.host(host).map(|rule| (rule, format!("`{host}`"))),
                _ => None,
            };
            if let Some((rule, about)) = found {
                return Some(ruling(rule, about));
            }
        }
        None
    }

    /// The rule that allows all of a call.
    fn covered(&self, called: &Called<'_>) -> Option<Ruling> {
        let rules = &self.allow;
        if rules.is_empty() {
            return None;
        }
        let ruling = |rule: &Written, exactly| {
            let about = format!("`{}`", called.tool);
            Some(Ruling { effect: Effect::Allow, rule: rule.clone(), about, exactly })
        };
        let mut by: Option<&Written> = rules.tool(called.tool);
        let by_tool = by.is_some();
        let mut exactly = !by_tool;
        let mut written_down = false;
        for (access, resource) in called.claims.iter() {
            let inside = match resource {
                Resource::Path(path) => called.workspace.access(path).is_some(),
                _ => true,
            };
            let rule = match resource {
                Resource::Path(path) => match rules.allows_path(access, path, called.workspace) {
                    Some(rule) => Some(rule),
                    // A rule for a tool, or a command, reaches everywhere in the workspace but where other programs
                    // are made to run something.
                    None if inside && access == Access::Read => continue,
                    // Somebody wrote down this very command, and with it what it touches.
                    None if written_down => continue,
                    None if inside
                        && (by_tool || is_command(called.claims))
                        && !is_delicate(path, called) =>
                    {
                        continue;
                    }
                    None => return None,
                },
                Resource::Command(line) => {
                    match rules.allows_command(&meaning(line)) {
                        Some((rule, exact)) => {
                            exactly &= exact;
                            written_down = exact;
                            Some(rule)
                        }
                        // What only reads needs no rule for itself, only for what it reads.
                        None if by_tool || access == Access::Read => continue,
                        None => return None,
                    }
                }
                Resource::Host(host) => match rules.host(host) {
                    Some(rule) => Some(rule),
                    None if by_tool || is_command(called.claims) => continue,
                    None => return None,
                },
                Resource::State(_) => continue,
                // What nobody knows the reach of is allowed by a rule for the tool or the command, or not at all.
                _ if by_tool || is_command(called.claims) => continue,
                _ => return None,
            };
            by = by.or(rule);
        }
        ruling(by?, exactly)
    }
}

impl HiddenFiles for Rules {
    fn hides(&self, path: &AbsPath) -> bool {
        Rules::hides(self, path)
    }
}

/// What a command means, as whoever claimed it knows or as it is read now.
fn meaning(line: &CommandLine) -> Arc<Understood> {
    line.meaning::<Understood>().unwrap_or_else(|| Arc::new(shell::parse(line.text())))
}

fn is_command(claims: &Claims) -> bool {
    claims.iter().any(|(_, resource)| matches!(resource, Resource::Command(_)))
}

/// Whether a change of a place makes other programs run something.
fn is_delicate(path: &AbsPath, called: &Called<'_>) -> bool {
    haft_core::permissions::runs_code(&Claims::none().write(Resource::Path(path.clone())), called.workspace)
        .is_some()
}
