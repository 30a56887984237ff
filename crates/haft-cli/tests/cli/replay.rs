//! Replays commits of this repository as calls, one edit per hunk, and compares the result with the commit byte for byte.

use super::*;

/// Number of commits to replay.
const COMMITS: &str = "-n40";
/// Maximum number of calls per commit, so that one large commit does not dominate.
const MAX_CALLS: usize = 25;
/// Larger files are skipped.
const MAX_FILE: usize = 150_000;

/// A file's content before and after a commit.
struct Touched {
    path: String,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

fn git(args: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    command.args(["-c", "core.quotePath=false", "-c", "safe.directory=*"]).args(args);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    // `git diff --no-index` exits with 1 if there are differences.
    (output.status.success() || args[0] == "diff").then_some(output.stdout)
}

fn blob(name: &str) -> Option<Vec<u8>> {
    git(&["cat-file", "blob", name])
}

/// The regular files that a commit changed, up to the maximum number of calls.
fn touched(commit: &str) -> Option<Vec<Touched>> {
    let raw = git(&["diff-tree", "-r", "-z", "--no-renames", "--no-commit-id", commit])?;
    let raw = String::from_utf8(raw).ok()?;
    let fields: Vec<&str> = raw.split_terminator('\0').collect();
    let mut all: Vec<(Vec<&str>, &str)> = fields
        .chunks_exact(2)
        .map(|pair| (pair[0].trim_start_matches(':').split(' ').collect(), pair[1]))
        .collect();
    // Modified files test more than new ones.
    all.sort_by_key(|(words, _)| words[4] != "M");
    let side = |mode: &str, name: &str| match mode {
        "100644" | "100755" => blob(name).map(Some),
        "000000" => Some(None),
        _ => None,
    };
    let found = all.into_iter().take(MAX_CALLS).filter_map(|(words, path)| {
        let (before, after) = (side(words[0], words[2])?, side(words[1], words[3])?);
        Some(Touched { path: path.to_owned(), before, after })
    });
    Some(found.collect())
}

/// The hunks between two texts, as line ranges on both sides.
fn hunks(fixture: &Fixture, before: &[u8], after: &[u8]) -> Vec<[std::ops::Range<usize>; 2]> {
    let (old, new) = (fixture.base.join("before"), fixture.base.join("after"));
    std::fs::write(&old, before).unwrap();
    std::fs::write(&new, after).unwrap();
    let args = ["diff", "--no-index", "--no-color", "--no-ext-diff", "--text", "-U0"];
    let diff = git(&[&args, [old.to_str().unwrap(), new.to_str().unwrap()].as_slice()].concat()).unwrap();
    let diff = String::from_utf8_lossy(&diff).into_owned();
    let range = |text: &str| {
        let (start, count) = text[1..].split_once(',').unwrap_or((&text[1..], "1"));
        let (start, count): (usize, usize) = (start.parse().unwrap(), count.parse().unwrap());
        // git gives an empty range by the line before it.
        let start = if count == 0 { start } else { start - 1 };
        start..start + count
    };
    let heads = diff.lines().filter_map(|line| line.strip_prefix("@@ ")?.split_once(" @@"));
    let ranges = heads.map(|(head, _)| head.split_once(' ').unwrap());
    ranges.map(|(old, new)| [range(old), range(new)]).collect()
}

/// One edit per hunk, from top to bottom, each applied to the result of those before it.
fn edits(fixture: &Fixture, path: &str, before: &str, after: &str) -> Vec<Value> {
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let mut now: Vec<&str> = before.split_inclusive('\n').collect();
    let mut moved: isize = 0;
    let mut calls = Vec::new();
    for [gone, come] in hunks(fixture, before.as_bytes(), after.as_bytes()) {
        let start = gone.start.strict_add_signed(moved);
        let end = start + gone.len();
        let whole = now.concat();
        let mut around = 0;
        let (from, to) = loop {
            let (from, to) = (start.saturating_sub(around), (end + around).min(now.len()));
            let old = now[from..to].concat();
            if !old.is_empty() && occurrences(&whole, &old) == 1 {
                break (from, to);
            }
            around += 1;
            assert!(around <= now.len() + 1, "`{path}` has no place of its own");
        };
        let old = now[from..to].concat();
        let fresh = [&now[from..start], &new[come.clone()], &now[end..to]].concat().concat();
        calls.push(json!({"file_path": path, "old_string": old, "new_string": fresh}));
        now.splice(start..end, new[come.clone()].iter().copied());
        moved += come.len() as isize - gone.len() as isize;
    }
    assert_eq!(now.concat(), after, "the hunks of `{path}` make another text");
    calls
}

/// Number of occurrences of a text in another, including overlapping ones.
fn occurrences(whole: &str, part: &str) -> usize {
    let mut count = 0;
    let mut at = 0;
    while let Some(found) = whole[at..].find(part) {
        count += 1;
        at += found + whole[at + found..].chars().next().map_or(1, char::len_utf8);
    }
    count
}

/// The calls that reproduce the commit's change of a file; `None` if the file is skipped.
fn calls(fixture: &Fixture, file: &Touched) -> Option<Vec<Value>> {
    use base64::Engine as _;
    let Touched { path, before, after } = file;
    let text = |bytes: &Vec<u8>| {
        let text = String::from_utf8(bytes.clone()).ok()?;
        (!text.contains(['\r', '\0', '\u{feff}'])).then_some(text)
    };
    if [before, after].into_iter().flatten().any(|bytes| bytes.len() > MAX_FILE) || path.starts_with(".haft")
    {
        return None;
    }
    let call = |name: &str, input: Value| json!({"name": name, "input": input});
    Some(match (before, after) {
        (_, None) => {
            vec![json!({"dialect": "workspace", "calls": [call("delete_file", json!({"path": path}))]})]
        }
        (None, Some(after)) => match text(after) {
            Some(text) => vec![call("Write", json!({"file_path": path, "content": text}))],
            None => {
                let content = base64::engine::general_purpose::STANDARD.encode(after);
                let input =
                    json!({"path": path, "content": content, "encoding": "base64", "createDirs": true});
                vec![json!({"dialect": "workspace", "calls": [call("write_file", input)]})]
            }
        },
        (Some(before), Some(after)) => {
            let (before, after) = (text(before)?, text(after)?);
            if before.is_empty() || before == after {
                return None;
            }
            let mut calls = vec![call("Read", json!({"file_path": path, "limit": 1}))];
            calls.extend(edits(fixture, path, &before, &after).into_iter().map(|input| call("Edit", input)));
            calls
        }
    })
}

#[test]
fn the_history_of_this_repository_can_be_replayed() {
    if !require(Need::Git) {
        return;
    }
    let Some(commits) = git(&["log", "--no-merges", "--format=%H %P", COMMITS]) else {
        return missing(Need::Repository, "git finds no history here");
    };
    let commits = String::from_utf8(commits).unwrap();
    let (mut all, mut files, mut left_out) = (0, 0, 0);
    for line in commits.lines() {
        // In a shallow clone the parent of the last commit is missing.
        let Some((commit, _)) = line.split_once(' ') else { continue };
        let Some(touched) = touched(commit) else { continue };
        let mut made = 0;
        let fixture = Fixture::new(&[]);
        fixture.settings("[files]\nplaceholders = true\ndurability = \"fast\"\n");
        let (mut turn, mut lines, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for file in &touched {
            let Some(calls) = calls(&fixture, file).filter(|calls| made + calls.len() <= MAX_CALLS) else {
                left_out += 1;
                continue;
            };
            if let Some(before) = &file.before {
                let path = fixture.base.join("ws").join(&file.path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, before).unwrap();
            }
            made += calls.len();
            expected.push(file);
            for call in calls {
                if call["calls"].is_array() { lines.push(call.to_string()) } else { turn.push(call) }
            }
        }
        lines.push(Value::from(turn).to_string());
        let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| *line != "[]").collect();
        let replies = fixture.batch(&["--mode", "bypass"], &lines);
        all += replies.len();
        for reply in &replies {
            assert!(reply["is_error"] == false, "{commit}: {}", text(reply));
        }
        for file in expected {
            let now = std::fs::read(fixture.base.join("ws").join(&file.path)).ok();
            assert!(now == file.after, "{commit}: `{}` came out differently", file.path);
            files += 1;
        }
    }
    println!("{all} calls made {files} files; {left_out} were left out");
    assert!(commits.lines().count() < 5 || files > 0);
}

/// Line edits by git's hunks, with the same texts in other encodings.
#[test]
fn edits_by_the_hunks_of_git_hold_in_every_encoding() {
    if !require(Need::Git) {
        return;
    }
    let before = "α\nsame\nβ ü\nsame\nγ\n\nend\n";
    let after = "α\nnew ä\nβ ü\nsame\n\nend\nmore ö";
    let utf16 = |text: &str| -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect()
    };
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let bom = |text: &str| format!("\u{feff}{text}").into_bytes();
    let fixture = Fixture::new(&[]);
    let forms: [(&str, Vec<u8>, Vec<u8>); 4] = [
        ("plain.txt", before.into(), after.into()),
        ("crlf.txt", crlf(before).into(), crlf(after).into()),
        ("bom.txt", bom(before), bom(after)),
        ("utf16.txt", utf16(&crlf(before)), utf16(&crlf(after))),
    ];
    for (name, from, to) in forms {
        std::fs::write(fixture.base.join("ws").join(name), from).unwrap();
        let mut turn = vec![json!({"name": "Read", "input": {"file_path": name}})];
        let edits = edits(&fixture, name, before, after);
        turn.extend(edits.into_iter().map(|input| json!({"name": "Edit", "input": input})));
        for reply in fixture.batch(&["--mode", "bypass"], &[&Value::from(turn).to_string()]) {
            assert!(reply["is_error"] == false, "{name}: {}", text(&reply));
        }
        assert!(std::fs::read(fixture.base.join("ws").join(name)).unwrap() == to, "{name}");
    }
}
