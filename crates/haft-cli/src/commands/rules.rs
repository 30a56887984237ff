//! `haft rules`: lists, adds and removes rules, and predicts what they do to a call.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use haft_core::permissions::{DryRun, Prediction, Scope};
use haft_core::{Access, Call, Claims, Resource};
use haft_rules::{CallFacts, Effect, ToolRule};
use serde_json::json;

use super::call::read_input;
use crate::args::{Common, RulesCommand, Where};
use crate::host::{self, Interaction};
use crate::style::{self, BAD, BOLD, DIM, GOOD, NAME, one_line};
use haft_host::Host;

pub(super) fn run(common: &Common, command: Option<RulesCommand>) -> anyhow::Result<ExitCode> {
    match command.unwrap_or(RulesCommand::List) {
        RulesCommand::List => list(common),
        RulesCommand::Allow { rules, place } => add(common, Effect::Allow, &rules, place),
        RulesCommand::Ask { rules, place } => add(common, Effect::Ask, &rules, place),
        RulesCommand::Deny { rules, place } => add(common, Effect::Deny, &rules, place),
        RulesCommand::Remove { rule, place } => remove(common, &rule, place),
        RulesCommand::Check { tool, input } => check(common, &tool, &input),
        RulesCommand::Replay { session } => replay(common, &session),
    }
}

fn scope(place: Where) -> Scope {
    if place.user { Scope::User } else { Scope::Project }
}

fn list(common: &Common) -> anyhow::Result<ExitCode> {
    let environment = host::environment(common)?;
    let mut out = anstream::stdout().lock();
    let book = &environment.loaded.book;
    if common.json {
        let rows: Vec<_> = book
            .iter()
            .map(|(effect, rule, place)| {
                let no_effect = book.ineffective(effect, rule);
                json!({"effect": effect.name(), "rule": rule.text(), "from": place, "no_effect": no_effect})
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if book.is_empty() {
        writeln!(out, "there are no rules: what changes something is asked, unless the mode says otherwise")?;
    }
    for effect in Effect::ALL {
        for (_, parsed, place) in book.iter().filter(|(other, ..)| *other == effect) {
            let style = match effect {
                Effect::Deny => BAD,
                Effect::Ask | Effect::Try => NAME,
                Effect::Allow => GOOD,
            };
            let (word, rule, place) = (effect.name(), one_line(parsed.text()), one_line(place));
            writeln!(out, "{style}{word:<5}{style:#} {rule}  {DIM}{place}{DIM:#}")?;
            if let Some(why) = book.ineffective(effect, parsed) {
                writeln!(out, "      {DIM}has no effect: {}{DIM:#}", one_line(&why))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds rules: all of them, or none if one is invalid.
fn add(common: &Common, effect: Effect, rules: &[String], place: Where) -> anyhow::Result<ExitCode> {
    let environment = host::environment(common)?;
    let known = environment.known_tools();
    let rules: Vec<ToolRule> =
        rules.iter().map(|rule| ToolRule::parse(rule, &known)).collect::<Result<_, _>>()?;
    for rule in rules {
        if !known.has(rule.tool()) && !rule.tool().starts_with("mcp__") && !rule.tool().contains('*') {
            style::notice(&format!(
                "no tool of haft's own is called `{}`; the rule holds for one of that name which a program adds",
                one_line(rule.tool())
            ));
        }
        if let Some(why) = environment.loaded.book.ineffective(effect, &rule) {
            style::notice(&format!("{} has no effect: {}", one_line(rule.text()), one_line(&why)));
        }
        let is_new = environment.grants().add(effect, &rule, scope(place))?;
        let (word, place) = (effect.name(), if place.user { "everywhere" } else { "in this project" });
        let already = if is_new { "" } else { " (it was so already)" };
        writeln!(anstream::stdout(), "{word} {} {place}{already}", one_line(rule.text()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(common: &Common, rule: &str, place: Where) -> anyhow::Result<ExitCode> {
    let environment = host::environment(common)?;
    let (rule, from) = (rule.trim(), if place.user { "your settings" } else { "this project" });
    if environment.grants().remove(rule, scope(place))? {
        writeln!(anstream::stdout(), "removed {} from {from}", one_line(rule))?;
        return Ok(ExitCode::SUCCESS);
    }
    let elsewhere = environment.loaded.book.iter().find(|(_, known, _)| known.text() == rule);
    let hint = elsewhere.map_or_else(String::new, |(_, _, place)| format!("; it comes from {place}"));
    anyhow::bail!("there is no rule `{rule}` in {from}{hint}")
}

fn check(common: &Common, tool: &str, words: &[String]) -> anyhow::Result<ExitCode> {
    let host = host::open_session(common, Interaction::Terminal, host::session_name(common))?;
    let session = host.session(None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if host.servers().may_have(tool) {
        runtime.block_on(host.servers().start_for(&[tool]));
    }
    let input = read_input(words, tool, &session)?;
    let dry_run = runtime.block_on(session.dry_run(Call::new("check", tool, input)));
    runtime.block_on(host.end_servers());
    let dry_run =
        dry_run.map_err(|fault| crate::style::fault_error(&fault)).context("the call cannot be made")?;
    let (word, style, why) = match &dry_run.outcome {
        Prediction::Allowed(Some(by)) => ("allow", GOOD, format!("by the rule `{by}`")),
        Prediction::Allowed(None) => {
            ("allow", GOOD, format!("nobody needs to be asked in the mode `{}`", host.mode().name()))
        }
        Prediction::Asked(why) => {
            ("ask", NAME, format!("{why}{}", overridden(tool, &dry_run, &host, &session)?))
        }
        Prediction::Denied(why) => ("deny", BAD, why.clone()),
    };
    let touched: Vec<(&str, String)> = touched(&dry_run.claims, &session);
    let layers = layers(&dry_run.claims, &host, &session)?;
    let code = if word == "allow" { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let mut out = anstream::stdout().lock();
    if common.json {
        let touches: Vec<_> = touched.iter().map(|(how, what)| json!({"how": how, "what": what})).collect();
        let output = json!({"decision": word, "why": why, "touches": touches, "held_by": layers});
        writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?;
        return Ok(code);
    }
    writeln!(out, "{style}{word}{style:#}: {}", one_line(&why))?;
    for (how, what) in &touched {
        writeln!(out, "  {how:<6} {}", one_line(what))?;
    }
    writeln!(out, "{BOLD}held by{BOLD:#}")?;
    for layer in &layers {
        writeln!(out, "  {layer}")?;
    }
    Ok(code)
}

/// Why a call is asked about although a rule allows it, to append to the reason.
fn overridden(
    tool: &str,
    dry_run: &DryRun,
    host: &Host,
    session: &haft_core::Session,
) -> anyhow::Result<String> {
    let called = CallFacts { tool, claims: &dry_run.claims, workspace: &session.workspace() };
    let allowing = host.rules(session)?.rule_on(&called).filter(|ruling| ruling.effect == Effect::Allow);
    Ok(allowing.map_or_else(String::new, |ruling| {
        format!("; the rule `{}` would allow it, but such a call is asked about every time", ruling.rule)
    }))
}

fn touched(claims: &Claims, session: &haft_core::Session) -> Vec<(&'static str, String)> {
    let shown = |(access, resource): (Access, &Resource)| {
        let how = match (access, resource) {
            (_, Resource::Command(_)) => "runs",
            (_, Resource::Host(_)) => "calls",
            (Access::Read, _) => "reads",
            (Access::Write, _) => "writes",
        };
        let what = match resource {
            Resource::Path(path) => session.workspace().display(path),
            other => other.to_string(),
        };
        (how, what)
    };
    claims.iter().map(shown).collect()
}

/// The layers that enforce the decision, from the outside in.
fn layers(claims: &Claims, host: &Host, session: &haft_core::Session) -> anyhow::Result<Vec<String>> {
    let mut layers = vec!["the engine, before the call: by what it touches".to_owned()];
    let has = |wanted: fn(&Resource) -> bool| claims.iter().any(|(_, resource)| wanted(resource));
    if has(|resource| matches!(resource, Resource::Path(_))) {
        layers.push(format!("the workspace, when a file is opened: {}", session.workspace().confinement()));
    }
    let rules = host.rules(session)?;
    if has(|resource| matches!(resource, Resource::Command(_) | Resource::Everything)) {
        layers.push(
            "the sandbox, while a command runs: `haft doctor` tells which layers are active".to_owned(),
        );
        if rules.hide_something() {
            layers.push("the sandbox hides from commands what is denied to be read".to_owned());
        }
        if rules.guard_something() {
            layers.push("the sandbox makes read-only what is denied to be changed".to_owned());
        }
    } else if rules.hide_something() {
        layers.push("searches and previews pass over what is denied to be read".to_owned());
    }
    Ok(layers)
}

/// Predicts the current decisions for the calls of a past session.
fn replay(common: &Common, session: &str) -> anyhow::Result<ExitCode> {
    let host = host::open(common, Interaction::Terminal)?;
    let (lines, _) = haft_core::audit::Audit::read(host.state())?;
    let past: Vec<_> = lines.iter().filter(|line| line.entry.session == session).collect();
    if past.is_empty() {
        anyhow::bail!("nothing is known of a session `{session}`: `haft audit` shows which there are");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let current = host.session(None)?;
    let mut out = anstream::stdout().lock();
    let mut rows = Vec::new();
    for line in &past {
        let decided = &line.entry;
        let call = Call::new(
            decided.call.as_str(),
            decided.tool.as_str(),
            haft_core::Input::Value(decided.input.clone()),
        );
        let (now, why) = match runtime.block_on(current.dry_run(call)) {
            Ok(dry_run) => match dry_run.outcome {
                Prediction::Allowed(by) => {
                    ("allowed", by.unwrap_or_else(|| "nobody needs to be asked".to_owned()))
                }
                Prediction::Asked(why) => ("asked", why),
                Prediction::Denied(why) => ("denied", why),
            },
            Err(fault) => ("not possible", fault.message().to_owned()),
        };
        let then = match decided.decision {
            haft_core::audit::AuditOutcome::Allowed => "allowed",
            haft_core::audit::AuditOutcome::Denied => "denied",
        };
        rows.push((line.number, decided.tool.as_str(), then, now, why));
    }
    let changed = rows.iter().filter(|(_, _, then, now, _)| then != now).count();
    if common.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(number, tool, then, now, why)| {
                json!({"number": number, "tool": tool, "then": then, "now": now, "why": why})
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (number, tool, then, now, why) in rows.iter().filter(|(_, _, then, now, _)| then != now) {
        writeln!(
            out,
            "{number:>5}  {} was {then}, now {BOLD}{now}{BOLD:#}  {DIM}{}{DIM:#}",
            one_line(tool),
            one_line(why)
        )?;
    }
    writeln!(out, "{changed} of {} calls would end otherwise", rows.len())?;
    Ok(ExitCode::SUCCESS)
}
