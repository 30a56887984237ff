//! The schedule against a simple model that compares every pair of calls.

use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use haft_sandbox::AbsPath;
use proptest::prelude::*;

use super::*;
use crate::CommandLine;

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn path(text: &str) -> Resource {
    Resource::Path(AbsPath::lexical(Path::new(text)))
}

fn reads(text: &str) -> Claims {
    Claims::none().read(path(text))
}

fn writes(text: &str) -> Claims {
    Claims::none().write(path(text))
}

fn access(claims: &Claims) -> Access {
    if claims.is_read_only() { Access::Read } else { Access::Write }
}

fn position(turn: u64, policy: Policy, claims: &Claims) -> Position {
    Position { turn, policy, access: access(claims) }
}

fn enter(schedule: &Schedule, call: &str, claims: &Claims) -> Ticket {
    schedule.enter(&call.into(), position(0, Policy::Claims, claims), claims)
}

/// Polls once, as a task would, and returns the reported blockers. Drops the future each time, which also tests that
/// `ready` is cancel-safe.
fn poll(ticket: &mut Ticket, bell: &Arc<Bell>) -> (bool, Vec<Blocker>) {
    let waker = Waker::from(bell.clone());
    let mut blockers = Vec::new();
    let ready =
        pin!(ticket.ready(|blocker| blockers.push(blocker.clone()))).poll(&mut Context::from_waker(&waker));
    (ready.is_ready(), blockers)
}

fn is_ready(ticket: &mut Ticket) -> bool {
    poll(ticket, &Arc::default()).0
}

fn assert_empty(schedule: &Schedule) {
    let calls = schedule.lock();
    assert!(calls.index.is_empty(), "the index holds something after the last call");
    assert_eq!(calls.free.len(), calls.entries.len());
    assert!(calls.turns.is_empty());
}

// The model.

struct Call {
    ticket: Option<Ticket>,
    claims: Claims,
    /// What later calls wait for: more than the claims where those are not known yet.
    held: Claims,
    turn: Option<u64>,
    key: (u64, u8, u64),
    running: bool,
    bell: Arc<Bell>,
    /// The number of wake-ups when a poll last found the call waiting.
    polled: Option<usize>,
    reported: Vec<Arc<str>>,
}

#[derive(Default)]
struct Model {
    calls: Vec<Call>,
    turns: HashMap<u64, (u64, bool)>,
    last_sealed: Option<u64>,
    time: u64,
}

impl Model {
    fn conflict(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.calls[a], &self.calls[b]);
        let both = a.claims.conflict(&b.claims).is_some();
        assert_eq!(both, b.claims.conflict(&a.claims).is_some(), "conflict is symmetric");
        let turn =
            a.turn.is_some() && a.turn == b.turn && !(a.claims.is_read_only() && b.claims.is_read_only());
        both || turn
    }

    fn blocks(&self, of: usize, other: usize) -> bool {
        let (of_it, it) = (&self.calls[of], &self.calls[other]);
        other != of
            && it.ticket.is_some()
            && (it.running || it.key < of_it.key)
            && (self.conflict(of, other) || of_it.claims.conflict(&it.held).is_some())
    }

    /// Whether a call waits for its turn to be sealed.
    fn is_gated(&self, call: usize) -> bool {
        let it = &self.calls[call];
        !it.claims.is_read_only()
            && it.turn.is_some_and(|turn| self.turns.get(&turn).is_some_and(|turn| !turn.1))
    }

    fn may_run(&self, call: usize) -> bool {
        !self.is_gated(call) && (0..self.calls.len()).all(|other| !self.blocks(call, other))
    }

    fn key(&self, turn: Option<u64>, claims: &Claims, seq: u64) -> (u64, u8, u64) {
        match turn {
            Some(turn) => (self.turns[&turn].0, u8::from(!claims.is_read_only()), seq),
            None => (seq, 0, seq),
        }
    }

    fn enter(&mut self, schedule: &Schedule, claims: Claims, turn: u64, policy: Policy, unknown: bool) {
        let turn_of_policy = (policy == Policy::SafeFirst).then_some(turn);
        if let Some(turn) = turn_of_policy {
            let sealed = self.last_sealed.is_some_and(|last| turn <= last);
            self.turns.entry(turn).or_insert((self.time, sealed));
        }
        self.time += 1;
        let call = self.calls.len();
        let (id, position) = (call.to_string().into(), position(turn, policy, &claims));
        let (ticket, held) = match (unknown, position.access) {
            (false, _) => (schedule.enter(&id, position, &claims), claims.clone()),
            (true, Access::Read) => {
                (schedule.enter_unknown(&id, position, &claims), claims.clone().read(Resource::Everything))
            }
            (true, Access::Write) => {
                (schedule.enter_unknown(&id, position, &claims), claims.clone().write(Resource::Everything))
            }
        };
        self.calls.push(Call {
            ticket: Some(ticket),
            held,
            key: self.key(turn_of_policy, &claims, self.time),
            claims,
            turn: turn_of_policy,
            running: false,
            bell: Arc::default(),
            polled: None,
            reported: Vec::new(),
        });
        self.calls[call].running = self.may_run(call);
    }

    fn reclaim(&mut self, call: usize, claims: Claims) {
        let (turn, seq) = (self.calls[call].turn, self.calls[call].key.2);
        let key = self.key(turn, &claims, seq);
        let it = &mut self.calls[call];
        let Some(ticket) = &mut it.ticket else { return };
        ticket.reclaim(&claims, access(&claims));
        (it.held, it.claims, it.key, it.running, it.polled) = (claims.clone(), claims, key, false, None);
        self.calls[call].running = self.may_run(call);
    }

    fn poll(&mut self, call: usize) {
        let may_run = self.calls[call].running || self.may_run(call);
        let it = &mut self.calls[call];
        let Some(ticket) = &mut it.ticket else { return };
        let rung = it.bell.0.load(Ordering::Relaxed);
        let (ready, blockers) = poll(ticket, &it.bell);
        assert_eq!(ready, may_run, "call {call} {:?}", it.claims);
        (it.running, it.polled) = (ready, (!ready).then_some(rung));
        for blocker in blockers {
            match blocker.call.parse() {
                Ok(other) => assert!(self.blocks(call, other), "{call} waits for {other} without need"),
                Err(_) => assert!(self.is_gated(call), "{call} waits for the rest of a turn that is sealed"),
            }
            let it = &mut self.calls[call];
            assert_ne!(it.reported.last(), Some(&blocker.call), "{call} was told twice of {}", blocker.call);
            it.reported.push(blocker.call);
        }
    }

    fn drop_ticket(&mut self, call: usize) {
        self.calls[call].ticket = None;
        self.close_turns();
    }

    fn seal(&mut self, schedule: &Schedule, turn: u64) {
        schedule.seal(turn);
        self.last_sealed = self.last_sealed.max(Some(turn));
        if let Some(turn) = self.turns.get_mut(&turn) {
            turn.1 = true;
        }
        self.close_turns();
    }

    fn close_turns(&mut self) {
        let calls = &self.calls;
        self.turns.retain(|turn, (_, sealed)| {
            !*sealed || calls.iter().any(|call| call.ticket.is_some() && call.turn == Some(*turn))
        });
    }

    fn check(&self) {
        for a in 0..self.calls.len() {
            let it = &self.calls[a];
            if it.ticket.is_none() {
                continue;
            }
            for b in 0..a {
                let other = &self.calls[b];
                let both = other.ticket.is_some() && it.running && other.running;
                assert!(!(both && self.conflict(a, b)), "{a} and {b} conflict and run at once");
            }
            if let Some(rung) = it.polled
                && self.may_run(a)
            {
                assert!(it.bell.0.load(Ordering::Relaxed) > rung, "nobody woke {a}");
            }
        }
    }

    /// Runs all calls to their end as tasks would: each is polled once, then only when woken.
    fn drain(&mut self, schedule: &Schedule) {
        for turn in 0..TURNS {
            self.seal(schedule, turn);
        }
        loop {
            let mut moved = false;
            for call in 0..self.calls.len() {
                let it = &self.calls[call];
                if it.ticket.is_none() {
                    continue;
                }
                if it.polled.is_none_or(|rung| it.bell.0.load(Ordering::Relaxed) > rung) {
                    self.poll(call);
                    moved = true;
                }
                if self.calls[call].running {
                    self.drop_ticket(call);
                    moved = true;
                }
                self.check();
            }
            if !moved {
                break;
            }
        }
        assert!(self.calls.iter().all(|call| call.ticket.is_none()), "a call hangs");
    }
}

const TURNS: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Enter(Claims, u64, Policy, bool),
    Poll(usize),
    Finish(usize),
    Cancel(usize),
    Reclaim(usize, Claims),
    Seal(u64),
}

fn any_resource() -> impl Strategy<Value = Resource> {
    const PATHS: &[&str] = &["/", "/a", "/a/b", "/a/b/c", "/a/bc", "/d", "/d/e/f/g"];
    prop_oneof![
        12 => proptest::sample::select(PATHS).prop_map(path),
        2 => proptest::sample::select(&["todos", "cwd"][..]).prop_map(|name| Resource::State(name.into())),
        1 => Just(Resource::Host("example.org".into())),
        1 => Just(Resource::Command(CommandLine::new("git"))),
        1 => Just(Resource::Command(CommandLine::new("git status"))),
        1 => Just(Resource::Everything),
    ]
}

fn any_claims() -> impl Strategy<Value = Claims> {
    proptest::collection::vec((any::<bool>(), any_resource()), 0..4).prop_map(|claims| {
        claims.into_iter().fold(Claims::none(), |all, (write, resource)| match write {
            true => all.write(resource),
            false => all.read(resource),
        })
    })
}

fn any_steps(policies: &'static [Policy]) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any_claims(), 0..TURNS, proptest::sample::select(policies), proptest::bool::weighted(0.2))
            .prop_map(|(claims, turn, policy, unknown)| Step::Enter(claims, turn, policy, unknown)),
        8 => any::<usize>().prop_map(Step::Poll),
        4 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Cancel),
        2 => (any::<usize>(), any_claims()).prop_map(|(i, c)| Step::Reclaim(i, c)),
        1 => (0..TURNS).prop_map(Step::Seal),
    ];
    proptest::collection::vec(step, 0..60)
}

fn run(steps: Vec<Step>) {
    let schedule = Schedule::new();
    let mut model = Model::default();
    for step in steps {
        let unfinished: Vec<usize> =
            (0..model.calls.len()).filter(|i| model.calls[*i].ticket.is_some()).collect();
        let nth = |n: usize| (!unfinished.is_empty()).then(|| unfinished[n % unfinished.len()]);
        match step {
            Step::Enter(claims, turn, policy, unknown) => {
                model.enter(&schedule, claims, turn, policy, unknown)
            }
            Step::Seal(turn) => model.seal(&schedule, turn),
            Step::Poll(n) => nth(n).into_iter().for_each(|call| model.poll(call)),
            Step::Reclaim(n, claims) => {
                nth(n).into_iter().for_each(|call| model.reclaim(call, claims.clone()))
            }
            Step::Finish(n) => {
                nth(n)
                    .filter(|i| model.calls[*i].running)
                    .into_iter()
                    .for_each(|call| model.drop_ticket(call));
            }
            Step::Cancel(n) => {
                nth(n)
                    .filter(|i| !model.calls[*i].running)
                    .into_iter()
                    .for_each(|call| model.drop_ticket(call));
            }
        }
        model.check();
    }
    model.drain(&schedule);
    assert_empty(&schedule);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn claims_policy_is_its_definition(steps in any_steps(&[Policy::Claims])) {
        run(steps);
    }

    #[test]
    fn safe_first_policy_is_its_definition(steps in any_steps(&[Policy::SafeFirst])) {
        run(steps);
    }

    #[test]
    fn policies_can_be_mixed(steps in any_steps(&[Policy::Claims, Policy::SafeFirst])) {
        run(steps);
    }
}

#[test]
fn only_conflicting_calls_wait() {
    let schedule = Schedule::new();
    let mut edit_a = enter(&schedule, "edit a", &reads("/w/a").write(path("/w/a")));
    let mut read_a = enter(&schedule, "read a", &reads("/w/a"));
    let mut edit_b = enter(&schedule, "edit b", &writes("/w/b"));
    assert!(is_ready(&mut edit_a) && is_ready(&mut edit_b));
    let bell = Arc::default();
    let (ready, blockers) = poll(&mut read_a, &bell);
    assert!(!ready);
    assert_eq!(blockers, [Blocker { call: "edit a".into(), resource: path("/w/a") }]);
    assert_eq!(poll(&mut read_a, &bell), (false, vec![]), "reported once");
    drop(edit_a);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(is_ready(&mut read_a));
}

#[test]
fn a_cancelled_call_does_not_let_others_pass_what_they_conflict_with() {
    let schedule = Schedule::new();
    let _first = enter(&schedule, "first", &writes("/w/a"));
    let mut second = enter(&schedule, "second", &writes("/w"));
    let mut third = enter(&schedule, "third", &reads("/w/a/x"));
    let mut fourth = enter(&schedule, "fourth", &reads("/w/b"));
    assert!(!is_ready(&mut second) && !is_ready(&mut third) && !is_ready(&mut fourth));
    drop(second);
    assert!(!is_ready(&mut third));
    assert!(is_ready(&mut fourth));
}

#[test]
fn a_rewritten_call_waits_for_a_later_one_only_if_that_runs() {
    let schedule = Schedule::new();
    let mut early = enter(&schedule, "early", &writes("/a"));
    let running = enter(&schedule, "running", &writes("/b"));
    let mut waiting = enter(&schedule, "waiting", &writes("/a").write(path("/c")));
    assert!(!is_ready(&mut waiting));
    early.reclaim(&writes("/b").write(path("/c")), Access::Write);
    assert!(!is_ready(&mut early));
    assert!(!is_ready(&mut waiting));
    drop(running);
    assert!(is_ready(&mut early));
    drop(early);
    assert!(is_ready(&mut waiting));
}

#[test]
fn safe_calls_of_a_turn_go_first_and_the_others_one_by_one() {
    let schedule = Schedule::new();
    let enter = |call: &str, claims: &Claims| {
        schedule.enter(&call.into(), position(7, Policy::SafeFirst, claims), claims)
    };
    let mut edit_a = enter("edit a", &writes("/a"));
    let mut edit_b = enter("edit b", &writes("/b"));
    let mut read_a = enter("read a", &reads("/a"));
    let mut read_b = enter("read b", &reads("/b"));
    assert!(is_ready(&mut read_a) && is_ready(&mut read_b));
    drop((read_a, read_b));
    let bell = Arc::default();
    let rest = Blocker { call: "the rest of the turn".into(), resource: Resource::State("turn".into()) };
    assert_eq!(poll(&mut edit_a, &bell), (false, vec![rest]), "the turn is not sealed");
    schedule.seal(7);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(is_ready(&mut edit_a));
    let (ready, blockers) = poll(&mut edit_b, &bell);
    assert!(!ready);
    assert_eq!(blockers, [Blocker { call: "edit a".into(), resource: Resource::State("turn".into()) }]);
    drop(edit_a);
    assert!(is_ready(&mut edit_b));
    drop(edit_b);
    schedule.seal(7);
    schedule.seal(8);
    assert_empty(&schedule);
    let mut late = enter("late", &writes("/a"));
    assert!(is_ready(&mut late), "a call that comes after the seal is not held back");
    drop(late);
    assert_empty(&schedule);
}

/// A debug build on a busy machine stays far below this; one comparison per pair of calls would not.
const QUICK: Duration = Duration::from_secs(10);
const MANY: usize = 10_000;

#[test]
fn ten_thousand_calls_that_all_conflict_run_in_order() {
    let schedule = Schedule::new();
    let begin = Instant::now();
    let name: Arc<str> = "call".into();
    let bell = Arc::default();
    let mut tickets: Vec<Ticket> =
        (0..MANY).map(|_| enter(&schedule, &name, &Claims::everything())).collect();
    for (i, ticket) in tickets.iter_mut().enumerate() {
        assert_eq!(poll(ticket, &bell).0, i == 0);
    }
    for (i, mut ticket) in tickets.into_iter().enumerate() {
        assert!(is_ready(&mut ticket));
        drop(ticket);
        assert_eq!(bell.0.load(Ordering::Relaxed), (i + 1).min(MANY - 1), "each wakes its successor only");
    }
    assert!(begin.elapsed() < QUICK, "{:?}", begin.elapsed());
    assert_empty(&schedule);
}

#[test]
fn ten_thousand_independent_calls_all_run_at_once() {
    let schedule = Schedule::new();
    let begin = Instant::now();
    let name: Arc<str> = "call".into();
    let mut tickets: Vec<Ticket> = (0..MANY)
        .map(|i| enter(&schedule, &name, &writes(&format!("/workspaces/w/src/{}/{i}", i % 100))))
        .collect();
    assert!(tickets.iter_mut().all(is_ready));
    let mut after = enter(&schedule, "after", &reads("/workspaces/w"));
    assert!(!is_ready(&mut after));
    drop(tickets);
    assert!(is_ready(&mut after));
    drop(after);
    assert!(begin.elapsed() < QUICK, "{:?}", begin.elapsed());
    assert_empty(&schedule);
    assert!(schedule.lock().entries.is_empty(), "a large arena is given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_on_threads_never_overlap_in_conflict() {
    let schedule = Schedule::new();
    let busy: Arc<[AtomicBool; 3]> = Arc::default();
    let mut tasks = Vec::new();
    for i in 0..600_usize {
        let place = i % 3;
        let claims = writes(&format!("/w/{place}"));
        let mut ticket = enter(&schedule, "call", &claims);
        let busy = busy.clone();
        tasks.push(tokio::spawn(async move {
            ticket.ready(|_| {}).await;
            assert!(!busy[place].swap(true, Ordering::SeqCst));
            tokio::task::yield_now().await;
            if i % 7 == 0 {
                busy[place].store(false, Ordering::SeqCst);
                ticket.reclaim(&claims, access(&claims));
                ticket.ready(|_| {}).await;
                assert!(!busy[place].swap(true, Ordering::SeqCst));
            }
            busy[place].store(false, Ordering::SeqCst);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_empty(&schedule);
}
