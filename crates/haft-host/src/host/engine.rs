//! Builds the engine from the settings: approver, limits, kept replies, hooks, audit log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haft_core::audit::Audit;
use haft_core::hooks::{CommandHook, DEFAULT_HOOK_TIMEOUT, HookEvent, ScriptPins, ToolPattern};
use haft_core::limits::ResultStore;
use haft_core::{Engine, Store};
use haft_ops::Images;
use haft_rules::RuleJudge;

use super::advice;
use super::{DAY, Options, Result};
use crate::settings::{self, HookSetting, Settings};

pub(super) fn engine(
    settings: &Settings,
    root: &Path,
    scripts: &ScriptPins,
    results: Store,
    judge: Arc<RuleJudge>,
    audit: Audit,
    options: &Options,
) -> Result<Engine> {
    let mut engine = Engine::builder().images(Images);
    if let Some(approver) = &options.approver {
        engine = engine.approver(approver.clone());
    }
    if let Some(respondent) = &options.respondent {
        engine = engine.respondent(respondent.clone());
    }
    engine = engine.keep_results(result_store(settings, results));
    engine = engine.judge(judge).audit(audit).approval_advice(advice::advice);
    if let Some(seconds) = settings.permissions.seconds {
        engine = engine.answer_timeout(Duration::from_secs(seconds.max(1)));
    }
    for (tool, chars) in &settings.limits.max_result {
        engine = engine.max_result(tool, *chars);
    }
    for (event, hook) in settings.hooks.all() {
        scripts.pin_new(&hook.command)?;
        let hook = command_hook(event, hook, root)?;
        engine = engine.hook(CommandHook { scripts: Some(scripts.clone()), ..hook });
    }
    Ok(engine.build())
}

/// A warning if a hook never runs because its pattern matches no tool.
pub fn unused_hook_warning(hook: &HookSetting) -> Option<String> {
    let pattern = ToolPattern::new(&hook.matcher).ok()?;
    // The tools of MCP servers are unknown until the servers are started.
    let fits =
        hook.matcher.contains("mcp__") || settings::tool_names().iter().any(|name| pattern.matches(name));
    (!fits).then(|| format!("the hook `{}` never runs: no tool matches `{}`", hook.command, hook.matcher))
}

/// Builds the hook of a setting.
pub fn command_hook(event: HookEvent, hook: &HookSetting, root: &Path) -> Result<CommandHook> {
    Ok(CommandHook {
        event,
        tools: ToolPattern::new(&hook.matcher)?,
        command: hook.command.clone(),
        dir: root.to_owned(),
        timeout: hook.timeout.map_or(DEFAULT_HOOK_TIMEOUT, Duration::from_secs),
        scripts: None,
    })
}

/// The store for replies that were cut, with the limits of the settings.
pub fn result_store(settings: &Settings, results: Store) -> ResultStore {
    let days = settings.limits.keep_days.unwrap_or(7);
    let megabytes = settings.limits.keep_megabytes.unwrap_or(256);
    let age = Duration::from_secs(days.saturating_mul(DAY.as_secs()));
    ResultStore::new(results, age, megabytes.saturating_mul(1024 * 1024))
}
