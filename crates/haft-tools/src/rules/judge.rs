//! The rules as a judge of calls: those of the settings, and what was granted since.

use std::path::PathBuf;
use std::sync::Arc;

use haft::{Access, Claims, Context, Judge, Mode, Question, Resource, Rule, Scope, Verdict};
use parking_lot::Mutex;

use super::{Book, Called, Effect, Rules, Ruling, Written};
use crate::shell::{self, Understood};

/// Somebody who keeps rules that were agreed to beyond the session.
pub trait Memory: Send + Sync {
    /// Keeps a rule that allows something.
    fn keep(&self, rule: &Written, scope: Scope) -> Result<(), String>;
}

/// Judges calls by rules.
pub struct RuleJudge {
    book: Book,
    home: Option<PathBuf>,
    memory: Option<Arc<dyn Memory>>,
}

/// By which rules a session is judged, for what looks at many files in one call.
#[derive(Clone, Default)]
pub struct Ruled(pub Option<Arc<RuleJudge>>);

impl Ruled {
    /// The rules that hold in a session now.
    pub fn rules(cx: &Context) -> Option<Arc<Rules>> {
        cx.session().extension::<Ruled>().0.as_ref().map(|judge| judge.rules(cx))
    }
}

/// The rules of a session, made ready once for as long as nothing is granted.
#[derive(Default)]
struct OfSession(Mutex<Option<(Vec<Rule>, Arc<Rules>)>>);

impl RuleJudge {
    /// Judges by the rules of a book. `home` is what `~` stands for in them.
    pub fn new(book: Book, home: Option<PathBuf>) -> Self {
        Self { book, home, memory: None }
    }

    /// Keeps what is agreed to for longer than a session.
    #[must_use]
    pub fn memory(mut self, memory: Arc<dyn Memory>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// The rules that hold in a session now.
    pub fn rules(&self, cx: &Context) -> Arc<Rules> {
        let of_session = cx.session().extension::<OfSession>();
        let mut ready = of_session.0.lock();
        let grants = cx.session().grants();
        if let Some((known, rules)) = &*ready
            && *known == grants
        {
            return rules.clone();
        }
        let mut book = self.book.clone();
        for grant in &grants {
            // One that cannot be read any more allows nothing.
            let _ = book.add(Effect::Allow, &grant.0, "granted in this session");
        }
        let rules = Arc::new(Rules::new(&book, cx.session_workspace(), self.home.as_deref()));
        *ready = Some((grants, rules.clone()));
        rules
    }
}

impl Judge for RuleJudge {
    fn name(&self) -> &str {
        "the rules"
    }

    fn judge(&self, question: &Question<'_>) -> Result<Verdict, String> {
        let Question { spec, claims, cx, .. } = question;
        let called = Called { tool: &spec.name, claims, workspace: cx.session_workspace() };
        let rules = self.rules(cx);
        let ruling = rules.rule_on(&called);
        // Where nobody is asked about what a command does not tell, a denial would be worth nothing.
        let is_unsure = cx.session().mode() == Mode::Bypass
            && ruling.as_ref().is_none_or(|ruling| ruling.effect != Effect::Deny);
        if let Some((rule, command)) = is_unsure.then(|| rules.might_deny(claims)).flatten() {
            return Ok(Verdict::Deny(format!(
                "`{command}` may run what the rule `{rule}` denies: it does not tell for certain what it runs"
            )));
        }
        let Some(Ruling { effect, rule, about, exactly }) = ruling else {
            return Ok(Verdict::Abstain);
        };
        Ok(match effect {
            Effect::Deny => Verdict::Deny(format!("{about} is denied by the rule `{rule}`")),
            Effect::Ask => Verdict::Ask(format!("the rule `{rule}` asks about {about}")),
            Effect::Allow => Verdict::Allow { by: rule.to_string(), exactly },
        })
    }

    fn offer(&self, question: &Question<'_>) -> Vec<Rule> {
        offer(question).unwrap_or_default()
    }

    fn remember(&self, rules: &[Rule], scope: Scope, cx: &Context) -> Result<(), String> {
        let rules: Vec<Written> = rules
            .iter()
            .map(|rule| Written::parse(&rule.0).map_err(|error| error.to_string()))
            .collect::<Result<_, _>>()?;
        for rule in &rules {
            if scope != Scope::Session {
                self.memory.as_ref().ok_or("nothing is kept beyond the session")?.keep(rule, scope)?;
            }
            cx.session().grant(Rule(rule.to_string()));
        }
        Ok(())
    }
}

/// The narrowest rules that allow a call.
fn offer(question: &Question<'_>) -> Option<Vec<Rule>> {
    let Question { spec, claims, cx, .. } = question;
    let workspace = cx.session_workspace();
    if let Some(line) = command(claims) {
        let understood = line.meaning::<Understood>();
        let understood = understood.unwrap_or_else(|| Arc::new(shell::parse(line.text())));
        let rules = shell::patterns(&understood);
        return Some(rules.into_iter().map(|rule| Rule(format!("{}({rule})", spec.name))).collect());
    }
    let mut rules: Vec<Rule> = Vec::new();
    for (access, resource) in claims.iter() {
        let rule = match resource {
            Resource::Path(path) => {
                let inside = workspace.access(path).is_some();
                if inside && access == Access::Read {
                    continue;
                }
                let pattern = match inside {
                    true => format!("./{}", workspace.display(path)),
                    false => path.to_string(),
                };
                Written::on_path(&spec.name, &globset::escape(&pattern))?
            }
            Resource::Host(host) => Written::parse(&format!("{}(domain:{host})", spec.name)).ok()?,
            Resource::State(_) | Resource::Everything => Written::parse(&spec.name).ok()?,
            _ => return None,
        };
        let rule = Rule(rule.to_string());
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    if rules.is_empty() {
        rules.push(Rule(Written::parse(&spec.name).ok()?.to_string()));
    }
    Some(rules)
}

fn command(claims: &Claims) -> Option<&haft::CommandLine> {
    claims.iter().find_map(|(_, resource)| match resource {
        Resource::Command(line) => Some(line),
        _ => None,
    })
}
