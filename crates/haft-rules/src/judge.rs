//! Judges calls by the rules of the settings and by the rules granted since, in the session or permanently.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::permissions::{HiddenFiles, Judge, Question, Rule, Scope, Verdict};
use haft_core::{AbsPath, Access, Claims, Context, Fault, Mode, Resource};
use parking_lot::Mutex;

use haft_shell::{self as shell, ParsedCommand};

use super::{CallFacts, Effect, KnownTools, RuleBook, Rules, Ruling, Scripts, ToolRule};

/// Permanent storage for rules that a person agreed to.
pub trait RuleStore: Send + Sync {
    /// Stores a rule that allows something.
    fn keep(&self, rule: &ToolRule, scope: Scope) -> Result<(), Fault>;
}

/// The rules that a [`RuleJudge`] applies. Asked before every call, so that a running session follows rules that have
/// changed.
pub trait RuleSource: Send + Sync {
    /// The current rules. An error denies the call. While nothing changes, the same [`Arc`] saves compiling them again.
    fn book(&self, cx: &Context) -> Result<Arc<RuleBook>, Fault>;
}

/// Rules that never change.
impl RuleSource for Arc<RuleBook> {
    fn book(&self, _cx: &Context) -> Result<Arc<RuleBook>, Fault> {
        Ok(self.clone())
    }
}

/// Judges calls by rules.
pub struct RuleJudge {
    source: Arc<dyn RuleSource>,
    home: Option<PathBuf>,
    memory: Option<Arc<dyn RuleStore>>,
}

/// Session extension with the judge of the session, for tools that check many files in one call.
#[derive(Clone, Default)]
pub struct SessionJudge(pub Option<Arc<RuleJudge>>);

impl SessionJudge {
    /// The current rules of a session; `None` if it has no judge.
    pub fn rules(cx: &Context) -> Result<Option<Arc<Rules>>, Fault> {
        cx.session().extension::<SessionJudge>().0.as_ref().map(|judge| judge.rules(cx)).transpose()
    }
}

/// Cache of a session's compiled rules, with what they were compiled from. Valid until that changes.
#[derive(Default)]
struct CompiledRules(Mutex<Option<Compiled>>);

struct Compiled {
    book: Arc<RuleBook>,
    grants: Vec<Rule>,
    rules: Arc<Rules>,
}

impl RuleJudge {
    /// A judge by the rules of a book. `home` replaces `~` in them.
    pub fn new(book: RuleBook, home: Option<PathBuf>) -> Self {
        Self::from_source(Arc::new(Arc::new(book)), home)
    }

    /// A judge by rules that can change. `home` replaces `~` in them.
    pub fn from_source(source: Arc<dyn RuleSource>, home: Option<PathBuf>) -> Self {
        Self { source, home, memory: None }
    }

    /// Sets the storage for rules that are granted beyond the session.
    #[must_use]
    pub fn memory(mut self, memory: Arc<dyn RuleStore>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// The current rules of a session: those of the source, and those granted in the session.
    pub fn rules(&self, cx: &Context) -> Result<Arc<Rules>, Fault> {
        let book = self.source.book(cx)?;
        let cache = cx.session().extension::<CompiledRules>();
        let mut cached = cache.0.lock();
        let grants = cx.session().grants();
        if let Some(compiled) = &*cached
            && Arc::ptr_eq(&compiled.book, &book)
            && compiled.grants == grants
        {
            return Ok(compiled.rules.clone());
        }
        let mut extended = (*book).clone();
        extended.set_known(known(&book, cx));
        for grant in &grants {
            // A grant that no longer parses, for example because its tool is gone, allows nothing.
            let _ = extended.add(Effect::Allow, &grant.0, "granted in this session");
        }
        let rules = Arc::new(Rules::new(&extended, cx.session_workspace(), self.home.as_deref()));
        *cached = Some(Compiled { book, grants, rules: rules.clone() });
        Ok(rules)
    }
}

/// The tools that rules of a session can be about: its own, and those that the book knows.
fn known(book: &RuleBook, cx: &Context) -> KnownTools {
    let tools = cx.session().tools().all();
    tools.iter().fold(book.known().clone(), |known, tool| known.with(tool.spec()))
}

/// Hides every file: the fallback when the rules cannot be read.
struct HideAll;

impl HiddenFiles for HideAll {
    fn hides(&self, _path: &AbsPath) -> bool {
        true
    }
}

impl Judge for RuleJudge {
    fn name(&self) -> &str {
        "the rules"
    }

    fn judge(&self, question: &Question<'_>) -> Result<Verdict, Fault> {
        let Question { spec, claims, cx, .. } = question;
        let called = CallFacts { tool: &spec.name, claims, workspace: cx.session_workspace() };
        let rules = self.rules(cx)?;
        let ruling = rules.rule_on(&called);
        // What a command runs may not be certain. In bypass mode no person is asked about that, so a deny rule that
        // might mean it must hold; elsewhere a rule that allows does not cover it, unless it names exactly this command.
        let bypasses = cx.session().mode() == Mode::Bypass;
        let scripts = if bypasses { Scripts::Read } else { Scripts::Trusted };
        let check_uncertain = match &ruling {
            Some(ruling) if ruling.effect == Effect::Allow => bypasses || !ruling.exactly,
            Some(ruling) => bypasses && ruling.effect != Effect::Deny,
            None => bypasses,
        };
        if let Some((rule, because)) = check_uncertain.then(|| rules.might_deny(&called, scripts)).flatten() {
            let doubt = format!("{because}, and the rule `{rule}` denies what it could be");
            return Ok(match bypasses {
                true => Verdict::Deny(format!(
                    "{doubt}; write the commands out, with literal words and without a shell or an interpreter in between"
                )),
                false => Verdict::Ask(doubt),
            });
        }
        let Some(Ruling { effect, rule, about, exactly }) = ruling else {
            return Ok(Verdict::Abstain);
        };
        Ok(match effect {
            Effect::Deny => Verdict::Deny(format!("{about} is denied by the rule `{rule}`")),
            Effect::Ask => Verdict::Ask(format!("the rule `{rule}` asks about {about}")),
            Effect::Try => Verdict::Try { by: rule.to_string() },
            Effect::Allow => Verdict::Allow { by: rule.to_string(), exactly },
        })
    }

    fn offer(&self, question: &Question<'_>) -> Vec<Rule> {
        let book = self.source.book(question.cx).ok();
        book.and_then(|book| offer(question, &known(&book, question.cx), self.home.as_deref()))
            .unwrap_or_default()
    }

    fn hidden_files(&self, cx: &Context) -> Option<Arc<dyn HiddenFiles>> {
        match self.rules(cx) {
            Ok(rules) if rules.hide_something() => Some(rules),
            Ok(_) => None,
            Err(_) => Some(Arc::new(HideAll)),
        }
    }

    fn remember(&self, rules: &[Rule], scope: Scope, cx: &Context) -> Result<(), Fault> {
        let known = known(&*self.source.book(cx)?, cx);
        let rules: Vec<ToolRule> =
            rules.iter().map(|rule| ToolRule::parse(&rule.0, &known)).collect::<Result<_, _>>()?;
        for rule in &rules {
            if scope != Scope::Session {
                self.memory
                    .as_ref()
                    .ok_or_else(|| Fault::failed("nothing is kept beyond the session"))?
                    .keep(rule, scope)?;
            }
            cx.session().grant(Rule(rule.to_string()));
        }
        Ok(())
    }
}

/// The narrowest rules that would allow a call; none if no rule that can be offered would.
fn offer(question: &Question<'_>, known: &KnownTools, home: Option<&Path>) -> Option<Vec<Rule>> {
    let Question { spec, claims, cx, .. } = question;
    let workspace = cx.session_workspace();
    let allows = |rules: &Vec<Rule>| {
        let mut book = RuleBook::new(known.clone());
        let added = rules.iter().all(|rule| book.add(Effect::Allow, &rule.0, "offered").is_ok());
        let called = CallFacts { tool: &spec.name, claims, workspace };
        let ruling = added.then(|| Rules::new(&book, workspace, home).rule_on(&called)).flatten();
        ruling.is_some_and(|ruling| ruling.effect == Effect::Allow)
    };
    let Some(line) = command(claims) else { return path_rules(question, known).filter(allows) };
    let understood = line.analysis::<ParsedCommand>();
    let understood = understood.unwrap_or_else(|| Arc::new(shell::parse(line.text())));
    let named = |rules: Vec<String>| -> Vec<Rule> {
        rules.into_iter().map(|rule| Rule(format!("{}({rule})", spec.name))).collect()
    };
    // A rule with a wildcard does not extend to files outside of the workspace; one that names them does.
    let whole = shell::whole_rule(&understood).into_iter().collect();
    [shell::offered_rules(&understood), shell::exact_rules(&understood), whole]
        .into_iter()
        .map(named)
        .find(|rules| !rules.is_empty() && allows(rules))
}

/// Rules about the paths, hosts and state that a call accesses.
fn path_rules(question: &Question<'_>, known: &KnownTools) -> Option<Vec<Rule>> {
    let Question { spec, claims, cx, .. } = question;
    let workspace = cx.session_workspace();
    let mut rules: Vec<Rule> = Vec::new();
    for (access, resource) in claims.iter() {
        let rule = match resource {
            Resource::Path(path) => {
                let inside = workspace.access(path).is_some();
                if inside && access == Access::Read {
                    continue;
                }
                let shown = workspace.display(path);
                let pattern = match inside {
                    // A rule about the whole workspace.
                    true if shown == "." => "./**".to_owned(),
                    true => globset::escape(&format!("./{shown}")),
                    false => globset::escape(&path.to_string()),
                };
                ToolRule::on_path(&spec.name, &pattern, known)?
            }
            Resource::Host(host) => ToolRule::parse(&format!("{}(domain:{host})", spec.name), known).ok()?,
            Resource::State(_) | Resource::Everything => ToolRule::parse(&spec.name, known).ok()?,
            _ => return None,
        };
        let rule = Rule(rule.to_string());
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    if rules.is_empty() {
        rules.push(Rule(ToolRule::parse(&spec.name, known).ok()?.to_string()));
    }
    Some(rules)
}

fn command(claims: &Claims) -> Option<&haft_core::CommandLine> {
    claims.iter().find_map(|(_, resource)| match resource {
        Resource::Command(line) => Some(line),
        _ => None,
    })
}
