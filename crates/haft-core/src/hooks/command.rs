//! External hooks: shell commands that read JSON from standard input and answer by exit code or JSON, in the format of
//! existing agents' hook scripts. An answer that cannot be parsed is a failure, never an approval.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use haft_sandbox::process::{self, Exit, Finished};
use serde::Deserialize;
use serde_json::Value;

use super::{Hook, HookAnswer, HookDecision, HookEvent, HookInput, ScriptPins, ToolPattern};
use crate::questions::{AnswerOption, Selection, UserQuestion};
use crate::{BoxFuture, Context, Fault, json};

/// The default timeout of an external hook.
pub const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes that are read of an external hook's output.
const MAX_OUTPUT: usize = 1024 * 1024;

/// An external hook: a shell command that reads [`HookInput`] as JSON and answers by exit code or JSON.
#[derive(Clone, Debug)]
pub struct CommandHook {
    /// The event at which the hook runs.
    pub event: HookEvent,
    /// The tools for which it runs.
    pub tools: ToolPattern,
    /// The command, run by `sh`.
    pub command: String,
    /// The folder it runs in, which it also finds in `HAFT_PROJECT_DIR` and `CLAUDE_PROJECT_DIR`.
    pub dir: PathBuf,
    /// The longest it may run; after that it counts as failed.
    pub timeout: Duration,
    /// The scripts in the workspace that the command names, as the user trusted them. One that has changed since is not
    /// run until a person agrees. Without pins the command runs whatever its scripts contain.
    pub scripts: Option<ScriptPins>,
}

impl CommandHook {
    /// Fails if a script has changed since the user trusted it, unless the user agrees to it now.
    async fn require_trusted_scripts(&self, cx: &Context) -> Result<(), Fault> {
        let Some(pins) = &self.scripts else { return Ok(()) };
        let unknown = |error: io::Error| {
            Fault::failed(format!(
                "was not run, since haft cannot tell whether its script has changed: {error}"
            ))
        };
        let changed = pins.changed(&self.command).map_err(unknown)?;
        if changed.is_empty() {
            return Ok(());
        }
        let files = format!("`{}`", changed.join("`, `"));
        if self.user_agrees(&files, cx).await {
            return pins.accept(&self.command).map_err(unknown);
        }
        Err(Fault::failed(format!(
            "was not run: {files} has changed since you trusted it; look at it, then run `haft trust`"
        )))
    }

    async fn user_agrees(&self, files: &str, cx: &Context) -> bool {
        if !cx.session().can_ask_user() {
            return false;
        }
        let option = |label: &str, about: &str| AnswerOption {
            label: label.to_owned(),
            description: about.to_owned(),
        };
        let question = UserQuestion {
            header: "Hook".to_owned(),
            text: format!(
                "The hook `{}` runs outside of the sandbox, and {files} has changed since you trusted it. Run it?",
                self.command.trim()
            ),
            options: vec![
                option("Do not run it", "The call is denied if the hook guards it"),
                option("Run it", "The script is trusted as it is now"),
            ],
            choosing: Selection::One,
        };
        let answers = cx.ask_user(vec![question]).await;
        answers.is_ok_and(|answers| answers.first().is_some_and(|first| first.chosen == [1]))
    }
}

impl Hook for CommandHook {
    fn name(&self) -> &str {
        self.command.trim()
    }

    fn wants(&self, event: HookEvent, tool: &str) -> bool {
        event == self.event && self.tools.matches(tool)
    }

    fn call<'a>(
        &'a self,
        input: &'a HookInput<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<HookAnswer, Fault>> {
        Box::pin(async move {
            self.require_trusted_scripts(cx).await?;
            let stdin = serde_json::to_vec(input)?;
            let run = process::Run {
                program: "sh".into(),
                args: vec!["-c".into(), self.command.clone().into()],
                dir: self.dir.clone(),
                env: vec![
                    ("HAFT_PROJECT_DIR".into(), self.dir.clone().into()),
                    ("CLAUDE_PROJECT_DIR".into(), self.dir.clone().into()),
                ],
                stdin,
                timeout: self.timeout,
                max_output: MAX_OUTPUT,
            };
            let finished = process::run(run, cx.cancelled())
                .await
                .map_err(|error| Fault::failed(format!("could not start: {error}")))?;
            Ok(answer(&finished, self.timeout)?)
        })
    }
}

/// The JSON that an external hook may print: the nested form or the older flat one.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Printed {
    #[serde(rename = "continue")]
    go_on: Option<bool>,
    stop_reason: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
    #[serde(flatten)]
    flat: Specific,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
}

fn answer(finished: &Finished, timeout: Duration) -> Result<HookAnswer, String> {
    let stderr = String::from_utf8_lossy(&finished.stderr);
    let stderr = stderr.trim();
    let because = |what: String| if stderr.is_empty() { what } else { format!("{what}: {stderr}") };
    match finished.exit {
        Exit::Code(0) => {}
        Exit::Code(2) => {
            let reason = if stderr.is_empty() { "it gave no reason".to_owned() } else { stderr.to_owned() };
            let decision = Some(HookDecision::Deny);
            return Ok(HookAnswer { decision, reason: Some(reason), ..HookAnswer::default() });
        }
        Exit::Code(code) => return Err(because(format!("exited with code {code}"))),
        Exit::Signal(signal) => return Err(because(format!("was killed by signal {signal}"))),
        Exit::TimedOut => return Err(because(format!("took longer than {} s", timeout.as_secs_f64()))),
        Exit::Cancelled => return Err("was cancelled".to_owned()),
    }
    let stdout = String::from_utf8_lossy(&finished.stdout);
    if stdout.trim().is_empty() {
        return Ok(HookAnswer::default());
    }
    let invalid =
        |error: &dyn std::fmt::Display| format!("printed something that is not an answer in JSON ({error})");
    let value = json::parse(stdout.trim()).map_err(|fault| invalid(&fault.message()))?;
    reject_typos(&value)?;
    if let Some(specific) = value.get("hookSpecificOutput").filter(|specific| !specific.is_null()) {
        if !specific.is_object() {
            return Err(invalid(&format!("`hookSpecificOutput` is {}", json::kind_of(specific))));
        }
        reject_typos(specific)?;
    }
    interpret(serde_json::from_value(value).map_err(|error| invalid(&error))?)
}

/// The fields by which an answer decides.
const DECIDING: [&str; 5] =
    ["continue", "decision", "hookSpecificOutput", "permissionDecision", "updatedInput"];
/// The largest edit distance at which an unknown field counts as a misspelling of a deciding one.
const MAX_TYPO_DISTANCE: usize = 2;

/// Rejects misspelled fields: a misspelled `permissionDecision` must not be read as no decision. Other unknown fields may
/// be those of another agent, and are ignored.
fn reject_typos(answer: &Value) -> Result<(), String> {
    let folded = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    for key in answer.as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        let near =
            |field: &&str| strsim::damerau_levenshtein(&folded(key), &folded(field)) <= MAX_TYPO_DISTANCE;
        if !DECIDING.contains(&key)
            && key.len() < 100
            && let Some(field) = DECIDING.iter().find(|field| near(field))
        {
            return Err(format!("answered with a field `{key}`; did it mean `{field}`?"));
        }
    }
    Ok(())
}

fn interpret(printed: Printed) -> Result<HookAnswer, String> {
    let specific = printed.hook_specific_output.unwrap_or_default();
    let flat = printed.flat;
    let mut decision = None;
    // Of contradicting decisions the strictest counts.
    for word in [specific.permission_decision, flat.permission_decision, printed.decision] {
        let parsed = match word.as_deref() {
            None => None,
            Some("allow" | "approve") => Some(HookDecision::Allow),
            Some("ask") => Some(HookDecision::Ask),
            Some("deny" | "block") => Some(HookDecision::Deny),
            Some(other) => return Err(format!("decided `{other}`, which is none of allow, ask and deny")),
        };
        decision = decision.max(parsed);
    }
    let mut reason =
        specific.permission_decision_reason.or(flat.permission_decision_reason).or(printed.reason);
    if printed.go_on == Some(false) {
        decision = Some(HookDecision::Deny);
        reason = printed.stop_reason.or(reason);
    }
    Ok(HookAnswer {
        decision,
        reason,
        updated_input: specific.updated_input.or(flat.updated_input),
        additional_context: specific.additional_context.or(flat.additional_context),
    })
}
