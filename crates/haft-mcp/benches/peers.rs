//! Compares haft with other MCP servers, all driven by the same minimal client: it writes and reads whole messages and
//! parses only the first answer of each kind, so that the server dominates the time. Rounds alternate between servers, and
//! the best round of each measurement counts. `bench/mcp` installs the others; with the argument `durable`, only durable
//! edits are measured (`bench/slow-disk`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // a bench
#![allow(clippy::disallowed_methods)] // uses std::fs directly

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use programs::{PLACES, Program, name_at, programs};
use serde_json::{Value, json};

#[path = "../../haft-dialects/benches/shared/programs.rs"]
#[allow(dead_code)] // another bench breaks the programs, too
mod programs;

const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 3;
/// The approximate duration of one measurement.
const ROW: Duration = Duration::from_millis(1500);
const STARTS: usize = 7;
/// How many durable edits of one kind are made before switching to the next kind.
const AT_A_TIME: usize = 20;

/// A server, and the names and arguments of its tools.
struct Peer {
    name: &'static str,
    read: Option<(&'static str, Value)>,
    edit: Option<Edit>,
    write: Option<Write>,
    shell: Option<(&'static str, Value)>,
}

/// The call that replaces the whole content of a file.
type Write = (&'static str, fn(&Path, &str) -> Value);

/// The call that replaces one text with another in a file.
type Edit = (&'static str, fn(&Path, &str, &str) -> Value);

fn peers(dir: &Path) -> Vec<Peer> {
    let lines = dir.join("lines.txt");
    let edits = |path: &Path, old: &str, new: &str| json!({"path": path, "edits": [{"oldText": old, "newText": new}]});
    let strings =
        |path: &Path, old: &str, new: &str| json!({"file_path": path, "old_string": old, "new_string": new});
    let contents = |path: &Path, text: &str| json!({"path": path, "content": text});
    vec![
        Peer {
            name: "haft",
            read: Some(("Read", json!({"file_path": lines}))),
            edit: Some(("Edit", strings)),
            write: Some(("Write", |path, text| json!({"file_path": path, "content": text}))),
            shell: Some(("Bash", json!({"command": "true"}))),
        },
        Peer {
            name: "minimal",
            read: Some(("read", json!({"path": lines}))),
            edit: None,
            write: None,
            shell: Some(("shell", json!({"command": "true"}))),
        },
        Peer {
            name: "rust-mcp-filesystem",
            read: Some(("read_text_file", json!({"path": lines}))),
            edit: Some(("edit_file", edits)),
            write: Some(("write_file", contents)),
            shell: None,
        },
        Peer {
            name: "server-filesystem",
            read: Some(("read_text_file", json!({"path": lines}))),
            edit: Some(("edit_file", edits)),
            write: Some(("write_file", contents)),
            shell: None,
        },
        Peer {
            name: "desktop-commander",
            read: Some(("read_file", json!({"path": lines}))),
            edit: Some(("edit_block", strings)),
            write: None,
            shell: Some(("start_process", json!({"command": "true", "timeout_ms": 5000}))),
        },
    ]
}

/// A running server.
struct Server {
    child: Child,
    write: ChildStdin,
    read: BufReader<ChildStdout>,
    line: Vec<u8>,
    next: u64,
}

impl Server {
    fn start(command: &str, world: &World) -> Self {
        let mut words = command.split(' ');
        let mut child = Command::new(words.next().unwrap())
            .args(words)
            .current_dir(&world.work)
            .env("HOME", &world.home)
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("`{command}` does not start: {error}"));
        let write = child.stdin.take().unwrap();
        let read = BufReader::with_capacity(256 * 1024, child.stdout.take().unwrap());
        let mut server = Self { child, write, read, line: Vec::new(), next: 1 };
        let about = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        server.ask("initialize", &about);
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn request(&mut self, method: &str, params: &Value) -> String {
        let id = self.next;
        self.next += 1;
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// Reads the next response, skipping notifications.
    fn read_response(&mut self) {
        loop {
            self.line.clear();
            let read = self.read.read_until(b'\n', &mut self.line).unwrap();
            assert!(read > 0, "the server has ended");
            let starts = |with: &str| self.line.starts_with(with.as_bytes());
            if starts("{") && !starts("{\"method\"") && !starts("{\"jsonrpc\":\"2.0\",\"method\"") {
                return;
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.request_unparsed(method, params);
        serde_json::from_slice(&self.line).unwrap()
    }

    /// Sends a request, and does not parse the response.
    fn request_unparsed(&mut self, method: &str, params: &Value) {
        let line = self.request(method, params);
        self.write.write_all(line.as_bytes()).unwrap();
        self.read_response();
    }

    /// Calls a tool, and checks that it succeeds.
    fn call(&mut self, (tool, arguments): (&str, &Value)) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert!(answer["result"].is_object() && answer["result"]["isError"] != true, "{tool}: {answer}");
        answer["result"].clone()
    }

    /// The median latency of sequential calls.
    fn sequential(&mut self, calls: impl Fn(usize) -> (&'static str, Value)) -> Duration {
        for at in 0..4 {
            let (tool, arguments) = calls(at);
            self.call((tool, &arguments));
        }
        let (mut taken, begun) = (Vec::new(), Instant::now());
        while begun.elapsed() < ROW {
            let (tool, arguments) = calls(taken.len());
            let line = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
            let start = Instant::now();
            self.write.write_all(line.as_bytes()).unwrap();
            self.read_response();
            taken.push(start.elapsed());
            assert!(!is_error(&self.line), "{}", String::from_utf8_lossy(&self.line));
        }
        if taken.len() % 2 == 1 {
            // An edit and its inverse.
            let (tool, arguments) = calls(taken.len());
            self.call((tool, &arguments));
        }
        taken.sort();
        taken[taken.len() / 2]
    }

    /// Calls per second with a constant number in flight.
    fn pipelined(&mut self, (tool, arguments): (&str, &Value)) -> f64 {
        let params = json!({"name": tool, "arguments": arguments});
        let (mut sent, mut answered, begun) = (0, 0, Instant::now());
        let mut batch = String::new();
        let mut ended = None;
        loop {
            let may_send = ended.is_none();
            while may_send && sent - answered < IN_FLIGHT {
                batch.push_str(&self.request("tools/call", &params));
                sent += 1;
            }
            self.write.write_all(batch.as_bytes()).unwrap();
            batch.clear();
            // Reads everything that is buffered before sending more.
            loop {
                self.read_response();
                assert!(!is_error(&self.line), "{}", String::from_utf8_lossy(&self.line));
                answered += 1;
                if answered == sent || !self.read.buffer().contains(&b'\n') {
                    break;
                }
            }
            if ended.is_none() && begun.elapsed() > ROW {
                ended = Some(answered as f64 / begun.elapsed().as_secs_f64());
            }
            if let (Some(figure), true) = (ended, answered == sent) {
                return figure;
            }
        }
    }

    /// The server's peak memory, in megabytes.
    fn peak(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }

    fn end(mut self) {
        drop(self.write);
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(3) {
                self.child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn is_error(line: &[u8]) -> bool {
    let has = |text: &[u8]| {
        let end = line.len().saturating_sub(200);
        line[..line.len().min(200)].windows(text.len()).any(|part| part == text)
            || line[end..].windows(text.len()).any(|part| part == text)
    };
    has(b"\"isError\":true") || has(b"\"error\":{")
}

struct World {
    work: PathBuf,
    home: PathBuf,
}

impl World {
    fn make(base: &Path) -> Self {
        let (work, home) = (base.join("work"), base.join("home"));
        std::fs::create_dir_all(home.join(".config/haft")).unwrap();
        std::fs::create_dir_all(&work).unwrap();
        let lines = |count: usize| (0..count).map(|n| format!("this is line {n}\n")).collect::<String>();
        std::fs::write(work.join("lines.txt"), lines(200)).unwrap();
        let functions = (0..500).map(|n| format!("fn f{n}() -> u32 {{\n    {n}\n}}\n\n")).collect::<String>();
        std::fs::write(work.join("code.rs"), functions).unwrap();
        let world = Self { work, home };
        world.set_durability("fast");
        world
    }

    fn set_durability(&self, durability: &str) {
        let settings = format!(
            "[permissions]\nallow = [\"Edit\", \"Write\", \"Bash\"]\n[files]\ndurability = \"{durability}\"\n"
        );
        std::fs::write(self.home.join(".config/haft/config.toml"), settings).unwrap();
    }
}

/// The size of a write-ahead record, about that of haft's.
const INTENT: [u8; 700] = [b'i'; 700];

/// A durable edit without haft: writes a temporary file, syncs it, renames it and syncs the folder. With `intents`, syncs a
/// write-ahead record first, as undo and crash recovery need.
fn by_hand(path: &Path, folder: &File, intents: Option<&File>, old: &str, new: &str) {
    let text = std::fs::read_to_string(path).unwrap().replacen(old, new, 1);
    if let Some(intents) = intents {
        intents.write_all_at(&INTENT, 0).unwrap();
        intents.sync_data().unwrap();
    }
    let temp = path.with_extension("new");
    let mut file = File::create(&temp).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(temp, path).unwrap();
    folder.sync_all().unwrap();
}

/// Makes one edit, from one text to another.
type Editor<'a> = Box<dyn FnMut(&str, &str) + 'a>;

/// The duration of haft's durable edit relative to each baseline, and the baseline's in milliseconds. Batches of each kind
/// alternate, so that other load on the disk and the state of the caches affect all alike.
fn durable(haft: &str, minimal: Option<&str>, world: &World) -> Vec<(&'static str, (f64, f64))> {
    world.set_durability("full");
    let code = world.work.join("code.rs");
    let folder = File::open(&world.work).unwrap();
    let intents = File::create(world.home.join("intents")).unwrap();
    intents.write_all_at(&INTENT, 0).unwrap();
    intents.sync_all().unwrap();
    let mut haft = Server::start(haft, world);
    haft.call(("Read", &json!({"file_path": code})));
    let mut minimal = minimal.map(|minimal| Server::start(minimal, world));
    let copied = |name: &str| {
        let copy = world.work.join(name);
        std::fs::copy(&code, &copy).unwrap();
        copy
    };
    let (plain, recorded, served) = (copied("plain.rs"), copied("recorded.rs"), copied("served.rs"));
    let mut editors: Vec<(&str, Editor<'_>)> = vec![
        (
            "haft",
            Box::new(|old, new| {
                haft.call(("Edit", &json!({"file_path": code, "old_string": old, "new_string": new})));
            }),
        ),
        ("file and folder synced by hand", Box::new(|old, new| by_hand(&plain, &folder, None, old, new))),
        (
            "record, file and folder synced by hand",
            Box::new(|old, new| by_hand(&recorded, &folder, Some(&intents), old, new)),
        ),
    ];
    if let Some(minimal) = &mut minimal {
        let edit: Editor<'_> = Box::new(|old, new| {
            minimal.call(("edit", &json!({"path": served, "old": old, "new": new})));
        });
        editors.push(("file and folder synced by the minimal server", edit));
    }
    let mut taken = vec![Vec::new(); editors.len()];
    let begun = Instant::now();
    while begun.elapsed() < ROW * 3 {
        for ((_, edit), taken) in editors.iter_mut().zip(&mut taken) {
            for at in 0..AT_A_TIME {
                let (old, new) = ("    250\n", "    200 + 50\n");
                let (old, new) = if at % 2 == 0 { (old, new) } else { (new, old) };
                let start = Instant::now();
                edit(old, new);
                taken.push(start.elapsed());
            }
        }
    }
    let names: Vec<&str> = editors.iter().map(|(name, _)| *name).collect();
    drop(editors);
    haft.end();
    if let Some(minimal) = minimal {
        minimal.end();
    }
    world.set_durability("fast");
    let middle = |mut taken: Vec<Duration>| {
        taken.sort();
        taken[taken.len() / 2].as_secs_f64()
    };
    let mut taken = taken.into_iter().map(middle);
    let ours = taken.next().unwrap();
    names.into_iter().skip(1).zip(taken).map(|(name, theirs)| (name, (ours / theirs, theirs * 1e3))).collect()
}

/// The measurements of one server, the best of all rounds.
#[derive(Default)]
struct Row {
    start: Option<f64>,
    read: Option<f64>,
    pipelined: Option<f64>,
    edit: Option<f64>,
    /// Edits and writes of a file of 2,000 lines, by its name.
    languages: BTreeMap<&'static str, [Option<f64>; 2]>,
    shell: Option<f64>,
    peak: Option<f64>,
    durable: BTreeMap<&'static str, (f64, f64)>,
}

fn best(kept: &mut Option<f64>, new: f64, better: fn(f64, f64) -> f64) {
    *kept = Some(kept.map_or(new, |kept| better(kept, new)));
}

fn round(peer: &Peer, command: &str, world: &World, row: &mut Row) {
    for _ in 0..STARTS {
        let start = Instant::now();
        let mut server = Server::start(command, world);
        server.request_unparsed("tools/list", &json!({}));
        best(&mut row.start, start.elapsed().as_secs_f64() * 1e3, f64::min);
        let listed: Value = serde_json::from_slice(&server.line).unwrap();
        assert!(listed["result"]["tools"].is_array(), "{listed}");
        server.end();
    }
    let mut server = Server::start(command, world);
    if let Some((tool, arguments)) = &peer.read {
        let seen = server.call((tool, arguments)).to_string();
        assert!(seen.contains("this is line 199"), "{}: {seen}", peer.name);
        let median = server.sequential(|_| (tool, arguments.clone()));
        best(&mut row.read, median.as_secs_f64() * 1e3, f64::min);
        best(&mut row.pipelined, server.pipelined((tool, arguments)), f64::max);
    }
    if let Some((tool, edit)) = peer.edit {
        let file = world.work.join("code.rs");
        if peer.name == "haft" {
            server.call(("Read", &json!({"file_path": file})));
        }
        let (old, new) = ("    250\n", "    200 + 50\n");
        let median = server.sequential(|at| {
            let (old, new) = if at % 2 == 0 { (old, new) } else { (new, old) };
            (tool, edit(&file, old, new))
        });
        best(&mut row.edit, median.as_secs_f64() * 1e3, f64::min);
        assert!(std::fs::read_to_string(&file).unwrap().contains(old), "{}: not edited as asked", peer.name);
    }
    for program in programs() {
        language(peer, &mut server, &program, world, row.languages.entry(program.name).or_default());
    }
    if let Some((tool, arguments)) = &peer.shell {
        let median = server.sequential(|_| (tool, arguments.clone()));
        best(&mut row.shell, median.as_secs_f64() * 1e3, f64::min);
    }
    best(&mut row.peak, server.peak(), f64::max);
    server.end();
}

/// Edits and writes of a file of 2,000 lines. Each edit leaves a text that no edit before has left.
fn language(peer: &Peer, server: &mut Server, program: &Program, world: &World, row: &mut [Option<f64>; 2]) {
    let file = world.work.join(program.name);
    std::fs::write(&file, &program.text).unwrap();
    if peer.name == "haft" {
        server.call(("Read", &json!({"file_path": file, "limit": 2500})));
    }
    if let Some((tool, edit)) = peer.edit.filter(|_| peer.name != "desktop-commander") {
        // Four edits come before those that count, and one may come after them.
        let next = std::cell::Cell::new(0);
        let median = server.sequential(|_| {
            let at = next.replace(next.get() + 1);
            let (place, edits) = (at % PLACES, at / PLACES);
            (tool, edit(&file, &name_at(place, edits), &name_at(place, edits + 1)))
        });
        best(&mut row[0], median.as_secs_f64() * 1e3, f64::min);
    }
    if let Some((tool, write)) = peer.write {
        let next = std::cell::Cell::new(0);
        let median = server.sequential(|_| {
            let at = next.replace(next.get() + 1);
            (tool, write(&file, &program.text.replace(&name_at(0, 0), &name_at(0, at + 1))))
        });
        best(&mut row[1], median.as_secs_f64() * 1e3, f64::min);
    }
}

fn format_figure(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("–".to_owned(), |figure| format!("{figure:.digits$}"))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let only_durable = args.iter().any(|arg| arg == "durable");
    let servers: BTreeMap<&str, &str> = args.iter().filter_map(|arg| arg.split_once('=')).collect();
    let base = tempfile::tempdir().unwrap();
    let world = World::make(&base.path().canonicalize().unwrap());
    let peers: Vec<Peer> =
        peers(&world.work).into_iter().filter(|peer| servers.contains_key(peer.name)).collect();
    if peers.is_empty() {
        println!(
            "name servers as NAME=COMMAND: haft, minimal, …; DIR in a command is the folder that is worked in"
        );
        return;
    }
    let mut rows: Vec<Row> = peers.iter().map(|_| Row::default()).collect();
    for _ in 0..ROUNDS {
        for (peer, row) in peers.iter().zip(&mut rows) {
            let command = servers[peer.name].replace("DIR", &world.work.to_string_lossy());
            if !only_durable {
                round(peer, &command, &world, row);
            }
            if peer.name == "haft" {
                for (beside, figure) in durable(&command, servers.get("minimal").copied(), &world) {
                    let best = row.durable.entry(beside).or_insert(figure);
                    *best = if figure.0 < best.0 { figure } else { *best };
                }
            }
        }
    }
    if !only_durable {
        tabulate(&peers, &rows);
        tabulate_languages(&peers, &rows);
    }
    judge(&peers, &rows, if only_durable { Judged::Durable } else { Judged::All });
}

/// Which measurements have limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    All,
    /// Durable edits, on a disk slow enough that syncs dominate.
    Durable,
}

fn tabulate(peers: &[Peer], rows: &[Row]) {
    println!(
        "| server | start, ms | read, ms | reads in a second, {IN_FLIGHT} at once | edit, ms | shell, ms | peak, MB |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (peer, row) in peers.iter().zip(rows) {
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            peer.name,
            format_figure(row.start, 1),
            format_figure(row.read, 3),
            format_figure(row.pipelined, 0),
            format_figure(row.edit, 2),
            format_figure(row.shell, 2),
            format_figure(row.peak, 1),
        );
    }
}

/// Edits and writes by language.
fn tabulate_languages(peers: &[Peer], rows: &[Row]) {
    let names: Vec<&str> = rows.iter().flat_map(|row| row.languages.keys().copied()).collect();
    let names: std::collections::BTreeSet<&str> = names.into_iter().collect();
    println!(
        "\n| 2,000 lines, edit / write, ms | {} |",
        names.iter().copied().collect::<Vec<_>>().join(" | ")
    );
    println!("|---|{}", "---|".repeat(names.len()));
    for (peer, row) in peers.iter().zip(rows) {
        let figures = names.iter().map(|name| {
            let [edit, write] = row.languages.get(name).copied().unwrap_or_default();
            format!("{} / {}", format_figure(edit, 2), format_figure(write, 2))
        });
        println!("| {} | {} |", peer.name, figures.collect::<Vec<_>>().join(" | "));
    }
    println!();
}

/// Compares haft's measurements with their limits.
fn judge(peers: &[Peer], rows: &[Row], judged: Judged) {
    let of = |name: &str| peers.iter().position(|peer| peer.name == name).map(|at| &rows[at]);
    let Some(haft) = of("haft") else { return };
    let mut over = 0;
    let mut tell = |what: &str, figure: f64, limit: f64| {
        let holds = figure <= limit;
        over += usize::from(!holds);
        println!("{what}: {figure:.2} (at most {limit}) {}", if holds { "ok" } else { "OVER" });
    };
    let ratio = |ours: Option<f64>, theirs: Option<f64>| Some(ours? / theirs?);
    if let Some(minimal) = of("minimal") {
        if let Some(figure) = ratio(haft.read, minimal.read) {
            tell("a read, against the minimal server's", figure, 1.5);
        }
        if let Some(figure) = ratio(haft.start, minimal.start) {
            tell("the start, against the minimal server's", figure, 2.6);
        }
    }
    for (peer, row) in peers.iter().zip(rows).filter(|(peer, _)| !["haft", "minimal"].contains(&peer.name)) {
        let name = peer.name;
        if let Some(figure) = ratio(haft.start, row.start) {
            tell(&format!("the start, against {name}"), figure, 1.6);
        }
        if let Some(figure) = ratio(haft.read, row.read) {
            tell(&format!("a read, against {name}"), figure, 0.7);
        }
        if let Some(figure) = ratio(row.pipelined, haft.pipelined) {
            tell(&format!("reads at once of {name}, against haft's"), figure, 1.0);
        }
        if let Some(figure) = ratio(haft.edit, row.edit) {
            tell(&format!("an edit, against {name}"), figure, 1.0);
        }
        for (language, [edit, write]) in &row.languages {
            let [own_edit, own_write] = haft.languages.get(language).copied().unwrap_or_default();
            if let Some(figure) = ratio(own_edit, *edit) {
                tell(&format!("an edit of `{language}`, against {name}"), figure, 1.0);
            }
            if let Some(figure) = ratio(own_write, *write) {
                println!("a write of `{language}`, against {name}: {figure:.2}");
            }
        }
        if let Some(figure) = ratio(haft.shell, row.shell) {
            tell(&format!("a command in a sandbox, against {name} without one"), figure, 1.0);
        }
    }
    for (beside, (figure, takes)) in &haft.durable {
        let what = format!("an edit that outlasts a power cut, against {beside} ({takes:.2} ms)");
        match judged {
            Judged::Durable => tell(&what, *figure, 1.2),
            // On a disk that flushes in a fraction of a millisecond, the protocol alone takes as long as the syncs.
            Judged::All if beside.contains("minimal") => tell(&what, *figure, 1.5),
            Judged::All => println!("{what}: {figure:.2}"),
        }
    }
    if let Some(peak) = haft.peak {
        tell("peak memory, MB", peak, 40.0);
    }
    std::process::exit(i32::from(over > 0));
}
