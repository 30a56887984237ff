//! Hooks in process and as external commands: they fail closed.

use std::path::Path;
use std::time::Duration;

use haft_core::hooks::{CommandHook, HookAnswer, HookEvent, ToolPattern};
use haft_core::permissions::{Decision, Question, Verdict};
use haft_core::replies::Audience;
use haft_core::{Call, Mode, function};
use serde_json::{Value, json};

use crate::common::*;

fn command(event: HookEvent, dir: &Path, command: &str) -> CommandHook {
    CommandHook {
        event,
        tools: ToolPattern::new("*").unwrap(),
        command: command.to_owned(),
        dir: dir.to_owned(),
        timeout: Duration::from_secs(30),
        scripts: None,
    }
}

/// A session with one external hook before its calls, and an approver that denies everything.
fn before(script: &str) -> (Rig, Script) {
    let asked = Script::default();
    let dir = std::env::temp_dir();
    let rig = Rig::new(
        |engine| engine.hook(command(HookEvent::PreToolUse, &dir, script)).approver(asked.clone()),
        |session| session,
    );
    (rig, asked)
}

fn printing(answer: &Value) -> String {
    format!("cat >/dev/null; printf '%s' '{answer}'")
}

#[tokio::test]
async fn exit_code_2_denies_with_what_it_says() {
    let (rig, asked) = before("echo 'not in this house' >&2; exit 2");
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["denied by the hook", "not in this house"]);
    assert_eq!((asked.times(), rig.file("a")), (0, None));
    let (rig, _) = before("exit 2");
    assert_says(&rig.note("a", "x").await, &["it gave no reason"]);
}

#[tokio::test]
async fn every_form_of_an_answer_is_understood() {
    let denials = [
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "because"}}),
        json!({"permissionDecision": "deny", "permissionDecisionReason": "because"}),
        json!({"decision": "block", "reason": "because"}),
        json!({"decision": "deny", "reason": "because"}),
        json!({"continue": false, "stopReason": "because"}),
        // Of two contradicting decisions the stricter one counts.
        json!({"decision": "block", "reason": "because", "hookSpecificOutput": {"permissionDecision": "allow"}}),
        json!({"decision": "approve", "reason": "because", "permissionDecision": "deny"}),
    ];
    for denial in denials {
        let (rig, asked) = before(&printing(&denial));
        let reply = rig.note("a", "x").await;
        assert_eq!(kind(&reply), "denied", "{denial}");
        assert_says(&reply, &["because"]);
        assert_eq!((asked.times(), rig.file("a")), (0, None), "{denial}");
    }
    for allowed in [
        json!({"hookSpecificOutput": {"permissionDecision": "allow"}}),
        json!({"permissionDecision": "allow"}),
        json!({"decision": "approve"}),
    ] {
        let (rig, asked) = before(&printing(&allowed));
        assert_ok(&rig.note("a", "x").await);
        assert_eq!(asked.times(), 0);
    }
    for undecided in ["cat >/dev/null", "true", "cat >/dev/null; echo '{}'", "echo ' \n '"] {
        let (rig, asked) = before(undecided);
        assert_eq!(kind(&rig.note("a", "x").await), "denied");
        assert_eq!(asked.times(), 1, "{undecided}");
    }
    let (rig, asked) =
        before(&printing(&json!({"permissionDecision": "ask", "permissionDecisionReason": "well?"})));
    rig.session.grant(haft_core::permissions::Rule("note".into()));
    assert_eq!(kind(&rig.note("a", "x").await), "denied");
    assert_eq!(asked.asked()[0].reason, "well?");
}

#[tokio::test]
async fn a_hook_that_fails_in_any_way_denies_and_is_named() {
    let failures: &[(&str, &str)] = &[
        ("exit 1", "exited with code 1"),
        ("echo why >&2; exit 1", "exited with code 1: why"),
        ("no-such-command-at-all", "exited with code 127"),
        ("kill -SEGV $$", "killed by signal 11"),
        ("echo allow", "not an answer in JSON"),
        ("echo '{\"decision\": '", "not an answer in JSON"),
        ("echo '[]'", "not an answer in JSON"),
        ("echo '\"allow\"'", "not an answer in JSON"),
        ("echo true", "not an answer in JSON"),
        ("echo null", "not an answer in JSON"),
        ("echo '{\"permissionDecision\": 1}'", "not an answer in JSON"),
        ("echo '{\"permissionDecision\": [\"allow\"]}'", "not an answer in JSON"),
        ("echo '{\"hookSpecificOutput\": \"deny\"}'", "not an answer in JSON"),
        ("echo '{\"hookSpecificOutput\": []}'", "not an answer in JSON"),
        ("echo '{\"hookSpecificOutput\": [\"allow\"]}'", "not an answer in JSON"),
        ("echo '{\"continue\": \"no\"}'", "not an answer in JSON"),
        ("echo '{\"permissionDecision\":\"deny\",\"permissionDecision\":\"allow\"}'", "duplicate key"),
        ("echo '{\"permisionDecision\": \"deny\"}'", "did it mean `permissionDecision`"),
        ("echo '{\"permission_decision\": \"deny\"}'", "did it mean `permissionDecision`"),
        (
            "echo '{\"hookSpecificOutput\": {\"permisionDecision\": \"deny\"}}'",
            "did it mean `permissionDecision`",
        ),
        ("echo '{\"hookSpecificOutptu\": {}}'", "did it mean `hookSpecificOutput`"),
        ("echo '{\"permissionDecision\": \"denied\"}'", "none of allow, ask and deny"),
        ("echo '{\"decision\": \"Deny\"}'", "none of allow, ask and deny"),
        ("yes '{' | head -c 3000000", "not an answer in JSON"),
    ];
    for (script, problem) in failures {
        // Bypass mode, so that only the hook can deny.
        let (rig, asked) = before(script);
        rig.session.set_mode(Mode::Bypass);
        let reply = rig.note("a", "x").await;
        assert_eq!(kind(&reply), "denied", "{script}");
        assert_says(&reply, &["the PreToolUse hook", script, problem]);
        assert_eq!((asked.times(), rig.file("a")), (0, None), "{script}");
    }
}

#[tokio::test]
async fn a_hook_that_cannot_be_started_denies() {
    let hook = command(HookEvent::PreToolUse, Path::new("/nonexistent/folder"), "true");
    let rig = Rig::new(|engine| engine.hook(hook), |session| session.mode(Mode::Bypass));
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["could not start"]);
}

fn is_alive(pid: &str) -> bool {
    // A zombie process is still listed.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}

#[tokio::test]
async fn a_hook_that_hangs_is_ended_with_its_whole_tree_and_denies() {
    // On a busy machine the tree may need a while until it has written its process ids.
    for seconds in [1, 5, 25] {
        let dir = tempfile::tempdir().unwrap();
        let mut hook = command(
            HookEvent::PreToolUse,
            dir.path(),
            "sleep 600 & echo $! > child; trap '' TERM; echo $$ > parent; while :; do sleep 600; done",
        );
        hook.timeout = Duration::from_secs(seconds);
        let rig = Rig::new(|engine| engine.hook(hook), |session| session.mode(Mode::Bypass));
        let reply = rig.note("a", "x").await;
        assert_eq!(kind(&reply), "denied");
        assert_says(&reply, &[&format!("took longer than {seconds} s")]);
        assert_eq!(rig.file("a"), None);
        let pids = ["parent", "child"].map(|name| std::fs::read_to_string(dir.path().join(name)));
        if let [Ok(parent), Ok(child)] = pids
            && parent.ends_with('\n')
        {
            assert!(!is_alive(parent.trim()), "the parent lives on");
            return assert!(!is_alive(child.trim()), "the child lives on");
        }
    }
    panic!("the hook never came to write its process ids");
}

#[tokio::test]
async fn cancelling_a_call_kills_its_running_hook() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("started");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let hook = command(HookEvent::PreToolUse, dir.path(), "echo $$ > pid; echo > started; exec sleep 600");
    let rig = Rig::new(|engine| engine.hook(hook), |session| session.mode(Mode::Bypass));
    let mut events = rig.engine.activity().subscribe();
    let mut turn = rig.session.turn();
    let handle = turn.submit(Call::new("1", "note", json!({"path": "a", "text": "x"})));
    // Opening the pipe waits for the hook to open it.
    tokio::task::spawn_blocking(move || std::fs::read(fifo)).await.unwrap().unwrap();
    handle.cancel();
    let replies = within(turn.finish()).await;
    assert_eq!(kind(&replies[0]), "cancelled");
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    // The kill is sent when the work is dropped, which was before the reply; the process needs a moment.
    within(async {
        while is_alive(pid.trim()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_each_ended_once(&drain(&mut events));
}

#[tokio::test]
async fn a_hook_that_crashes_in_process_denies() {
    let hook = TestHook::new("fragile", HookEvent::PreToolUse, |_, _| panic!("glass"));
    let rig = Rig::new(|engine| engine.hook(hook), |session| session.mode(Mode::Bypass));
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["the PreToolUse hook `fragile` crashed: glass"]);
    let hook = TestHook::new("strict", HookEvent::PreToolUse, |_, _| Err("is out of order".into()));
    let rig = Rig::new(|engine| engine.hook(hook), |session| session.mode(Mode::Bypass));
    assert_says(&rig.note("a", "x").await, &["the PreToolUse hook `strict` is out of order"]);
}

#[tokio::test]
async fn allowing_skips_the_question_but_not_a_rule_that_denies() {
    let allow = HookAnswer::allow();
    let asked = Script::default();
    let judge = Says(|question: &Question<'_>| {
        Ok(if question.input["path"] == "secret" { Verdict::Deny("secret".into()) } else { Verdict::Abstain })
    });
    let rig = Rig::new(
        |engine| engine.hook(TestHook::before(allow)).approver(asked.clone()).judge(judge),
        |session| session,
    );
    assert_ok(&rig.note("a", "x").await);
    assert_eq!(kind(&rig.note("secret", "x").await), "denied");
    assert_eq!((asked.times(), rig.file("secret")), (0, None));
}

fn rewriting(name: &'static str, rewrite: fn(&Value) -> Value) -> TestHook {
    TestHook::new(name, HookEvent::PreToolUse, move |input, _| {
        Ok(HookAnswer::allow().updated_input(rewrite(input.call().unwrap().tool_input)))
    })
}

fn with_path(input: &Value, path: &str) -> Value {
    let mut input = input.clone();
    input["path"] = json!(path);
    input
}

#[tokio::test]
async fn rewritten_inputs_chain_and_go_through_every_stage_again() {
    let first = rewriting("first", |input| with_path(input, "b"));
    let second = rewriting("second", |input| json!({"path": input["path"], "text": "y", "times": "2"}));
    let third = TestHook::new("third", HookEvent::PreToolUse, |_, _| Ok(HookAnswer::default()));
    let rig = Rig::new(
        |engine| engine.hook(first.clone()).hook(second.clone()).hook(third.clone()),
        |session| session,
    );
    let reply = rig.note("a", "x").await;
    assert_ok(&reply);
    assert_says(&reply, &["to b", "`times` came as a string and was read as 2"]);
    assert_eq!((rig.file("a"), rig.file("b").as_deref()), (None, Some("yy")));
    assert_eq!(third.inputs()[0]["tool_input"], json!({"path": "b", "text": "y", "times": "2"}));
    assert_eq!(logged(&rig.session), ["check x", "check yy", "run yy"]);
    // All hooks run again, so that each has seen the final input.
    assert_eq!((first.inputs().len(), second.inputs().len(), third.inputs().len()), (2, 2, 2));
    assert_eq!(first.inputs()[1]["tool_input"], json!({"path": "b", "text": "y", "times": "2"}));
}

#[tokio::test]
async fn a_later_hook_cannot_rewrite_past_an_earlier_one() {
    let guard = TestHook::new("guard", HookEvent::PreToolUse, |input, _| {
        let is_secret = input.call().unwrap().tool_input["path"] == "secret";
        Ok(if is_secret { HookAnswer::deny("it is secret") } else { HookAnswer::default() })
    });
    let rewriter = rewriting("rewriter", |input| with_path(input, "secret"));
    let rig = Rig::new(|engine| engine.hook(guard).hook(rewriter), |session| session.mode(Mode::Bypass));
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["denied by the hook `guard`"]);
    assert_eq!((rig.file("a"), rig.file("secret")), (None, None));
}

#[tokio::test]
async fn hooks_that_never_agree_on_an_input_deny_it() {
    let longer = rewriting("longer", |input| {
        let text = format!("{}x", input["text"].as_str().unwrap_or_default());
        json!({"path": input["path"], "text": text})
    });
    let rig = Rig::new(|engine| engine.hook(longer), |session| session.mode(Mode::Bypass));
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["go on rewriting the input"]);
}

#[tokio::test]
async fn a_rewritten_input_is_decoded_claimed_judged_and_checked() {
    let judge = || {
        Says(|question: &Question<'_>| {
            let secret =
                question.claims.iter().any(|(_, resource)| resource.to_string().ends_with("/secret"));
            Ok(if secret { Verdict::Deny("the rule denies".into()) } else { Verdict::Abstain })
        })
    };
    type Rewrite = fn(&Value) -> Value;
    let cases: [(Rewrite, &str, &str); 5] = [
        (|_| json!({"path": 1.5}), "invalid_input", "`path` must be a string"),
        (|_| json!("nonsense"), "invalid_input", "not valid JSON"),
        (|input| with_path(input, "../outside"), "outside", "outside"),
        (|input| with_path(input, "secret"), "denied", "the rule denies"),
        (|input| json!({"path": input["path"], "text": ""}), "invalid_input", "nothing to write"),
    ];
    for (rewrite, wanted, words) in cases {
        let rig = Rig::new(
            |engine| engine.hook(rewriting("rewriter", rewrite)).judge(judge()),
            |session| session.mode(Mode::Bypass),
        );
        let reply = rig.note("a", "x").await;
        assert_eq!(kind(&reply), wanted);
        assert_says(&reply, &[words]);
        assert!(!logged(&rig.session).iter().any(|what| what.starts_with("run")));
    }
}

#[tokio::test]
async fn context_from_a_hook_is_for_the_model_only() {
    let context = |text: &str| HookAnswer::default().additional_context(text);
    let after = context("formatted by the way");
    let rig = Rig::new(
        |engine| {
            engine.hook(TestHook::before(context("mind the gap"))).hook(TestHook::new(
                "after",
                HookEvent::PostToolUse,
                move |_, _| Ok(after.clone()),
            ))
        },
        |session| session.mode(Mode::Bypass),
    );
    let reply = rig.note("a", "x").await;
    assert_ok(&reply);
    assert_eq!(reply.display_text(), "wrote 1 bytes to a");
    let hidden: Vec<_> = reply.content.iter().filter(|block| block.audience == Audience::Model).collect();
    assert_eq!(hidden.len(), 2);
    assert_says(&reply, &["mind the gap", "formatted by the way"]);
}

/// A reply of a structured value has no text block to which a note could be added.
#[tokio::test]
async fn context_from_a_hook_reaches_the_model_beside_a_value() {
    let context = HookAnswer::default().additional_context("mind the gap");
    let tool =
        function("value", "Answers with a value", async |_: Any, _cx| json!({"answer": 42})).read_only();
    let rig = Rig::new(|engine| engine.hook(TestHook::before(context)), |session| session.tool(tool));
    let reply = rig.call("value", json!({})).await;
    assert_says(&reply, &["mind the gap"]);
    assert_eq!(reply.display_text(), r#"{"answer":42}"#);
}

#[tokio::test]
async fn a_command_reads_the_json_that_existing_scripts_expect() {
    let dir = tempfile::tempdir().unwrap();
    let hook = command(
        HookEvent::PreToolUse,
        dir.path(),
        "cat > told; echo \"$HAFT_PROJECT_DIR\" > dir; echo \"$CLAUDE_PROJECT_DIR\" >> dir",
    );
    let rig =
        Rig::new(|engine| engine.hook(hook), |session| session.mode(Mode::AcceptEdits).id("my-session"));
    assert_ok(&rig.note("a", "x").await);
    let told: Value = serde_json::from_slice(&std::fs::read(dir.path().join("told")).unwrap()).unwrap();
    let expected = json!({
        "hook_event_name": "PreToolUse",
        "session_id": "my-session",
        "cwd": rig.session.cwd().to_string(),
        "permission_mode": "acceptEdits",
        "tool_name": "note",
        "tool_input": {"path": "a", "text": "x"},
        "tool_use_id": "call",
    });
    assert_eq!(told, expected);
    let dirs = std::fs::read_to_string(dir.path().join("dir")).unwrap();
    let own = dir.path().to_str().unwrap();
    assert_eq!(dirs.lines().collect::<Vec<_>>(), [own, own]);
}

#[tokio::test]
async fn post_hooks_run_after_success_and_failure() {
    let success = TestHook::new("success", HookEvent::PostToolUse, |_, _| Ok(HookAnswer::default()));
    let failure = TestHook::new("failure", HookEvent::PostToolUseFailure, |_, _| Ok(HookAnswer::default()));
    let rig = Rig::new(
        |engine| engine.hook(success.clone()).hook(failure.clone()),
        |session| session.mode(Mode::Bypass),
    );
    rig.note("a", "x").await;
    rig.note("a", "").await;
    assert_eq!((success.inputs().len(), failure.inputs().len()), (1, 1));
    let input = &success.inputs()[0];
    assert_eq!(input["hook_event_name"], "PostToolUse");
    assert_eq!(input["tool_response"]["content"][0]["text"], "wrote 1 bytes to a");
    assert_eq!(input["tool_response"]["is_error"], false);
    assert_eq!(input.get("error"), None);
    let input = &failure.inputs()[0];
    assert_eq!(input["tool_response"]["is_error"], true);
    assert_eq!(input["error"], "there is nothing to write");
    assert_eq!(input["tool_input"]["text"], "");
}

#[tokio::test]
async fn a_post_hook_that_fails_or_panics_is_reported_but_fails_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let crash = TestHook::new("fragile", HookEvent::PostToolUse, |_, _| panic!("glass"));
    let rig = Rig::new(
        |engine| engine.hook(command(HookEvent::PostToolUse, dir.path(), "exit 3")).hook(crash),
        |session| session.mode(Mode::Bypass),
    );
    let mut events = rig.engine.activity().subscribe();
    let reply = rig.note("a", "x").await;
    assert_ok(&reply);
    assert_eq!(reply.full_text(), "wrote 1 bytes to a");
    let events = drain(&mut events);
    let faults = faults(&events);
    assert_eq!(faults[0].message(), "the PostToolUse hook `exit 3` exited with code 3");
    assert_eq!(faults[1].message(), "the PostToolUse hook `fragile` crashed: glass");
    assert_each_ended_once(&events);
    assert_ok(&rig.note("a", "y").await);
}

#[tokio::test]
async fn the_reason_of_a_blocking_post_hook_reaches_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::new(
        |engine| {
            engine.hook(command(HookEvent::PostToolUse, dir.path(), "echo 'the linter frowns' >&2; exit 2"))
        },
        |session| session.mode(Mode::Bypass),
    );
    let reply = rig.note("a", "x").await;
    assert_ok(&reply);
    assert_says(&reply, &["wrote 1 bytes", "the linter frowns"]);
}

#[tokio::test]
async fn post_hooks_run_after_a_cancelled_call() {
    let dir = tempfile::tempdir().unwrap();
    let hook = command(HookEvent::PostToolUseFailure, dir.path(), "cat > told");
    let forever = function("forever", "Never ends", async |_: Any, _cx| {
        std::future::pending::<()>().await;
        "never"
    })
    .read_only();
    let rig = Rig::new(|engine| engine.hook(hook), |session| session.tool(forever));
    let mut events = rig.engine.activity().subscribe();
    let mut turn = rig.session.turn();
    turn.submit(Call::new("1", "forever", json!({})));
    turn.cancel();
    assert_eq!(kind(&within(turn.finish()).await[0]), "cancelled");
    let told: Value = serde_json::from_slice(&std::fs::read(dir.path().join("told")).unwrap()).unwrap();
    assert_eq!(told["error"], "the call was cancelled");
    assert_eq!(faults(&drain(&mut events)).len(), 1, "only the call itself failed");
}

/// A hook that formats a written file must be done before the next call reads the file.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_call_waits_for_the_post_hooks_of_the_one_before() {
    for _ in 0..20 {
        let hook = TestHook::new("format", HookEvent::PostToolUse, |input, cx| {
            std::thread::yield_now();
            log(cx, format!("hook {}", input.call().unwrap().tool_use_id));
            Ok(HookAnswer::default())
        });
        let rig = Rig::new(|engine| engine.hook(hook), |session| session.mode(Mode::Bypass));
        let mut turn = rig.session.turn();
        for id in ["1", "2"] {
            turn.submit(Call::new(id, "note", json!({"path": "a", "text": id})));
        }
        within(turn.finish()).await;
        assert_eq!(logged(&rig.session), ["check 1", "run 1", "hook 1", "check 2", "run 2", "hook 2"]);
    }
}

#[tokio::test]
async fn patterns_match_whole_names() {
    let matches = |pattern: &str, tool: &str| ToolPattern::new(pattern).unwrap().matches(tool);
    for (pattern, tool, expected) in [
        ("Edit|Write", "Edit", true),
        ("Edit|Write", "Write", true),
        ("Edit|Write", "MultiEdit", false),
        ("Edit|Write", "WriteAll", false),
        ("mcp__.*", "mcp__server__tool", true),
        ("mcp__.*", "not_mcp__server", false),
        ("*", "anything", true),
        ("", "anything", true),
        ("note", "Note", false),
    ] {
        assert_eq!(matches(pattern, tool), expected, "{pattern} on {tool}");
    }
    for wrong in ["(", "[", "Edit)|(Write", "a)(?:b", "**"] {
        let fault = ToolPattern::new(wrong).unwrap_err();
        assert!(fault.message().contains(wrong) && fault.hint_text().is_some(), "{fault}");
    }
}

#[tokio::test]
async fn a_command_is_called_for_its_tools_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut hook = command(HookEvent::PreToolUse, dir.path(), "exit 2");
    hook.tools = ToolPattern::new("note|write").unwrap();
    let rig = Rig::new(|engine| engine.hook(hook), |session| session.mode(Mode::Bypass).tool(echo()));
    assert_ok(&rig.call("echo", json!({})).await);
    assert_eq!(kind(&rig.note("a", "x").await), "denied");
}

#[tokio::test]
async fn arguments_never_reach_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    let hook = command(HookEvent::PreToolUse, dir.path(), "cat > told");
    let rig = Rig::new(
        |engine| engine.hook(hook).approver(Script::say([Decision::AllowOnce])),
        |session| session.mode(Mode::Bypass),
    );
    for text in [
        "$(touch M)",
        "; touch M",
        "`touch M`",
        "\ntouch M\n",
        "' ; touch M ; '",
        "\"; touch M; \"",
        "\u{1b}]0;x\u{7}",
    ] {
        let reply =
            within(rig.session.call(Call::new(text, "note", json!({"path": "a", "text": text})))).await;
        assert_ok(&reply);
        let told: Value = serde_json::from_slice(&std::fs::read(dir.path().join("told")).unwrap()).unwrap();
        assert_eq!((&told["tool_input"]["text"], &told["tool_use_id"]), (&json!(text), &json!(text)));
        assert!(!dir.path().join("M").exists() && rig.file("M").is_none());
    }
}
