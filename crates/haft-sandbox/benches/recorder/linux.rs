//! The benchmark itself.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::common::{Namespaces, Rig, spawn, spawn_plain};
use haft_sandbox::sandbox::recorder::Recorder;

/// Variable with the kind of call that this program makes, when it is the command.
const CALLS: &str = "HAFT_BENCH_CALLS";
const COUNT: u32 = 2000;
const ROUNDS: usize = 7;
const COMMANDS: usize = 200;

/// Kinds of calls, and the most that recording one may cost.
const KINDS: [(&str, Duration); 6] = [
    ("create", Duration::from_micros(30)),
    ("rewrite", Duration::from_micros(30)),
    ("rename", Duration::from_micros(30)),
    ("unlink", Duration::from_micros(30)),
    ("unlink new", Duration::from_micros(30)),
    ("read", Duration::from_micros(1)),
];

pub(super) fn main() {
    if let Ok(kind) = std::env::var(CALLS) {
        return calls(&kind);
    }
    for (kind, limit) in KINDS {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            without.push(per_call(kind, false));
            with.push(per_call(kind, true));
        }
        let (without, with) = (median(without), median(with));
        let cost = with.saturating_sub(without);
        let verdict = if cost <= limit { "ok" } else { "OVER" };
        println!(
            "{kind:12} {:6.2} of the limit {verdict}; {cost:.2?} a call, at most {limit:?}; {with:.2?} against {without:.2?}",
            cost.as_secs_f64() / limit.as_secs_f64(),
        );
    }
    command();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Makes many calls of one kind in the working directory, and prints how long one took.
fn calls(kind: &str) {
    let name = |number: u32| format!("f{number}");
    if kind == "unlink new" {
        (0..COUNT).for_each(|number| fs::write(name(number), "new").unwrap());
    }
    let start = Instant::now();
    for number in 0..COUNT {
        match kind {
            "create" => drop(fs::File::create(format!("new{number}")).unwrap()),
            "rewrite" => drop(fs::OpenOptions::new().write(true).truncate(true).open(name(number)).unwrap()),
            "rename" => fs::rename(name(number), format!("new{number}")).unwrap(),
            "read" => drop(
                fs::OpenOptions::new().read(true).custom_flags(libc::O_NOATIME).open(name(number)).unwrap(),
            ),
            _ => fs::remove_file(name(number)).unwrap(),
        }
    }
    println!("{}", (start.elapsed() / COUNT).as_nanos());
}

fn per_call(kind: &str, records: bool) -> Duration {
    let rig = Rig::new();
    if kind != "unlink new" {
        (0..COUNT).for_each(|number| rig.write(&format!("f{number}"), "some old content of a small file\n"));
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(CALLS, kind).stdout(Stdio::piped()).current_dir(rig.ws());
    let (mut child, recorder) = match records {
        true => {
            let (child, listener) = spawn(command, Namespaces::Shared).unwrap();
            (child, Some(Recorder::start(listener, rig.options()).unwrap()))
        }
        false => (command.spawn().unwrap(), None),
    };
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success());
    drop(recorder.map(|recorder| recorder.finish().unwrap()));
    Duration::from_nanos(output.trim().parse().unwrap())
}

/// What recording adds to a command that changes nothing: the filter, the listener, the thread and the comparison.
fn command() {
    let rig = Rig::new();
    let limit = Duration::from_micros(500);
    let plain = || {
        let mut command = Command::new("/bin/true");
        command.current_dir(rig.ws());
        command
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..COMMANDS {
        let start = Instant::now();
        spawn_plain(plain()).unwrap().wait().unwrap();
        without.push(start.elapsed());
        let options = rig.options();
        let store = options.store.clone();
        let start = Instant::now();
        let (mut child, listener) = spawn(plain(), Namespaces::Shared).unwrap();
        let recorder = Recorder::start(listener, options).unwrap();
        child.wait().unwrap();
        assert!(recorder.finish().unwrap().is_empty());
        with.push(start.elapsed());
        assert!(fs::symlink_metadata(store).is_err(), "nothing was kept, and yet there is a folder");
    }
    let (without, with) = (median(without), median(with));
    let cost = with.saturating_sub(without);
    let verdict = if cost <= limit { "ok" } else { "OVER" };
    println!(
        "{:12} {:6.2} of the limit {verdict}; {cost:.2?} a command, at most {limit:?}; {with:.2?} against {without:.2?}",
        "command",
        cost.as_secs_f64() / limit.as_secs_f64(),
    );
}
