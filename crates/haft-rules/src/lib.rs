//! Permission rules for tool calls: `Edit(src/**)`, `Bash(git status:*)`, `mcp__github__*`. Deny rules take precedence
//! over ask rules, and these over allow rules; the order within one effect does not matter. A rule about files binds
//! every call that accesses them, through any tool and under any path. Knows no tool by itself: a registry lists them.

mod book;
mod effect_rule;
mod ineffective;
mod judge;
mod known;
mod paths;
mod recommended;
mod scripts;
mod tool_rule;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::permissions::HiddenFiles;
use haft_core::{AbsPath, Access, Claims, CommandLine, Resource, Workspace};

pub use book::RuleBook;
pub use effect_rule::{EffectRule, Happened};
pub use judge::{RuleJudge, RuleSource, RuleStore, SessionJudge};
pub use known::KnownTools;
pub use tool_rule::{BadRule, ToolRule};

use book::{Class, Compiled};
use effect_rule::EffectPatterns;
use haft_shell::{self as shell, ParsedCommand};

/// The effect of a rule on the calls that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Refuses the call without asking.
    Deny,
    /// Asks for approval.
    Ask,
    /// Tries the call without asking, and asks about its effects.
    Try,
    /// Allows the call without asking.
    Allow,
}

impl Effect {
    /// Every effect, the strictest first.
    pub const ALL: [Effect; 4] = [Effect::Deny, Effect::Ask, Effect::Try, Effect::Allow];

    /// Name of the effect in settings.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Deny => "deny",
            Effect::Ask => "ask",
            Effect::Try => "try",
            Effect::Allow => "allow",
        }
    }
}

/// The decision of the rules on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The effect on the call.
    pub effect: Effect,
    /// The rule that decided.
    pub rule: ToolRule,
    /// The part of the call that the rule is about: a tool, path, command or host, for messages.
    pub about: String,
    /// Whether the rule names exactly this call, without wildcards.
    pub exactly: bool,
}

/// Whether the script files that a command runs are read, to find out what is not certain about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// They are read.
    Read,
    /// They are trusted to be what the author of a rule about the command knows.
    Trusted,
}

/// Rules compiled for one workspace.
#[derive(Debug, Default)]
pub struct Rules {
    deny: Compiled,
    ask: Compiled,
    tried: Compiled,
    allow: Compiled,
    effects: EffectPatterns,
}

/// The parts of a call that rules look at.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Everything that the call may access.
    pub claims: &'a Claims,
    /// The workspace of the session.
    pub workspace: &'a Workspace,
}

impl Rules {
    /// Compiles the rules of a book for a workspace. `home` replaces `~`.
    pub fn new(book: &RuleBook, workspace: &Workspace, home: Option<&Path>) -> Self {
        let folders: Vec<PathBuf> =
            workspace.folders().iter().map(|folder| folder.path.as_path().to_owned()).collect();
        let compiled = |effect| Compiled::new(book.rules(effect), &folders, home);
        Self {
            deny: compiled(Effect::Deny),
            ask: compiled(Effect::Ask),
            tried: compiled(Effect::Try),
            allow: compiled(Effect::Allow),
            effects: EffectPatterns::new(book.effect_rules(), &folders, home),
        }
    }

    /// The decision on a call; `None` if no rule covers it.
    pub fn rule_on(&self, called: &CallFacts<'_>) -> Option<Ruling> {
        self.match_any_part(&self.deny, Effect::Deny, called)
            .or_else(|| self.match_any_part(&self.ask, Effect::Ask, called))
            .or_else(|| self.match_any_part(&self.tried, Effect::Try, called))
            .or_else(|| self.allow_all_parts(called))
    }

    /// A deny rule that might mean a claimed command which is not certain, and the part that is not.
    pub fn might_deny(&self, called: &CallFacts<'_>, scripts: Scripts) -> Option<(&ToolRule, String)> {
        called.claims.iter().find_map(|(_, resource)| match resource {
            Resource::Command(_) if !self.deny.has_command_rules() => None,
            Resource::Command(line) => {
                let understood = match scripts {
                    Scripts::Read => scripts::parsed(line, called.workspace),
                    Scripts::Trusted => parsed(line),
                };
                self.deny.might_deny_command(&understood)
            }
            _ => None,
        })
    }

    /// The rule that approves an effect of a tried call on a path.
    pub fn approves(&self, happened: Happened, path: &AbsPath) -> Option<&EffectRule> {
        self.effects.approves(happened, path)
    }

    /// Whether a rule denies reading a file.
    pub fn hides(&self, path: &AbsPath) -> bool {
        self.deny.paths(Class::Read).matches(path.as_path()).is_some()
    }

    /// Absolute paths that rules deny reading, inside or outside of the workspace. Patterns with other wildcards than
    /// a final `/**` are left out.
    pub fn hidden_outside(&self) -> Vec<PathBuf> {
        self.deny.paths(Class::Read).absolute()
    }

    /// Whether any rule denies reading files.
    pub fn hide_something(&self) -> bool {
        !self.deny.paths(Class::Read).is_empty()
    }

    /// Whether any rule denies changing files.
    pub fn guard_something(&self) -> bool {
        !self.deny.paths(Class::Write).is_empty()
    }

    /// Whether a rule denies changing a file.
    pub fn guards(&self, path: &AbsPath) -> bool {
        self.deny.paths(Class::Write).matches(path.as_path()).is_some() || self.hides(path)
    }

    /// The first deny or ask rule that covers any part of a call.
    fn match_any_part(&self, rules: &Compiled, effect: Effect, called: &CallFacts<'_>) -> Option<Ruling> {
        if rules.is_empty() {
            return None;
        }
        let ruling =
            |rule: &ToolRule, about: String| Ruling { effect, rule: rule.clone(), about, exactly: true };
        if let Some(rule) = rules.tool(called.tool) {
            return Some(ruling(rule, format!("`{}`", called.tool)));
        }
        for (access, resource) in called.claims.iter() {
            let found = match resource {
                Resource::Path(path) => rules.on_path(access, path, called.workspace),
                Resource::Command(line) if rules.has_command_rules() => {
                    let understood = scripts::parsed(line, called.workspace);
                    rules.denies_command(&understood).map(|rule| (rule, format!("`{}`", line.text())))
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

    /// The allow rule for a call; `None` unless allow rules cover every part of it.
    fn allow_all_parts(&self, called: &CallFacts<'_>) -> Option<Ruling> {
        let rules = &self.allow;
        if rules.is_empty() {
            return None;
        }
        let ruling = |rule: &ToolRule, exactly| {
            let about = format!("`{}`", called.tool);
            Some(Ruling { effect: Effect::Allow, rule: rule.clone(), about, exactly })
        };
        let by_tool = rules.tool(called.tool);
        // The first rule that names a part of the call.
        let mut by_part: Option<&ToolRule> = None;
        let mut exactly = true;
        let mut names_command = false;
        for (access, resource) in called.claims.iter() {
            let inside = match resource {
                Resource::Path(path) => called.workspace.access(path).is_some(),
                _ => true,
            };
            let rule = match resource {
                Resource::Path(path) => match rules.allows_path(access, path, called.workspace) {
                    Some(rule) => Some(rule),
                    // A rule for a tool or a command extends to the whole workspace, except to files whose change
                    // makes other programs run code.
                    None if inside && access == Access::Read => continue,
                    // A rule without wildcards names exactly this command, so it includes the files that it accesses.
                    None if names_command => continue,
                    None if inside && is_command(called.claims) && !runs_code(path, called) => continue,
                    None if inside && by_tool.is_some() && !runs_code(path, called) => None,
                    None => return None,
                },
                Resource::Command(line) => match rules.allows_command(&parsed(line)) {
                    Some((rule, exact)) => {
                        exactly &= exact;
                        names_command = exact;
                        Some(rule)
                    }
                    // A read-only command needs no rule of its own, only rules for the files that it reads.
                    None if access == Access::Read => continue,
                    None if by_tool.is_some() => None,
                    None => return None,
                },
                Resource::Host(host) => match rules.host(host) {
                    Some(rule) => Some(rule),
                    None if is_command(called.claims) => continue,
                    None if by_tool.is_some() => None,
                    None => return None,
                },
                Resource::State(_) => continue,
                // A resource of unknown extent needs a rule for the tool or the command.
                _ if is_command(called.claims) => continue,
                _ if by_tool.is_some() => None,
                _ => return None,
            };
            // Only the rule for the tool covers this part.
            exactly &= rule.is_some();
            by_part = by_part.or(rule);
        }
        exactly &= by_part.is_some();
        ruling(by_part.filter(|_| exactly).or(by_tool).or(by_part)?, exactly)
    }
}

impl HiddenFiles for Rules {
    fn hides(&self, path: &AbsPath) -> bool {
        Rules::hides(self, path)
    }
}

/// The parsed command: the one that the claim carries, or else parsed now.
fn parsed(line: &CommandLine) -> Arc<ParsedCommand> {
    line.analysis::<ParsedCommand>().unwrap_or_else(|| Arc::new(shell::parse(line.text())))
}

fn is_command(claims: &Claims) -> bool {
    claims.iter().any(|(_, resource)| matches!(resource, Resource::Command(_)))
}

/// Whether a change to a file makes other programs run code.
fn runs_code(path: &AbsPath, called: &CallFacts<'_>) -> bool {
    haft_core::permissions::runs_code(&Claims::none().write(Resource::Path(path.clone())), called.workspace)
        .is_some()
}
