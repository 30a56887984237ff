//! Searching where files are made to do harm, by the real binary: nothing outside is told, nothing hangs, and
//! memory stays small whatever matches.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, mkdirat, mknodat, openat, renameat_with};

use super::*;

/// The most memory that a search may take, in kB.
const MOST: u64 = if cfg!(debug_assertions) { 150 * 1024 } else { 100 * 1024 };

/// A search with each tool of each dialect that searches in files, for a pattern without capital letters.
fn in_files(pattern: &str) -> [Value; 5] {
    [
        json!({"name": "Grep", "input": {"pattern": pattern}}),
        json!({"name": "Grep", "input": {"pattern": pattern, "output_mode": "count"}}),
        json!({"name": "Grep", "input": {"pattern": pattern, "output_mode": "content", "-C": 1000}}),
        json!({"dialect": "ally", "name": "grep", "input": {"pattern": pattern, "max_results": 1000}}),
        json!({"dialect": "cdd", "name": "grep", "input": {"pattern": pattern}}),
    ]
}

/// A search with each tool that finds files by their names.
fn by_name(pattern: &str) -> [Value; 3] {
    [
        json!({"name": "Glob", "input": {"pattern": pattern}}),
        json!({"dialect": "ally", "name": "glob", "input": {"pattern": pattern, "limit": 1000}}),
        json!({"dialect": "cdd", "name": "glob", "input": {"pattern": pattern}}),
    ]
}

impl Lab {
    fn at(&self, name: &str) -> PathBuf {
        self.base.join("ws").join(name)
    }

    fn ask_each(&self, calls: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let lines: Vec<String> = calls.into_iter().map(|call| call.to_string()).collect();
        self.batch(&[], &lines.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// With something outside that nobody may see, and links that lead there.
    fn beside_a_secret() -> Self {
        let lab = Self::new(&[("d/inside.txt", "seen\n")]);
        lab.write("out/canary.txt", "canary\n");
        symlink(lab.base.join("out"), lab.at("link")).unwrap();
        symlink(lab.base.join("out/canary.txt"), lab.at("file")).unwrap();
        symlink("b", lab.at("a")).unwrap();
        symlink("a", lab.at("b")).unwrap();
        symlink(".", lab.at("d/round")).unwrap();
        lab
    }
}

fn says(reply: &Value, word: &str) -> bool {
    reply.to_string().contains(word)
}

/// Lets a search take as long as it takes: what is told by then is the same on a busy machine.
fn patient(lab: &Lab) {
    lab.settings("[search]\nseconds = 600\n");
}

#[test]
fn links_out_and_in_circles_are_not_followed() {
    let lab = Lab::beside_a_secret();
    for reply in lab.ask_each(in_files("canary|seen")) {
        assert!(says(&reply, "inside.txt") && !says(&reply, "canary.txt"), "{reply}");
    }
    for reply in lab.ask_each(by_name("**/*.txt")) {
        assert!(says(&reply, "inside.txt") && !says(&reply, "canary.txt"), "{reply}");
    }
}

#[test]
fn no_pattern_and_no_path_leads_outside() {
    let lab = Lab::beside_a_secret();
    let out = lab.base.join("out").display().to_string();
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
        for reply in lab.ask_each(by_name(&pattern)) {
            assert!(!text(&reply).lines().any(|line| line.ends_with("canary.txt")), "{pattern}: {reply}");
        }
    }
    for path in ["../out", "link", "file", &out, "d/../../out", "d/round/../../out"] {
        let calls = [in_files("canary").as_slice(), &by_name("**/*")].concat();
        let calls = calls.into_iter().map(|mut call| {
            call["input"]["path"] = path.into();
            call
        });
        for reply in lab.ask_each(calls) {
            assert!(reply["is_error"] == true && !says(&reply, "canary.txt\""), "{path}: {reply}");
        }
    }
}

/// A folder and a link that leads out change places all the while.
#[test]
fn nothing_outside_is_told_while_a_folder_is_swapped_for_a_link() {
    let lab = Lab::beside_a_secret();
    for n in 0..20 {
        lab.write(&format!("ws/d/deep/{n}/inside.txt"), "seen\n");
        lab.write(&format!("out/deep/{n}/canary.txt"), "canary\n");
    }
    let stop = AtomicBool::new(false);
    let replies = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, lab.at("d"), CWD, lab.at("link"), RenameFlags::EXCHANGE);
            }
        });
        let calls = (0..60).flat_map(|_| [in_files("canary|seen").as_slice(), &by_name("**/*.txt")].concat());
        let calls = calls.chain((0..60).flat_map(|_| by_name("d/**/*.txt")));
        let replies = lab.ask_each(calls);
        stop.store(true, Ordering::Relaxed);
        replies
    });
    assert!(replies.iter().any(|reply| says(reply, "inside.txt")), "nothing was tried");
    for reply in replies {
        assert!(!says(&reply, "canary.txt"), "{reply}");
    }
}

#[test]
fn special_files_and_what_may_not_be_read_do_not_end_a_search() {
    let lab = Lab::new(&[("a.txt", "seen\n"), ("shut.txt", "seen\n"), ("shut/in.txt", "seen\n")]);
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, lab.at("pipe"), FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(lab.at("socket")).unwrap();
    let Some(mut command) = lab.haft_without_rights(&["batch"]) else { return };
    lab.forbid(&["shut.txt", "shut"], 0o000);
    let calls = [in_files("seen").as_slice(), &by_name("**/*.txt")].concat();
    let replies = lab.answers(&mut command, &calls);
    lab.forbid(&["shut.txt", "shut"], 0o755);
    for (at, reply) in replies.iter().enumerate() {
        let missing = if at < 5 { "shut.txt" } else { "shut" };
        assert!(says(reply, "a.txt") && says(reply, "could not be read") && says(reply, missing), "{reply}");
    }
}

/// However much matches, and in whatever files.
#[test]
fn memory_stays_small_whatever_matches() {
    let lab = Lab::new(&[("few.txt", "x\n")]);
    patient(&lab);
    let megabyte = vec![b'x'; 1 << 20];
    let mut file = std::fs::File::create(lab.at("line.txt")).unwrap();
    for _ in 0..200 {
        file.write_all(&megabyte).unwrap();
    }
    file.write_all(b"\nneedle\n").unwrap();
    if let Err(error) = std::fs::File::create(lab.at("sparse")).unwrap().set_len(1 << 40) {
        missing(Need::SparseFiles, error);
    }
    std::fs::write(lab.at("million.txt"), "x y\n".repeat(1_000_000)).unwrap();
    for n in 0..400 {
        lab.write(&format!("ws/many/{n}.txt"), &"x z\n".repeat(2000));
    }
    let mut talk = lab.talk(&[]);
    for call in in_files("x") {
        let reply = talk.ask(&call);
        assert!(reply["is_error"] != true && reply.to_string().len() < 400_000, "{call}: {reply}");
        assert!(talk.peak() < MOST, "{call}: {} kB", talk.peak());
    }
    // Far into it, with nothing remembered of where a page ended.
    let call = json!({"name": "Grep", "input": {
        "pattern": "x", "path": "million.txt", "output_mode": "content", "offset": 999_990}});
    assert!(text(&talk.ask(&call)).starts_with("million.txt:999991:x y"));
    let call = json!({"name": "Grep", "input": {"pattern": "needle", "output_mode": "content"}});
    assert_eq!(text(&talk.ask(&call)), "line.txt:2:needle");
    assert!(talk.peak() < MOST, "{} kB", talk.peak());
    talk.end();
}

#[test]
fn a_file_that_shrinks_grows_and_vanishes_meanwhile_ends_nothing() {
    const SIZE: usize = 16 << 20;
    let lab = Lab::new(&[("still.txt", "seen\n"), ("gone.txt", "seen\n")]);
    patient(&lab);
    let text = "some text\n".repeat(SIZE / 10);
    std::fs::write(lab.at("large.txt"), &text).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let large = std::fs::OpenOptions::new().write(true).open(lab.at("large.txt")).unwrap();
                large.set_len(0).unwrap();
                std::fs::write(lab.at("large.txt"), &text).unwrap();
                std::fs::remove_file(lab.at("gone.txt")).unwrap();
                std::fs::write(lab.at("gone.txt"), "seen\n").unwrap();
            }
        });
        let replies = lab.ask_each((0..6).flat_map(|_| in_files("seen")));
        stop.store(true, Ordering::Relaxed);
        for reply in replies {
            assert!(reply["is_error"] != true && says(&reply, "still.txt"), "{reply}");
        }
    });
}

/// Each name as it is shown is one line of a reply, and reads the file again.
#[test]
fn every_name_that_is_shown_can_be_used() {
    let lab = Lab::new(&[]);
    let names: [&[u8]; 9] =
        [b"a\nb", b"\x1b[2J", b"-rf", b"--pre=x", b"\xff\xfe", b" lead", b"trail ", b"tab\there", b"[x]{y}*"];
    for (at, name) in names.iter().enumerate() {
        std::fs::write(lab.at("").join(OsStr::from_bytes(name)), format!("content {at}\n")).unwrap();
    }
    let listed = lab.ask_each([
        json!({"name": "Glob", "input": {"pattern": "*"}}),
        json!({"name": "Grep", "input": {"pattern": "content"}}),
        json!({"dialect": "cdd", "name": "glob", "input": {"pattern": "*"}}),
    ]);
    for reply in listed {
        let shown: Vec<&str> = text(&reply).lines().collect();
        assert_eq!(shown.len(), names.len(), "{reply}");
        let reads = shown.iter().map(|name| json!({"name": "Read", "input": {"file_path": name}}));
        let mut contents: Vec<String> =
            lab.ask_each(reads).iter().map(|reply| text(reply).to_owned()).collect();
        contents.sort();
        let expected: Vec<String> = (0..names.len()).map(|at| format!("     1\tcontent {at}")).collect();
        assert_eq!(contents, expected);
    }
    let reply =
        &lab.ask_each([json!({"dialect": "ally", "name": "grep", "input": {"pattern": "content"}})])[0];
    let object: Value = serde_json::from_str(text(reply)).unwrap();
    assert_eq!(object["matches"].as_array().unwrap().len(), names.len());
}

#[test]
fn archives_are_not_unpacked() {
    let lab = Lab::new(&[("a.txt", "seen\n")]);
    // Four bytes that say gzip, and nothing that could be unpacked.
    std::fs::write(lab.at("bomb.gz"), b"\x1f\x8b\x08\x00seen".repeat(1000)).unwrap();
    std::fs::write(lab.at("bomb.zip"), b"PK\x03\x04\x00\x00seen".repeat(1000)).unwrap();
    for reply in lab.ask_each(in_files("seen")) {
        assert!(says(&reply, "a.txt") && !says(&reply, "bomb"), "{reply}");
    }
}

/// Patterns that other engines take for ever over, and those that none can read.
#[test]
fn no_pattern_takes_for_ever() {
    let lab = Lab::new(&[("x.txt", &"x".repeat(2 << 20)), ("a.txt", &"a".repeat(2 << 20))]);
    for pattern in ["(x+x+)+y", "(a|a)*b", "(.*)*$", "(x*)*(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
        for reply in lab.ask_each(in_files(pattern)) {
            assert_ne!(reply["is_error"], true, "{pattern}: {reply}");
        }
    }
    let long = "ab".repeat(50_000);
    let bad = ["(a{1000}){1000}", "(", "[", "\\", "*", "?", "(?=x)", "\\1", "", "a\0b", "a\nb", &long];
    for pattern in bad {
        for reply in lab.ask_each(in_files(pattern)) {
            assert!(reply["is_error"] == true && reply.to_string().len() < 5000, "{pattern}: {reply}");
        }
    }
}

#[test]
fn no_pattern_of_names_takes_for_ever() {
    let lab = Lab::new(&[]);
    let folder = openat(CWD, lab.at(""), OFlags::DIRECTORY, Mode::empty()).unwrap();
    mkdirat(&folder, "many", Mode::RWXU).unwrap();
    for n in 0..100_000 {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        openat(&folder, format!("many/a{n}aaaaaaaaaaaaaaaaaaaa"), flags, Mode::RUSR).unwrap();
    }
    let alternatives = "{a,b}".repeat(30);
    let patterns = ["**/**/**/**/**/*", &alternatives, "**/*a*a*a*a*a*a*b", "**/[!-~]*", "many/*9999a*"];
    let mut talk = lab.talk(&[]);
    // What the program itself takes depends on how it was built.
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

/// Deeper than a process may have files open, with something on every level that is still to be looked at.
#[test]
fn a_tree_of_a_thousand_levels_is_searched_to_the_bottom() {
    const LEVELS: usize = 1500;
    let lab = Lab::new(&[("top.txt", "seen\n")]);
    let mut folder = openat(CWD, lab.at(""), OFlags::DIRECTORY, Mode::empty()).unwrap();
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
    let haft = lab.haft(&["batch"]);
    command.args(["-c", "ulimit -n 256; exec \"$0\" batch"]).arg(haft.get_program());
    command.current_dir(lab.at("")).env_clear();
    command.envs(haft.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let calls = [
        json!({"name": "Grep", "input": {"pattern": "seen", "output_mode": "count"}}),
        json!({"dialect": "ally", "name": "grep", "input": {"pattern": "seen"}}),
        json!({"name": "Glob", "input": {"pattern": "**/bottom"}}),
    ];
    for reply in lab.answers(&mut command, &calls) {
        assert!(says(&reply, "d/d/bottom") && !says(&reply, "could not be read"), "{reply}");
    }
    // What removes the folder would go down as deep as the tree is.
    let status = Command::new("rm").arg("-rf").arg(lab.at("d")).status();
    assert!(status.unwrap().success());
}
