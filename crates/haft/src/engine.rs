//! The pipeline: what happens to every call, in the order it happens. `take_on` finds, decodes and claims
//! at once, so that calls claim in the order they came; `carry_out` waits, checks, permits, runs, renders
//! and records. Each stage's rules live in the module of its name.

mod builder;
mod consider;
mod faults;

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use haft_sandbox::Workspace;
use serde_json::Value;

pub use builder::EngineBuilder;
use faults::{crashed, repeated, timed_out};

use crate::activity::{Activity, EventKind, What};
use crate::crash::{caught, uncrashed};
use crate::dialect::{text_fault, text_notes};
use crate::hooks::{self, Before, Hook};
use crate::permissions::{self, Answer, By, Judge, Question, Settled};
use crate::registry::Entry;
use crate::schedule::{Blocker, Place, Ticket};
use crate::turn::{self, Earlier, Shared};
use crate::{
    Access, Approver, Audit, Call, CallHandle, Claims, Context, Decided, Effect, Failed, Fault, FaultKind,
    Input, Kept, Outcome, PastCall, PlanApprover, Prepared, Preview, Reply, Resource, Respondent, Ruled,
    Session, SessionBuilder, Stats, Turn, Verdict, limits, render, spec,
};

/// One engine: what all sessions share. Cheap to clone.
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
    kept: Option<Kept>,
    patience: Option<Duration>,
    audit: Option<Audit>,
    max_results: HashMap<String, usize>,
}

impl Default for Engine {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl Engine {
    /// Sets up an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Sets up a session in a workspace.
    pub fn session(&self, workspace: Workspace) -> SessionBuilder {
        SessionBuilder::new(self.clone(), workspace)
    }

    /// Where it is written down what was decided about calls.
    pub fn audit(&self) -> Option<&Audit> {
        self.0.audit.as_ref()
    }

    pub(crate) fn kept(&self) -> Option<&Kept> {
        self.0.kept.as_ref()
    }

    /// The stream of events.
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// The figures of every tool.
    pub fn stats(&self) -> &Stats {
        &self.0.stats
    }

    /// What a call would touch, and what the judges say of that.
    fn claim(
        &self,
        entry: &Entry,
        input: &Value,
        cx: &Context,
    ) -> Result<(Box<dyn Prepared>, Claims, Verdict), Fault> {
        let prepared = entry.tool.prepare(input, cx)?;
        let claims = cx.with_names(prepared.claims())?;
        let question = Question { spec: entry.tool.spec(), input, claims: &claims, cx };
        let verdict = permissions::judge(&self.0.judges, &question)?;
        Ok((prepared, claims, verdict))
    }

    /// Stages 1 to 3, without waiting for anything.
    pub(crate) fn take_on(&self, session: &Session, turn: &Turn, call: Call) -> Box<Job> {
        let cancel = turn.shared.cancel.child_token();
        let cx = Context::new(session.clone(), turn.shared.number, call.id, call.name, cancel);
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
        // Asked before: the call that makes a file may end right after it was found missing.
        job.is_alone = session.schedule().is_idle();
        let admitted = uncrashed(|| job.admit(call.input)).unwrap_or_else(|panic| Err(crashed(panic)));
        let admitted = match admitted {
            Err(fault) if !job.is_alone => job.look_again_later(fault),
            admitted => admitted,
        };
        job.cx.emit(EventKind::Started, || What::Started { input: Arc::new(job.input.clone()) });
        job.admitted = Some(admitted);
        job
    }
}

/// One call on its way.
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

/// A call that was taken on.
enum Admitted {
    Claimed(Claimed),
    /// What it means depends on calls that are not done yet. It holds its place and is admitted again after them.
    Later,
}

/// A call that knows what it will touch.
struct Claimed {
    prepared: Box<dyn Prepared>,
    claims: Claims,
    verdict: Verdict,
    /// Where repeats are refused: what tells whether a later call is one.
    seen: Option<(u64, u64)>,
}

impl Job {
    /// What stops the call.
    pub(crate) fn handle(&self) -> CallHandle {
        CallHandle::new(self.cx.call().clone(), self.cx.cancel_token().clone())
    }

    /// Stages 4 to 9.
    pub(crate) async fn carry_out(mut self: Box<Self>) -> Reply {
        let (cx, cancelled) = (self.cx.clone(), self.cx.cancelled());
        let outcome = {
            let mut attempt = std::pin::pin!(caught(self.attempt()));
            let mut cancelled = std::pin::pin!(cancelled);
            std::future::poll_fn(|task| match attempt.as_mut().poll(task) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                // What is being committed ends by itself, and the reply must say how.
                Poll::Pending if cx.is_committing() => Poll::Pending,
                Poll::Pending => cancelled.as_mut().poll(task).map(|()| None),
            })
            .await
        };
        let outcome = match outcome {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => Err(crashed(panic)),
            None => Err(self.cx.cancelled_fault()),
        };
        let (reply, fault) = self.render(outcome);
        self.record(fault, reply).await
    }

    /// Everything up to a reply or a fault.
    async fn attempt(&mut self) -> Result<Reply, Fault> {
        let Some(admitted) = self.admitted.take() else {
            return Err(Fault::new(FaultKind::Internal, "the call was carried out twice"));
        };
        let claimed = match self.settle(admitted).await {
            Ok((claimed, settled)) => {
                self.decided(Ruled::Allowed, settled.by)?;
                claimed
            }
            Err(fault) if fault.kind() == FaultKind::Denied => {
                self.decided(Ruled::Denied, By::Said(fault.message().to_owned()))?;
                return Err(fault);
            }
            Err(fault) => return Err(fault),
        };
        let reply = self.run(claimed.prepared).await?;
        if let Some((key, fingerprint)) = claimed.seen {
            // Only now is there a reply that a repeat could use.
            self.turn.remember(key, Earlier { call: self.cx.call().clone(), fingerprint });
        }
        Ok(reply)
    }

    /// Stages 4 to 6, until it is settled that the call may happen.
    async fn settle(
        &mut self,
        admitted: Result<Admitted, Fault>,
    ) -> Result<(Claimed, Settled), Fault> {
        let mut admitted = admitted?;
        let mut settled = Settled::default();
        loop {
            self.wait().await?;
            let Admitted::Claimed(mut claimed) = admitted else {
                let input = std::mem::take(&mut self.input);
                admitted = self.admit(Input::Value(input))?;
                continue;
            };
            let preview = self.check(&mut claimed).await?;
            match self.permit(&mut claimed, preview, &mut settled).await? {
                None => return Ok((claimed, settled)),
                Some(rewritten) => admitted = self.admit(Input::Value(rewritten))?,
            }
        }
    }

    /// Writes down what was decided. What cannot be written down does not happen, unless it is safe.
    fn decided(&self, decision: Ruled, by: By) -> Result<(), Fault> {
        let Some(audit) = &self.engine.0.audit else { return Ok(()) };
        let urgent = by != By::Nobody;
        let decided = Decided::now(&self.cx, &self.input, decision, by.to_string());
        let recorded = audit.record(decided, urgent);
        recorded.or_else(|error| if urgent { Err(error) } else { Ok(()) }).map_err(|error| {
            permissions::denied(format!(
                "the decision could not be written down, so nothing was changed: {error}"
            ))
            .hint("have the user look at haft's state folder: `haft doctor` names it")
        })
    }

    /// 1 find, 2 decode, 3 claim.
    fn admit(&mut self, input: Input) -> Result<Admitted, Fault> {
        self.input = input.into_value();
        let entry = self.cx.session().tools().find(self.cx.tool(), &self.cx)?;
        let entry = self.entry.insert(entry).clone();
        self.notes.extend(entry.decoder.decode(&mut self.input, entry.tool.spec())?);
        if self.ticket.is_none() && !self.is_alone && entry.tool.refers_to_earlier_calls(&self.input) {
            self.hold_place(&Claims::none().read(Resource::Everything));
            return Ok(Admitted::Later);
        }
        let (prepared, claims, verdict) = self.engine.claim(&entry, &self.input, &self.cx)?;
        let access = if claims.is_read_only() { Access::Read } else { Access::Write };
        let mut order = Cow::Borrowed(&claims);
        if self.cx.session().dialect().refuses_repeats() {
            // The same call twice waits for itself, so that the second one knows what became of the first.
            let key = turn::repeat_key(self.cx.tool(), &self.input);
            let same = format!("the same call of {} ({key:x})", self.cx.tool());
            order = Cow::Owned(claims.clone().write(Resource::State(same.into())));
        }
        match &mut self.ticket {
            Some(ticket) => ticket.reclaim(&order, access),
            None => {
                let session = self.cx.session();
                let place = Place { turn: self.turn.number, policy: session.policy(), access };
                self.ticket = Some(session.schedule().enter(self.cx.call(), place, &order));
            }
        }
        Ok(Admitted::Claimed(Claimed { prepared, claims, verdict, seen: None }))
    }

    /// What is missing may be what an earlier call is about to make. It is looked for again when those are done that
    /// change something there.
    fn look_again_later(&mut self, fault: Fault) -> Result<Admitted, Fault> {
        let Some(missing) = fault.missing() else { return Err(fault) };
        let (workspace, cwd) = (self.cx.workspace(), self.cx.cwd());
        let there = match workspace.resolve(&cwd, missing) {
            Ok(found) => found.path,
            Err(_) => workspace.as_named(&cwd, missing),
        };
        self.hold_place(&Claims::none().read(Resource::Path(there)));
        Ok(Admitted::Later)
    }

    /// Takes the call's place behind earlier calls that conflict with `claims`. What it will touch is known only then, so
    /// until it has claimed later calls wait for it.
    fn hold_place(&mut self, claims: &Claims) {
        let session = self.cx.session();
        let is_read_only = self.entry.as_ref().is_some_and(|entry| entry.tool.spec().read_only);
        let access = if is_read_only { Access::Read } else { Access::Write };
        let place = Place { turn: self.turn.number, policy: session.policy(), access };
        self.ticket = Some(session.schedule().enter_blind(self.cx.call(), place, claims));
    }

    /// 4 wait: for earlier calls that touch the same.
    async fn wait(&mut self) -> Result<(), Fault> {
        let cx = &self.cx;
        if let Some(ticket) = &mut self.ticket {
            let waiting = |on: &Blocker| {
                cx.emit(EventKind::Waiting, || What::Waiting {
                    on: on.call.clone(),
                    resource: on.resource.clone(),
                });
            };
            ticket.ready(waiting).await;
        }
        if self.cx.is_cancelled() { Err(self.cx.cancelled_fault()) } else { Ok(()) }
    }

    /// 5 check: whether it can run at all, and what it would change.
    async fn check(&mut self, claimed: &mut Claimed) -> Result<Option<Preview>, Fault> {
        if self.cx.session().dialect().refuses_repeats()
            && let Some(fingerprint) = claimed.prepared.fingerprint(&self.cx)
        {
            let key = turn::repeat_key(self.cx.tool(), &self.input);
            if let Some(earlier) = self.turn.earlier(key, fingerprint) {
                return Err(repeated(&earlier));
            }
            claimed.seen = Some((key, fingerprint));
        }
        claimed.prepared.check(&self.cx).await
    }

    /// 6 permit: hooks, then rules, mode and sensitivity, then whoever is to be asked. An input to go on
    /// with instead is returned.
    async fn permit(
        &mut self,
        claimed: &mut Claimed,
        preview: Option<Preview>,
        settled: &mut Settled,
    ) -> Result<Option<Value>, Fault> {
        if !settled.hooked {
            settled.hooked = true;
            if !self.engine.0.hooks.is_empty() {
                let engine = self.engine.clone();
                let said = hooks::before(&engine.0.hooks, &self.input, &self.cx);
                let said: Before = Box::pin(said).await?;
                self.notes.extend(said.notes);
                settled.allowed = said.allowed;
                settled.must_ask = said.must_ask;
                if said.rewritten.is_some() {
                    // What was allowed is not what a hook has made of it.
                    settled.answered = false;
                    return Ok(said.rewritten);
                }
            }
        }
        let Some(entry) = self.entry.clone() else { return Ok(None) };
        let question =
            Question { spec: entry.tool.spec(), input: &self.input, claims: &claimed.claims, cx: &self.cx };
        let approval = claimed.prepared.approval(&self.cx);
        let first = settled.verdict(&claimed.verdict);
        if settled.answered {
            return Ok(None);
        }
        if permissions::weigh(&question, &first, &approval)?.is_none() {
            settled.by = By::verdict(&first, self.cx.session().mode());
            return Ok(None);
        }
        // Much may have been answered since the call was judged.
        let engine = &self.engine.0;
        let mut loosened = self.cx.session().loosened();
        let verdict = settled.verdict(&permissions::judge(&engine.judges, &question)?);
        let Some(asking) = permissions::weigh(&question, &verdict, &approval)? else {
            settled.by = By::verdict(&verdict, self.cx.session().mode());
            return Ok(None);
        };
        settled.answered = true;
        let preview = preview.or_else(|| claimed.prepared.preview(&self.cx));
        let request = permissions::request(&question, &engine.judges, &verdict, preview, asking);
        let own = self.cx.session().approver().filter(|own| own.is_there(self.cx.call()));
        let approver = own.unwrap_or(&*engine.approver);
        let ask = permissions::ask(approver, &engine.judges, engine.patience, request, &self.cx);
        let mut ask = Box::pin(ask);
        let answer = loop {
            tokio::select! {
                answer = &mut ask => break answer?,
                // Another answer may have settled this one, too; the question is then withdrawn.
                Ok(()) = loosened.changed() => {
                    let judged = permissions::judge(&engine.judges, &question)?;
                    if permissions::weigh(&question, &settled.verdict(&judged), &approval)?.is_none() {
                        break Answer::Settled;
                    }
                }
            }
        };
        drop(ask);
        match answer {
            Answer::Go => {
                settled.by = By::Person("once");
                Ok(None)
            }
            Answer::Remembered => {
                settled.by = By::Person("always");
                Ok(None)
            }
            Answer::Settled => {
                settled.by = By::Person("by another answer");
                Ok(None)
            }
            Answer::Parts(parts) => {
                settled.by = By::Person("in part");
                let refused = claimed.prepared.keep_parts(&parts, &self.cx)?;
                self.notes
                    .push(format!("the user agreed to a part of the change only; left out was:\n{refused}"));
                Ok(None)
            }
            Answer::Edited(input) => {
                settled.by = By::Person("with other arguments");
                // What the hooks have seen is not what will run.
                settled.hooked = false;
                self.notes.push("the user changed the arguments before allowing the call".to_owned());
                Ok(Some(input))
            }
        }
    }

    /// 7 run: no longer than the tool may.
    async fn run(&mut self, prepared: Box<dyn Prepared>) -> Result<Reply, Fault> {
        let running = prepared.run(self.cx.clone());
        match self.entry.as_ref().and_then(|entry| entry.tool.spec().timeout) {
            None => running.await,
            Some(limit) => match Box::pin(tokio::time::timeout(limit, running)).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    // What runs on a thread of its own can only be told.
                    self.cx.cancel_token().cancel();
                    Err(timed_out(limit))
                }
            },
        }
    }

    /// 8 render: the dialect's words.
    fn render(&mut self, outcome: Result<Reply, Fault>) -> (Reply, Option<Fault>) {
        let dialect = self.cx.session().dialect();
        let (mut reply, fault) = match outcome {
            Ok(reply) => (reply, None),
            Err(fault) => {
                let failed = Failed { tool: self.cx.tool(), input: &self.input };
                // A dialect that crashes still owes the model an answer.
                let reply = uncrashed(|| dialect.present(&failed, &fault));
                let mut reply = reply.unwrap_or_else(|_| text_fault(&fault));
                reply.fault = Some(fault.clone());
                (reply, Some(fault))
            }
        };
        self.note(&mut reply, &self.notes);
        (reply, fault)
    }

    fn note(&self, reply: &mut Reply, notes: &[String]) {
        let dialect = self.cx.session().dialect();
        if !notes.is_empty() && uncrashed(|| dialect.note(reply, notes)).is_err() {
            text_notes(reply, notes);
        }
    }

    /// The reply, named after its call and held to the tool's limit.
    fn fit(&self, mut reply: Reply) -> Reply {
        reply.id = self.cx.call().clone();
        reply.name = self.cx.tool().clone();
        let (max, cut) = match &self.entry {
            Some(entry) => (entry.tool.spec().max_result, entry.tool.spec().cut),
            None => (spec::DEFAULT_MAX_RESULT, limits::Cut::default()),
        };
        let max = self.engine.0.max_results.get(&**self.cx.tool()).copied().unwrap_or(max);
        let keeper = self.engine.0.kept.as_ref().map(|kept| render::Keeper { kept, cx: &self.cx });
        render::fit(&mut reply, max, cut, keeper.as_ref());
        reply
    }

    /// 9 record: hooks, what the session knows, figures, the end. The claims are held until then: a hook
    /// may well change what the call changed, and the next call is to see what this one has learnt.
    async fn record(&mut self, fault: Option<Fault>, mut reply: Reply) -> Reply {
        if render::has_images(&reply) {
            Box::pin(render::fit_images(&mut reply)).await;
        }
        // What was not allowed has not happened, and what is no tool cannot fail as one.
        let denied = fault.as_ref().is_some_and(|fault| fault.kind() == FaultKind::Denied);
        let heard =
            self.entry.is_some() && !denied && hooks::listen(&self.engine.0.hooks, &reply, self.cx.tool());
        let reply = if heard { Box::pin(self.heard(fault.as_ref(), reply)).await } else { self.fit(reply) };
        let mut effects = self.cx.take_effects();
        if reply.is_error {
            effects.retain(Effect::outlasts_failure);
        }
        if !effects.is_empty() {
            self.cx.session().apply(effects, &self.cx);
        }
        if let Some(fault) = fault {
            self.cx.emit(EventKind::Fault, || What::Fault(fault));
        }
        self.end(&reply);
        reply
    }

    /// The reply, with what the hooks that come after a call say of it.
    async fn heard(&mut self, fault: Option<&Fault>, reply: Reply) -> Reply {
        let whole = reply.clone();
        let reply = self.fit(reply);
        let said = hooks::after(&self.engine.clone().0.hooks, &self.input, fault, &reply, &self.cx).await;
        if said.is_empty() {
            return reply;
        }
        // What was cut already is not cut again, or the file that it names would not hold the whole.
        let mut whole = whole;
        self.note(&mut whole, &said);
        self.fit(whole)
    }

    fn end(&mut self, reply: &Reply) {
        self.ended = true;
        let took = self.started.elapsed();
        if self.entry.is_some() {
            let outcome = if reply.is_error { Outcome::Failure } else { Outcome::Success };
            self.engine.stats().record(self.cx.tool(), took, outcome);
        }
        let past = PastCall { tool: self.cx.tool().clone(), files: self.cx.take_kept() };
        self.cx.session().remember_call(self.cx.call().clone(), past);
        self.cx.emit(EventKind::Ended, || What::Ended { reply: Arc::new(reply.clone()), took });
    }
}

impl Drop for Job {
    /// Whoever waited for the call has gone: the work is told to stop and the call still ends.
    fn drop(&mut self) {
        if !self.ended {
            self.cx.cancel_token().cancel();
            let (reply, _) = self.render(Err(self.cx.cancelled_fault()));
            self.end(&self.fit(reply));
        }
    }
}
