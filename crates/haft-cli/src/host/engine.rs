//! From the settings to an engine: who is asked, what is kept, which hooks there are.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haft_core::{
    Audit, CommandHook, DEFAULT_HOOK_TIMEOUT, Engine, HookEvent, Kept, NoApprover, Store, ToolPattern,
};
use haft_rules::RuleJudge;
use haft_sandbox::terminal::Terminal;

use super::DAY;
use crate::approve::AtTerminal;
use crate::config::{self, HookSetting, Settings};
use crate::style;

/// Who is asked what a session may do.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Asked {
    /// Whoever sits at the terminal, if there is one.
    AtTerminal,
    /// Nobody.
    Nobody,
}

pub(super) fn engine(
    settings: &Settings,
    root: &Path,
    results: Store,
    judge: Arc<RuleJudge>,
    audit: Audit,
    asked: Asked,
) -> anyhow::Result<Engine> {
    let days = settings.limits.keep_days.unwrap_or(7);
    let megabytes = settings.limits.keep_megabytes.unwrap_or(256);
    let age = Duration::from_secs(days.saturating_mul(DAY.as_secs()));
    let may_ask = asked == Asked::AtTerminal && std::io::stderr().is_terminal() && Terminal::open().is_ok();
    let mut engine = match may_ask {
        true => {
            let person = AtTerminal::new(results.clone());
            Engine::builder().approver(person.clone()).respondent(person)
        }
        false => Engine::builder()
            .approver(NoApprover::telling("the user can allow it by starting with `--mode {mode}`")),
    };
    engine = engine.keep_results(Kept::new(results, age, megabytes.saturating_mul(1024 * 1024)));
    engine = engine.judge(judge).audit(audit);
    if let Some(seconds) = settings.permissions.seconds {
        engine = engine.patience(Duration::from_secs(seconds.max(1)));
    }
    for (tool, chars) in &settings.limits.max_result {
        engine = engine.max_result(tool, *chars);
    }
    for (event, hook) in settings.hooks.all() {
        engine = engine.hook(command_hook(event, hook, root)?);
    }
    Ok(engine.build())
}

/// Says that a hook never runs because its pattern fits no tool that there is.
pub(crate) fn idle(hook: &HookSetting) -> Option<String> {
    let pattern = ToolPattern::new(&hook.matcher).ok()?;
    // What other servers offer is not known before they are started.
    let fits =
        hook.matcher.contains("mcp__") || config::tool_names().iter().any(|name| pattern.matches(name));
    (!fits).then(|| format!("the hook `{}` never runs: no tool matches `{}`", hook.command, hook.matcher))
}

pub(crate) fn command_hook(event: HookEvent, hook: &HookSetting, root: &Path) -> anyhow::Result<CommandHook> {
    Ok(CommandHook {
        event,
        tools: ToolPattern::new(&hook.matcher).map_err(|fault| style::wrong(&fault))?,
        command: hook.command.clone(),
        dir: root.to_owned(),
        timeout: hook.timeout.map_or(DEFAULT_HOOK_TIMEOUT, Duration::from_secs),
    })
}
