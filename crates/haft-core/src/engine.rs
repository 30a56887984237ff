//! The pipeline that every call goes through. `accept` finds the tool, decodes the input and claims resources
//! synchronously, so that calls claim in the order in which they were submitted; `execute` waits, checks, permits,
//! runs, renders and records. Each stage's rules live in the module of its name; this file knows only their order.

mod builder;
mod dry_run;
mod faults;

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use haft_sandbox::{AbsPath, Workspace};
use serde_json::Value;

pub use builder::EngineBuilder;
use faults::{crashed, repeated, timed_out};

use crate::audit::{Audit, AuditEntry, AuditOutcome, Flush};
use crate::crash::{catch_panic, catch_panic_async};
use crate::dialect::Failed;
use crate::dialect::{text_fault, text_notes};
use crate::events::{Activity, EventKind, EventPayload};
use crate::hooks::{self, Hook, PreHookAnswer};
use crate::images::ImageFitter;
use crate::limits::ResultStore;
use crate::permissions::{
    self, ApprovalAdvice, Approved, DecidedBy, HiddenFiles, Judge, PermissionState, Question,
};
use crate::permissions::{Approver, Verdict};
use crate::plans::PlanApprover;
use crate::questions::Respondent;
use crate::registry::Entry;
use crate::schedule::{Blocker, Position, Ticket};
use crate::sessions::{PastCall, SessionBuilder};
use crate::stats::{Outcome, Stats};
use crate::trials::{self, Begun, RunManner};
use crate::turn::{self, RepeatKey, Shared};
use crate::{
    Access, Call, CallHandle, Claims, Context, Effect, Fault, FaultKind, Input, Prepared, Preview, Reply,
    Resource, Session, Turn, limits, render, spec,
};

/// How long a cancelled call waits for [work that stops by itself](Context::cooperative).
const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// The engine that all sessions share: hooks, judges, approvers, events and statistics. Cheap to clone.
///
/// ```
/// use haft_core::{Call, Engine, Workspace, function};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder().max_result("hello", 100).build();
/// let hello = function("hello", "Greets", async |_input: Value, _cx| "hello").read_only();
/// let session = engine.session(Workspace::open(".".as_ref())?).tool(hello).start();
/// let reply = session.call(Call::new("1", "hello", json!({}))).await;
/// assert_eq!(reply.full_text(), "hello");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    activity: Activity,
    stats: Stats,
    hooks: Vec<Arc<dyn Hook>>,
    judges: Vec<Arc<dyn Judge>>,
    approver: Arc<dyn Approver>,
    respondent: Option<Arc<dyn Respondent>>,
    plan_approver: Option<Arc<dyn PlanApprover>>,
    images: Arc<dyn ImageFitter>,
    kept: Option<ResultStore>,
    answer_timeout: Option<Duration>,
    approval_advice: Option<Arc<ApprovalAdvice>>,
    audit: Option<Audit>,
    max_results: HashMap<String, usize>,
}

impl Default for Engine {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl Engine {
    /// Starts to configure an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Starts to configure a session in a workspace.
    pub fn session(&self, workspace: Workspace) -> SessionBuilder {
        SessionBuilder::new(self.clone(), workspace)
    }

    /// The audit log, if the engine writes one.
    pub fn audit(&self) -> Option<&Audit> {
        self.0.audit.as_ref()
    }

    /// The approver for a call: the session's own, if it can be reached, or the engine's.
    pub(crate) fn approver_of<'a>(&'a self, cx: &'a Context) -> &'a dyn Approver {
        let own = cx.session().approver().filter(|own| own.is_there(cx.call()));
        own.unwrap_or(&*self.0.approver)
    }

    pub(crate) fn judges(&self) -> &[Arc<dyn Judge>] {
        &self.0.judges
    }

    pub(crate) fn kept(&self) -> Option<&ResultStore> {
        self.0.kept.as_ref()
    }

    /// Writes a decision to the audit log. A call whose decision cannot be written is denied, unless it needed no approval.
    pub(crate) fn record_decision(
        &self,
        cx: &Context,
        input: &Value,
        decision: AuditOutcome,
        by: DecidedBy,
    ) -> Result<(), Fault> {
        let Some(audit) = &self.0.audit else { return Ok(()) };
        let flush = if by == DecidedBy::NotNeeded { Flush::Batched } else { Flush::Now };
        let entry = AuditEntry::now(cx, input, decision, by.to_string());
        let recorded = audit.record(entry, flush);
        recorded.or_else(|error| if flush == Flush::Now { Err(error) } else { Ok(()) }).map_err(|error| {
            permissions::denied(format!(
                "the decision could not be written down, so nothing was changed: {error}"
            ))
            .hint("have the user look at haft's state folder: `haft doctor` names it")
        })
    }

    /// The stream of events about all calls of all sessions.
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// The statistics of every tool.
    pub fn stats(&self) -> &Stats {
        &self.0.stats
    }

    /// See [`Context::hidden_files`].
    pub(crate) fn hidden_files(&self, cx: &Context) -> Vec<Arc<dyn HiddenFiles>> {
        let of = |judge: &Arc<dyn Judge>| {
            catch_panic(|| judge.hidden_files(cx)).unwrap_or_else(|_| Some(Arc::new(permissions::HideAll)))
        };
        self.0.judges.iter().filter_map(of).collect()
    }

    /// See [`Context::verdict`].
    pub(crate) fn verdict(
        &self,
        spec: &crate::Spec,
        claims: &Claims,
        cx: &Context,
    ) -> Result<Verdict, Fault> {
        permissions::judge(&self.0.judges, &Question { spec, input: &Value::Null, claims, cx })
    }

    /// Prepares a call, and returns it with its claims and the judges' verdict on them.
    fn claim(
        &self,
        entry: &Entry,
        input: &Value,
        cx: &Context,
    ) -> Result<(Box<dyn Prepared>, Claims, Verdict), Fault> {
        let prepared = entry.tool.prepare(input, cx)?;
        let claims = cx.with_aliases(prepared.claims())?;
        let question = Question { spec: entry.tool.spec(), input, claims: &claims, cx };
        let verdict = permissions::judge(&self.0.judges, &question)?;
        Ok((prepared, claims, verdict))
    }

    /// Stages 1 to 3, synchronously.
    pub(crate) fn accept(&self, session: &Session, turn: &Turn, call: Call) -> Box<Job> {
        let cancel = turn.shared.cancel.child_token();
        let cx = Context::new(session.clone(), turn.shared.number, call.id, call.name, cancel)
            .of_message(turn.shared.message.clone());
        let mut job = Box::new(Job {
            engine: self.clone(),
            turn: turn.shared.clone(),
            entry: None,
            input: Value::Null,
            notes: Vec::new(),
            ticket: None,
            admitted: None,
            is_alone: true,
            started: Instant::now(),
            ended: false,
            cx,
        });
        // Read before `admit`: the call that creates a file may end right after this one found the file missing.
        job.is_alone = session.schedule().is_idle();
        let admitted = catch_panic(|| job.admit(call.input)).unwrap_or_else(|panic| Err(crashed(panic)));
        let admitted = match admitted {
            Err(fault) if !job.is_alone => job.defer_if_missing(fault),
            admitted => admitted,
        };
        job.cx.emit(EventKind::Started, || EventPayload::Started { input: Arc::new(job.input.clone()) });
        job.admitted = Some(admitted);
        job
    }
}

/// One call on its way through the pipeline.
pub(crate) struct Job {
    engine: Engine,
    turn: Arc<Shared>,
    cx: Context,
    entry: Option<Arc<Entry>>,
    input: Value,
    notes: Vec<String>,
    ticket: Option<Ticket>,
    admitted: Option<Result<Admitted, Fault>>,
    /// Whether no other call of the session was unfinished when this one came.
    is_alone: bool,
    started: Instant,
    ended: bool,
}

/// What stages 1 to 3 made of a call.
enum Admitted {
    Claimed(Claimed),
    /// The call's meaning depends on unfinished calls. It holds its position and is admitted again after them.
    Deferred,
}

/// A call whose claims are known.
struct Claimed {
    prepared: Box<dyn Prepared>,
    claims: Claims,
    verdict: Verdict,
    /// By what a later repeat of this call is recognised; only in dialects that refuse repeats.
    repeat: Option<RepeatKey>,
}

impl Job {
    /// A handle that can cancel the call.
    pub(crate) fn handle(&self) -> CallHandle {
        CallHandle::new(self.cx.call().clone(), self.cx.cancel_token().clone())
    }

    /// Stages 4 to 9.
    pub(crate) async fn execute(mut self: Box<Self>) -> Reply {
        let (cx, cancelled) = (self.cx.clone(), self.cx.cancelled());
        let outcome = {
            let mut attempt = std::pin::pin!(catch_panic_async(self.attempt()));
            let mut cancelled = std::pin::pin!(cancelled);
            let mut grace = None;
            std::future::poll_fn(|task| match attempt.as_mut().poll(task) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                // A commit cannot be abandoned half way: it ends by itself, and the reply must say how.
                Poll::Pending if cx.is_committing() => Poll::Pending,
                Poll::Pending if !cx.is_cancelled() && cancelled.as_mut().poll(task).is_pending() => {
                    Poll::Pending
                }
                Poll::Pending if cx.stops_itself() => {
                    let grace = grace.get_or_insert_with(|| Box::pin(tokio::time::sleep(CANCEL_GRACE)));
                    grace.as_mut().poll(task).map(|()| None)
                }
                Poll::Pending => Poll::Ready(None),
            })
            .await
        };
        let outcome = match outcome {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => Err(crashed(panic)),
            None => Err(self.cx.interrupted_fault()),
        };
        let (reply, fault) = self.render(outcome);
        self.record(fault, reply).await
    }

    /// Stages 4 to 7: up to a reply or a fault.
    async fn attempt(&mut self) -> Result<Reply, Fault> {
        let Some(admitted) = self.admitted.take() else {
            return Err(Fault::new(FaultKind::Internal, "the call was carried out twice"));
        };
        let claimed = match self.await_permission(admitted).await {
            Ok((claimed, permission)) => {
                self.audit(AuditOutcome::Allowed, permission.by)?;
                claimed
            }
            Err(fault) if fault.kind() == FaultKind::Denied => {
                self.audit(AuditOutcome::Denied, DecidedBy::Reason(fault.message().to_owned()))?;
                return Err(fault);
            }
            Err(fault) => return Err(fault),
        };
        let Claimed { prepared, claims, repeat, .. } = claimed;
        if self.cx.run_manner() != RunManner::Direct {
            self.cx.keep_facts(&self.input, &claims);
        }
        let outcome = self.run(prepared).await;
        if let Some(repeat) = repeat {
            // Also a call that failed may have written something.
            self.turn.record_writes(claims);
            if outcome.is_ok() {
                // Remembered only now: before this there is no reply that a repeat could use instead.
                self.turn.remember(repeat, self.cx.call().clone());
            }
        }
        outcome
    }

    /// Stages 4 to 6, repeated whenever a hook or a person rewrites the input, until the call is permitted.
    async fn await_permission(
        &mut self,
        admitted: Result<Admitted, Fault>,
    ) -> Result<(Claimed, PermissionState), Fault> {
        let mut admitted = admitted?;
        let mut permission = PermissionState::default();
        loop {
            self.wait().await?;
            let Admitted::Claimed(mut claimed) = admitted else {
                let input = std::mem::take(&mut self.input);
                admitted = self.admit(Input::Value(input))?;
                continue;
            };
            let preview = self.check(&mut claimed).await?;
            if !self.is_alone && !claimed.claims.is_read_only() {
                self.judge_again(&mut claimed)?;
            }
            match self.permit(&mut claimed, preview, &mut permission).await? {
                None => return Ok((claimed, permission)),
                Some(rewritten) => admitted = self.admit(Input::Value(rewritten))?,
            }
        }
    }

    /// Judges a call once more that came while others ran: these may have changed files that judges look at, such as the
    /// script that it runs.
    fn judge_again(&self, claimed: &mut Claimed) -> Result<(), Fault> {
        if let Some(entry) = &self.entry {
            let (spec, claims) = (entry.tool.spec(), &claimed.claims);
            let question = Question { spec, input: &self.input, claims, cx: &self.cx };
            claimed.verdict = permissions::judge(&self.engine.0.judges, &question)?;
        }
        Ok(())
    }

    fn audit(&self, decision: AuditOutcome, by: DecidedBy) -> Result<(), Fault> {
        self.engine.record_decision(&self.cx, &self.input, decision, by)
    }

    /// 1 find, 2 decode, 3 claim.
    fn admit(&mut self, input: Input) -> Result<Admitted, Fault> {
        self.input = input.into_value();
        let entry = self.cx.session().tools().find(self.cx.tool(), &self.cx)?;
        let entry = self.entry.insert(entry).clone();
        self.notes.extend(entry.decoder.decode(&mut self.input, entry.tool.spec())?);
        if self.ticket.is_none() && !self.is_alone && entry.tool.refers_to_earlier_calls(&self.input) {
            self.hold_position(&Claims::none().read(Resource::Everything));
            return Ok(Admitted::Deferred);
        }
        let (prepared, claims, verdict) = self.engine.claim(&entry, &self.input, &self.cx)?;
        if self.ticket.is_none() && !self.is_alone {
            let missing = prepared.missing();
            if !missing.is_empty() {
                let missing = missing.iter().map(|path| Resource::Path(self.place_of(path)));
                self.hold_position(&missing.fold(claims, Claims::read));
                return Ok(Admitted::Deferred);
            }
        }
        let access = if claims.is_read_only() { Access::Read } else { Access::Write };
        let mut order = Cow::Borrowed(&claims);
        if self.cx.session().dialect().refuses_repeats() {
            // Equal calls claim one resource, so that the second waits for the first and can refer to its reply.
            let key = turn::call_hash(self.cx.tool(), &self.input);
            let same = format!("the same call of {} ({key:x})", self.cx.tool());
            order = Cow::Owned(claims.clone().write(Resource::State(same.into())));
        }
        match &mut self.ticket {
            Some(ticket) => ticket.reclaim(&order, access),
            None => {
                let session = self.cx.session();
                let position = Position { turn: self.turn.number, policy: session.policy(), access };
                self.ticket = Some(session.schedule().enter(self.cx.call(), position, &order));
            }
        }
        Ok(Admitted::Claimed(Claimed { prepared, claims, verdict, repeat: None }))
    }

    /// Defers a call that failed because a file is missing: an unfinished earlier call may be about to create it. The call
    /// is admitted again after the earlier calls that write there.
    fn defer_if_missing(&mut self, fault: Fault) -> Result<Admitted, Fault> {
        let Some(missing) = fault.missing() else { return Err(fault) };
        let path = self.place_of(missing);
        self.hold_position(&Claims::none().read(Resource::Path(path)));
        Ok(Admitted::Deferred)
    }

    /// Where a file that does not exist would be.
    fn place_of(&self, missing: &str) -> AbsPath {
        let (workspace, cwd) = (self.cx.workspace(), self.cx.cwd());
        match workspace.resolve(&cwd, missing) {
            Ok(found) => found.path,
            Err(_) => workspace.lexical_path(&cwd, missing),
        }
    }

    /// Queues the call behind earlier calls that conflict with `claims`. Its real claims are known only after those, so
    /// until then all later calls wait for it.
    fn hold_position(&mut self, claims: &Claims) {
        let session = self.cx.session();
        let is_read_only = self.entry.as_ref().is_some_and(|entry| entry.tool.spec().read_only);
        let access = if is_read_only { Access::Read } else { Access::Write };
        let position = Position { turn: self.turn.number, policy: session.policy(), access };
        self.ticket = Some(session.schedule().enter_unknown(self.cx.call(), position, claims));
    }

    /// 4 wait: for earlier calls with conflicting claims.
    async fn wait(&mut self) -> Result<(), Fault> {
        let cx = &self.cx;
        if let Some(ticket) = &mut self.ticket {
            let waiting = |on: &Blocker| {
                cx.emit(EventKind::Waiting, || EventPayload::Waiting {
                    on: on.call.clone(),
                    resource: on.resource.clone(),
                });
            };
            ticket.ready(waiting).await;
        }
        if self.cx.is_cancelled() { Err(self.cx.cancelled_fault()) } else { Ok(()) }
    }

    /// 5 check: whether the call can run at all, and what it would change.
    async fn check(&mut self, claimed: &mut Claimed) -> Result<Option<Preview>, Fault> {
        if self.cx.session().dialect().refuses_repeats() {
            let call = turn::call_hash(self.cx.tool(), &self.input);
            let repeat = RepeatKey { call, fingerprint: claimed.prepared.fingerprint(&self.cx) };
            if let Some(earlier) = self.turn.earlier(&repeat, &claimed.claims) {
                return Err(repeated(&earlier, &claimed.claims));
            }
            claimed.repeat = Some(repeat);
        }
        claimed.prepared.check(&self.cx).await
    }

    /// 6 permit: hooks, then rules, mode and sensitivity, then the approver. Returns the new input if a hook or the
    /// approver rewrote it.
    async fn permit(
        &mut self,
        claimed: &mut Claimed,
        preview: Option<Preview>,
        permission: &mut PermissionState,
    ) -> Result<Option<Value>, Fault> {
        if !permission.hooks_ran {
            permission.hooks_ran = true;
            if !self.engine.0.hooks.is_empty() {
                let engine = self.engine.clone();
                let answer = hooks::before(&engine.0.hooks, &self.input, &self.cx);
                let answer: PreHookAnswer = Box::pin(answer).await?;
                self.notes.extend(answer.notes);
                permission.hook_allows = answer.allows;
                permission.hook_asks = answer.asks;
                if answer.rewritten.is_some() {
                    // The approval was for the input before the hook rewrote it.
                    permission.approved = false;
                    return Ok(answer.rewritten);
                }
            }
        }
        let Some(entry) = self.entry.clone() else { return Ok(None) };
        let question =
            Question { spec: entry.tool.spec(), input: &self.input, claims: &claimed.claims, cx: &self.cx };
        let approval = claimed.prepared.approval(&self.cx);
        let first = permission.verdict(&claimed.verdict);
        if permission.approved {
            return Ok(None);
        }
        // It may have been decided for other arguments.
        self.cx.decide_manner(RunManner::Direct);
        if permissions::needs_approval(&question, &first, &approval)?.is_none() {
            trials::begin_unasked(&*claimed.prepared, &self.cx);
            permission.by = DecidedBy::verdict(&first, self.cx.session().mode());
            return Ok(None);
        }
        // The call was judged before it waited; other answers may have added rules since.
        let engine = &self.engine.0;
        let mut relaxed = self.cx.session().relaxed();
        let verdict = permission.verdict(&permissions::judge(&engine.judges, &question)?);
        let Some(mut needed) = permissions::needs_approval(&question, &verdict, &approval)? else {
            trials::begin_unasked(&*claimed.prepared, &self.cx);
            permission.by = DecidedBy::verdict(&verdict, self.cx.session().mode());
            return Ok(None);
        };
        permission.approved = true;
        let may_try = match trials::begin(&*claimed.prepared, &verdict, &mut needed, &self.cx) {
            Begun::Tried => {
                permission.by = DecidedBy::Trial;
                return Ok(None);
            }
            Begun::Asked { may_try } => may_try,
        };
        let preview = preview.or_else(|| claimed.prepared.preview(&self.cx));
        let offers =
            permissions::Offers { network: claimed.prepared.can_be_given_network(&self.cx), trial: may_try };
        let request = permissions::request(&question, &engine.judges, &verdict, preview, offers, needed);
        let approver = self.engine.approver_of(&self.cx);
        let ask = permissions::ask(approver, &engine.judges, engine.answer_timeout, request, &self.cx);
        let mut ask = Box::pin(ask);
        let answer = loop {
            tokio::select! {
                answer = &mut ask => break answer?,
                // An answer to another call's question may cover this call too; the question is then withdrawn.
                Ok(()) = relaxed.changed() => {
                    let judged = permissions::judge(&engine.judges, &question)?;
                    if permissions::needs_approval(&question, &permission.verdict(&judged), &approval)?.is_none() {
                        break Approved::ByOtherAnswer;
                    }
                }
            }
        };
        drop(ask);
        match answer {
            Approved::Once => {
                permission.by = DecidedBy::Person("once");
                Ok(None)
            }
            Approved::Always => {
                permission.by = DecidedBy::Person("always");
                Ok(None)
            }
            Approved::WithNetwork => {
                self.cx.give_network();
                permission.by = DecidedBy::Person("once, with the network");
                Ok(None)
            }
            Approved::AsTrial => {
                self.cx.decide_manner(RunManner::Trial);
                permission.by = DecidedBy::Person("as a trial");
                Ok(None)
            }
            Approved::ByOtherAnswer => {
                permission.by = DecidedBy::Person("by another answer");
                Ok(None)
            }
            Approved::Parts(parts) => {
                permission.by = DecidedBy::Person("in part");
                let refused = claimed.prepared.keep_parts(&parts, &self.cx)?;
                self.notes
                    .push(format!("the user agreed to a part of the change only; left out was:\n{refused}"));
                Ok(None)
            }
            Approved::Edited(input) => {
                permission.by = DecidedBy::Person("with other arguments");
                // The hooks saw other arguments than those that will run.
                permission.hooks_ran = false;
                self.note_changed_arguments();
                Ok(Some(input))
            }
            Approved::Revised(input) => {
                // Nothing was approved yet: hooks, rules and the person see the new arguments first.
                permission.approved = false;
                permission.hooks_ran = false;
                self.note_changed_arguments();
                Ok(Some(input))
            }
        }
    }

    fn note_changed_arguments(&mut self) {
        let note = "the user changed the arguments before allowing the call";
        if !self.notes.iter().any(|earlier| earlier == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// 7 run: until the tool's timeout.
    async fn run(&mut self, prepared: Box<dyn Prepared>) -> Result<Reply, Fault> {
        let running = prepared.run(self.cx.clone());
        match self.entry.as_ref().and_then(|entry| entry.tool.spec().timeout) {
            None => running.await,
            Some(limit) => match Box::pin(tokio::time::timeout(limit, running)).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    // A blocking thread cannot be stopped from outside; the token asks it to stop.
                    self.cx.cancel_token().cancel();
                    Err(timed_out(limit))
                }
            },
        }
    }

    /// 8 render: faults and notes in the dialect's form.
    fn render(&mut self, outcome: Result<Reply, Fault>) -> (Reply, Option<Fault>) {
        let dialect = self.cx.session().dialect();
        let (mut reply, fault) = match outcome {
            Ok(reply) => (self.complete(reply), None),
            Err(fault) => {
                let failed = Failed { tool: self.cx.tool(), input: &self.input };
                // The model gets a reply even if the dialect panics.
                let reply = catch_panic(|| dialect.present(&failed, &fault));
                let mut reply = reply.unwrap_or_else(|_| text_fault(&fault));
                reply.fault = Some(fault.clone());
                (reply, Some(fault))
            }
        };
        self.note(&mut reply, &self.notes);
        (reply, fault)
    }

    /// Puts the reply of a tool that is not the dialect's own into the dialect's form. A tool with an output schema keeps
    /// its own form.
    fn complete(&self, reply: Reply) -> Reply {
        let dialect = self.cx.session().dialect();
        match &self.entry {
            Some(entry) if entry.tool.spec().output_schema().is_none() => {
                let completed = catch_panic(move || dialect.complete(reply));
                completed.unwrap_or_else(|panic| text_fault(&crashed(panic)))
            }
            _ => reply,
        }
    }

    fn note(&self, reply: &mut Reply, notes: &[String]) {
        let dialect = self.cx.session().dialect();
        if !notes.is_empty() && catch_panic(|| dialect.note(reply, notes)).is_err() {
            text_notes(reply, notes);
        }
    }

    /// Sets the reply's id and name, and cuts it to the tool's limit.
    fn fit(&self, mut reply: Reply) -> Reply {
        reply.id = self.cx.call().clone();
        reply.name = self.cx.tool().clone();
        let (max, cut) = match &self.entry {
            Some(entry) => (entry.tool.spec().max_result, entry.tool.spec().cut),
            None => (spec::DEFAULT_MAX_RESULT, limits::Cut::default()),
        };
        let max = self.engine.0.max_results.get(&**self.cx.tool()).copied().unwrap_or(max);
        let offload = self.engine.0.kept.as_ref().map(|kept| render::Offload { kept, cx: &self.cx });
        render::fit(&mut reply, max, cut, offload.as_ref());
        reply
    }

    /// 9 record: hooks, effects on the session, statistics, the end. The claims are held until then: a hook may change
    /// the files that the call changed, and the next call must see this one's effects.
    async fn record(&mut self, fault: Option<Fault>, mut reply: Reply) -> Reply {
        if render::has_images(&reply) {
            Box::pin(render::fit_images(&mut reply, &self.engine.0.images)).await;
        }
        // Hooks see no denied call, which never ran, and no call of an unknown tool.
        let denied = fault.as_ref().is_some_and(|fault| fault.kind() == FaultKind::Denied);
        let is_hooked = self.entry.is_some()
            && !denied
            && hooks::any_wants_after(&self.engine.0.hooks, &reply, self.cx.tool());
        let reply = if is_hooked {
            Box::pin(self.run_post_hooks(fault.as_ref(), reply)).await
        } else {
            self.fit(reply)
        };
        let mut effects = self.cx.take_effects();
        if reply.is_error {
            effects.retain(Effect::outlasts_failure);
        }
        if !effects.is_empty() {
            self.cx.session().apply(effects, &self.cx);
        }
        if let Some(fault) = fault {
            self.cx.emit(EventKind::Fault, || EventPayload::Fault(fault));
        }
        self.end(&reply);
        reply
    }

    /// Runs the hooks after the call, and adds their messages to the reply.
    async fn run_post_hooks(&mut self, fault: Option<&Fault>, reply: Reply) -> Reply {
        let whole = reply.clone();
        let reply = self.fit(reply);
        let messages = hooks::after(&self.engine.clone().0.hooks, &self.input, fault, &reply, &self.cx).await;
        if messages.is_empty() {
            return reply;
        }
        // The notes go into the uncut reply: cutting a reply twice would make its file hold less than the whole.
        let mut whole = whole;
        self.note(&mut whole, &messages);
        self.fit(whole)
    }

    fn end(&mut self, reply: &Reply) {
        self.ended = true;
        let took = self.started.elapsed();
        if self.entry.is_some() {
            let is_denied = reply.fault().is_some_and(|fault| fault.kind() == FaultKind::Denied);
            let outcome = match reply.is_error {
                true if is_denied => Outcome::Denial,
                true => Outcome::Failure,
                false => Outcome::Success,
            };
            let own = took.saturating_sub(self.cx.waited_for_person());
            self.engine.stats().record(self.cx.tool(), own, outcome);
        }
        let past = PastCall { tool: self.cx.tool().clone(), files: self.cx.take_kept_files() };
        self.cx.session().remember_call(self.cx.call().clone(), past);
        self.cx.emit(EventKind::Ended, || EventPayload::Ended { reply: Arc::new(reply.clone()), took });
    }
}

impl Drop for Job {
    /// The caller dropped the call's future: cancels the work, and emits the call's end.
    fn drop(&mut self) {
        if !self.ended {
            self.cx.cancel_token().cancel();
            let (reply, _) = self.render(Err(self.cx.cancelled_fault()));
            self.end(&self.fit(reply));
        }
    }
}
