//! Searches of hostile trees with the real binary: nothing outside is found, nothing hangs, and memory stays small.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, mkdirat, mknodat, openat, renameat_with};

use super::*;

/// Memory limit of a search, in kB.
const MOST: u64 = if cfg!(debug_assertions) { 150 * 1024 } else { 100 * 1024 };

/// A call of each tool that searches file contents, for a lower-case pattern.
fn in_files(pattern: &str) -> [Value; 5] {
    [
        json!({"name": "Grep", "input": {"pattern": pattern}}),
        json!({"name": "Grep", "input": {"pattern": pattern, "output_mode": "count"}}),
        json!({"name": "Grep", "input": {"pattern": pattern, "output_mode": "content", "-C": 1000}}),
        json!({"dialect": "ally", "name": "grep", "input": {"pattern": pattern, "max_results": 1000}}),
        json!({"dialect": "cdd", "name": "grep", "input": {"pattern": pattern}}),
    ]
}

/// A call of each tool that finds files by name.
fn by_name(pattern: &str) -> [Value; 3] {
    [
        json!({"name": "Glob", "input": {"pattern": pattern}}),
        json!({"dialect": "ally", "name": "glob", "input": {"pattern": pattern, "limit": 1000}}),
        json!({"dialect": "cdd", "name": "glob", "input": {"pattern": pattern}}),
    ]
}

impl Fixture {
    fn at(&self, name: &str) -> PathBuf {
        self.base.join("ws").join(name)
    }

    fn ask_each(&self, calls: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let lines: Vec<String> = calls.into_iter().map(|call| call.to_string()).collect();
        self.batch(&[], &lines.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A workspace with a secret outside of it, and links that lead there.
    fn with_secret_outside() -> Self {
        let fixture = Self::new(&[("d/inside.txt", "seen\n")]);
        fixture.write("out/canary.txt", "canary\n");
        symlink(fixture.base.join("out"), fixture.at("link")).unwrap();
        symlink(fixture.base.join("out/canary.txt"), fixture.at("file")).unwrap();
        symlink("b", fixture.at("a")).unwrap();
        symlink("a", fixture.at("b")).unwrap();
        symlink(".", fixture.at("d/round")).unwrap();
        fixture
    }
}

fn says(reply: &Value, word: &str) -> bool {
    reply.to_string().contains(word)
}

/// Raises the time limit of searches, so that the result is the same on a busy machine.
fn without_time_limit(fixture: &Fixture) {
    fixture.settings("[search]\nseconds = 600\n");
}

#[test]
fn links_out_and_in_circles_are_not_followed() {
    let fixture = Fixture::with_secret_outside();
    for reply in fixture.ask_each(in_files("canary|seen")) {
        assert!(says(&reply, "inside.txt") && !says(&reply, "canary.txt"), "{reply}");
    }
    for reply in fixture.ask_each(by_name("**/*.txt")) {
        assert!(says(&reply, "inside.txt") && !says(&reply, "canary.txt"), "{reply}");
    }
}

#[test]
fn no_pattern_and_no_path_leads_outside() {
    let fixture = Fixture::with_secret_outside();
    let out = fixture.base.join("out").display().to_string();
    let patterns = [
        "../**/*",
        "/**/canary*",
        "../out/*",
        "*/../../out/*",
        "{../out,d}/*",
        "link/*",
        "link/**",
        "d/../../out/*",
        "./../out/canary.txt",
        "file",
        "//*",
    ];
    let patterns =
        patterns.map(str::to_owned).into_iter().chain([format!("{out}/*"), format!("{out}/canary.txt")]);
    for pattern in patterns {
        for reply in fixture.ask_each(by_name(&pattern)) {
            assert!(!text(&reply).lines().any(|line| line.ends_with("canary.txt")), "{pattern}: {reply}");
        }
    }
    for path in ["../out", "link", "file", &out, "d/../../out", "d/round/../../out"] {
        let calls = [in_files("canary").as_slice(), &by_name("**/*")].concat();
        let calls = calls.into_iter().map(|mut call| {
            call["input"]["path"] = path.into();
            call
        });
        for reply in fixture.ask_each(calls) {
            assert!(reply["is_error"] == true && !says(&reply, "canary.txt\""), "{path}: {reply}");
        }
    }
}

/// A folder and a link that leads out are exchanged continuously.
#[test]
fn nothing_outside_is_found_while_a_folder_is_swapped_for_a_link() {
    let fixture = Fixture::with_secret_outside();
    for n in 0..20 {
        fixture.write(&format!("ws/d/deep/{n}/inside.txt"), "seen\n");
        fixture.write(&format!("out/deep/{n}/canary.txt"), "canary\n");
    }
    let stop = AtomicBool::new(false);
    let replies = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, fixture.at("d"), CWD, fixture.at("link"), RenameFlags::EXCHANGE);
            }
        });
        let calls = (0..60).flat_map(|_| [in_files("canary|seen").as_slice(), &by_name("**/*.txt")].concat());
        let calls = calls.chain((0..60).flat_map(|_| by_name("d/**/*.txt")));
        let replies = fixture.ask_each(calls);
        stop.store(true, Ordering::Relaxed);
        replies
    });
    assert!(replies.iter().any(|reply| says(reply, "inside.txt")), "nothing was tried");
    for reply in replies {
        assert!(!says(&reply, "canary.txt"), "{reply}");
    }
}

#[test]
fn special_and_unreadable_files_do_not_end_a_search() {
    let fixture = Fixture::new(&[("a.txt", "seen\n"), ("shut.txt", "seen\n"), ("shut/in.txt", "seen\n")]);
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, fixture.at("pipe"), FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.at("socket")).unwrap();
    let Some(mut command) = fixture.haft_without_rights(&["batch"]) else { return };
    fixture.forbid(&["shut.txt", "shut"], 0o000);
    let calls = [in_files("seen").as_slice(), &by_name("**/*.txt")].concat();
    let replies = fixture.answers(&mut command, &calls);
    fixture.forbid(&["shut.txt", "shut"], 0o755);
    for (at, reply) in replies.iter().enumerate() {
        let missing = if at < 5 { "shut.txt" } else { "shut" };
        assert!(says(reply, "a.txt") && says(reply, "could not be read") && says(reply, missing), "{reply}");
    }
}

/// Memory is bounded however much matches, in every kind of file.
#[test]
fn memory_stays_small_whatever_matches() {
    let fixture = Fixture::new(&[("few.txt", "x\n")]);
    without_time_limit(&fixture);
    let megabyte = vec![b'x'; 1 << 20];
    let mut file = std::fs::File::create(fixture.at("line.txt")).unwrap();
    for _ in 0..200 {
        file.write_all(&megabyte).unwrap();
    }
    file.write_all(b"\nneedle\n").unwrap();
    if let Err(error) = std::fs::File::create(fixture.at("sparse")).unwrap().set_len(1 << 40) {
        missing(Need::SparseFiles, error);
    }
    std::fs::write(fixture.at("million.txt"), "x y\n".repeat(1_000_000)).unwrap();
    for n in 0..400 {
        fixture.write(&format!("ws/many/{n}.txt"), &"x z\n".repeat(2000));
    }
    let mut talk = fixture.talk(&[]);
    for call in in_files("x") {
        let reply = talk.ask(&call);
        assert!(reply["is_error"] != true && reply.to_string().len() < 400_000, "{call}: {reply}");
        assert!(talk.peak() < MOST, "{call}: {} kB", talk.peak());
    }
    // A late page, without a stored cursor.
    let call = json!({"name": "Grep", "input": {
        "pattern": "x", "path": "million.txt", "output_mode": "content", "offset": 999_990}});
    assert!(text(&talk.ask(&call)).starts_with("million.txt:999991:x y"));
    let call = json!({"name": "Grep", "input": {"pattern": "needle", "output_mode": "content"}});
    assert_eq!(text(&talk.ask(&call)), "line.txt:2:needle");
    assert!(talk.peak() < MOST, "{} kB", talk.peak());
    talk.end();
}

#[test]
fn a_file_that_changes_during_a_search_does_not_end_it() {
    const SIZE: usize = 16 << 20;
    let fixture = Fixture::new(&[("still.txt", "seen\n"), ("gone.txt", "seen\n")]);
    without_time_limit(&fixture);
    let text = "some text\n".repeat(SIZE / 10);
    std::fs::write(fixture.at("large.txt"), &text).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let large = std::fs::OpenOptions::new().write(true).open(fixture.at("large.txt")).unwrap();
                large.set_len(0).unwrap();
                std::fs::write(fixture.at("large.txt"), &text).unwrap();
                std::fs::remove_file(fixture.at("gone.txt")).unwrap();
                std::fs::write(fixture.at("gone.txt"), "seen\n").unwrap();
            }
        });
        let replies = fixture.ask_each((0..6).flat_map(|_| in_files("seen")));
        stop.store(true, Ordering::Relaxed);
        for reply in replies {
            assert!(reply["is_error"] != true && says(&reply, "still.txt"), "{reply}");
        }
    });
}

/// Every name is one line of a reply, and as shown can be used to read the file.
#[test]
fn every_name_that_is_shown_can_be_used() {
    let fixture = Fixture::new(&[]);
    let names: [&[u8]; 9] =
        [b"a\nb", b"\x1b[2J", b"-rf", b"--pre=x", b"\xff\xfe", b" lead", b"trail ", b"tab\there", b"[x]{y}*"];
    for (at, name) in names.iter().enumerate() {
        std::fs::write(fixture.at("").join(OsStr::from_bytes(name)), format!("content {at}\n")).unwrap();
    }
    let listed = fixture.ask_each([
        json!({"name": "Glob", "input": {"pattern": "*"}}),
        json!({"name": "Grep", "input": {"pattern": "content"}}),
        json!({"dialect": "cdd", "name": "glob", "input": {"pattern": "*"}}),
    ]);
    for reply in listed {
        let shown: Vec<&str> = text(&reply).lines().collect();
        assert_eq!(shown.len(), names.len(), "{reply}");
        let reads = shown.iter().map(|name| json!({"name": "Read", "input": {"file_path": name}}));
        let mut contents: Vec<String> =
            fixture.ask_each(reads).iter().map(|reply| text(reply).to_owned()).collect();
        contents.sort();
        let expected: Vec<String> = (0..names.len()).map(|at| format!("     1\tcontent {at}")).collect();
        assert_eq!(contents, expected);
    }
    let reply =
        &fixture.ask_each([json!({"dialect": "ally", "name": "grep", "input": {"pattern": "content"}})])[0];
    let object: Value = serde_json::from_str(text(reply)).unwrap();
    assert_eq!(object["matches"].as_array().unwrap().len(), names.len());
}

#[test]
fn archives_are_not_unpacked() {
    let fixture = Fixture::new(&[("a.txt", "seen\n")]);
    // A gzip header without valid content.
    std::fs::write(fixture.at("bomb.gz"), b"\x1f\x8b\x08\x00seen".repeat(1000)).unwrap();
    std::fs::write(fixture.at("bomb.zip"), b"PK\x03\x04\x00\x00seen".repeat(1000)).unwrap();
    for reply in fixture.ask_each(in_files("seen")) {
        assert!(says(&reply, "a.txt") && !says(&reply, "bomb"), "{reply}");
    }
}

/// Patterns with catastrophic backtracking in other engines, and invalid ones.
#[test]
fn every_pattern_ends_in_time() {
    let fixture = Fixture::new(&[("x.txt", &"x".repeat(2 << 20)), ("a.txt", &"a".repeat(2 << 20))]);
    for pattern in ["(x+x+)+y", "(a|a)*b", "(.*)*$", "(x*)*(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
        for reply in fixture.ask_each(in_files(pattern)) {
            assert_ne!(reply["is_error"], true, "{pattern}: {reply}");
        }
    }
    let long = "ab".repeat(50_000);
    let bad = ["(a{1000}){1000}", "(", "[", "\\", "*", "?", "(?=x)", "\\1", "", "a\0b", "a\nb", &long];
    for pattern in bad {
        for reply in fixture.ask_each(in_files(pattern)) {
            assert!(reply["is_error"] == true && reply.to_string().len() < 5000, "{pattern}: {reply}");
        }
    }
}

#[test]
fn every_name_pattern_ends_in_time() {
    let fixture = Fixture::new(&[]);
    let folder = openat(CWD, fixture.at(""), OFlags::DIRECTORY, Mode::empty()).unwrap();
    mkdirat(&folder, "many", Mode::RWXU).unwrap();
    for n in 0..100_000 {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        openat(&folder, format!("many/a{n}aaaaaaaaaaaaaaaaaaaa"), flags, Mode::RUSR).unwrap();
    }
    let alternatives = "{a,b}".repeat(30);
    let patterns = ["**/**/**/**/**/*", &alternatives, "**/*a*a*a*a*a*a*b", "**/[!-~]*", "many/*9999a*"];
    let mut talk = fixture.talk(&[]);
    // The baseline depends on how the program was built.
    talk.ask(&by_name("none")[0]);
    let before = talk.peak();
    for pattern in patterns {
        for call in by_name(pattern) {
            let reply = talk.ask(&call);
            assert!(reply["is_error"] != true && reply.to_string().len() < 200_000, "{call}: {reply}");
        }
    }
    let long = "a/".repeat(2500);
    for pattern in ["{", "[", "", "  ", "*\0", "*/../*", &long] {
        for call in by_name(pattern) {
            let reply = talk.ask(&call);
            assert!(reply["is_error"] == true && reply.to_string().len() < 20_000, "{call}: {reply}");
        }
    }
    assert!(talk.peak() < before + MOST, "{} kB after {before} kB", talk.peak());
    talk.end();
}

/// Deeper than the limit of open files, with pending work on every level.
#[test]
fn a_tree_of_a_thousand_levels_is_searched_to_the_bottom() {
    const LEVELS: usize = 1500;
    let fixture = Fixture::new(&[("top.txt", "seen\n")]);
    let mut folder = openat(CWD, fixture.at(""), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for level in 0..LEVELS {
        for name in ["d", "e"] {
            mkdirat(&folder, name, Mode::RWXU).unwrap();
        }
        if level + 1 == LEVELS {
            let file =
                openat(&folder, "bottom", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR | Mode::WUSR).unwrap();
            std::fs::File::from(file).write_all(b"seen\n").unwrap();
        }
        folder = openat(&folder, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let mut command = Command::new("sh");
    let haft = fixture.haft(&["batch"]);
    command.args(["-c", "ulimit -n 256; exec \"$0\" batch"]).arg(haft.get_program());
    command.current_dir(fixture.at("")).env_clear();
    command.envs(haft.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let calls = [
        json!({"name": "Grep", "input": {"pattern": "seen", "output_mode": "count"}}),
        json!({"dialect": "ally", "name": "grep", "input": {"pattern": "seen"}}),
        json!({"name": "Glob", "input": {"pattern": "**/bottom"}}),
    ];
    for reply in fixture.answers(&mut command, &calls) {
        assert!(says(&reply, "d/d/bottom") && !says(&reply, "could not be read"), "{reply}");
    }
    // Removing the temporary folder would recurse as deep as the tree.
    let status = Command::new("rm").arg("-rf").arg(fixture.at("d")).status();
    assert!(status.unwrap().success());
}
