//! A soak test: many calls to one `haft mcp`, 64 in flight, commands and changes among them. Memory, descriptors and
//! processes must not grow.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)] // a bench
#![allow(clippy::disallowed_methods)] // uses std::fs directly

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::json;

const CALLS: usize = 100_000;
const AT_ONCE: usize = 64;
/// How much memory may grow between the first tenth of the calls and the last, in kilobytes.
const SLACK: u64 = 4 * 1024;

#[derive(Debug)]
struct Usage {
    kilobytes: u64,
    descriptors: usize,
    children: usize,
}

fn usage(id: u32) -> Usage {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let held = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
    let children = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    Usage {
        kilobytes: held.trim().trim_end_matches(" kB").parse().unwrap(),
        descriptors: std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count(),
        children: tasks.flat_map(children).map(|text| text.split_whitespace().count()).sum(),
    }
}

fn main() {
    let Some(haft) = std::env::args().skip(1).find(|arg| arg != "--bench") else {
        println!("name the program: cargo bench -p haft-mcp --bench soak -- target/release/haft");
        return;
    };
    let base = tempfile::tempdir().unwrap();
    let (work, home) = (base.path().join("work"), base.path().join("home"));
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(&home).unwrap();
    std::fs::write(work.join("lines.txt"), "this is a line\n".repeat(200)).unwrap();
    let mut child = Command::new(haft)
        .args(["mcp", "--mode", "bypass"])
        .current_dir(&work)
        .env("HOME", &home)
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut write = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let about = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}});
    let mut requests = vec![json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})];
    let (mut made, mut before) = (0, None);
    while made < CALLS {
        for request in requests.drain(..) {
            writeln!(write, "{request}").unwrap();
            let answer = lines.next().unwrap().unwrap();
            assert!(answer.contains("\"result\""), "{answer}");
        }
        let batch: String = (made..made + AT_ONCE)
            .map(|number| {
                let (name, arguments) = match number % 1000 {
                    0 => ("Bash", json!({"command": "echo $$"})),
                    1 => ("Write", json!({"file_path": "w.txt", "content": number.to_string()})),
                    2 => ("Grep", json!({"pattern": "line"})),
                    3 => ("Read", json!({"file_path": "missing.txt"})),
                    _ => ("Read", json!({"file_path": "lines.txt"})),
                };
                let params = json!({"name": name, "arguments": arguments});
                format!(
                    "{}\n",
                    json!({"jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": params})
                )
            })
            .collect();
        write.write_all(batch.as_bytes()).unwrap();
        for _ in 0..AT_ONCE {
            let answer = lines.next().unwrap().unwrap();
            assert!(answer.contains("\"result\""), "{answer}");
        }
        made += AT_ONCE;
        if before.is_none() && made >= CALLS / 10 {
            before = Some(usage(child.id()));
        }
    }
    let (before, after) = (before.unwrap(), usage(child.id()));
    println!("after {} calls: {before:?}", CALLS / 10);
    println!("after {made} calls: {after:?}");
    drop(write);
    assert!(child.wait().unwrap().success());
    assert!(after.kilobytes <= before.kilobytes + SLACK, "memory grows");
    assert!(after.descriptors <= before.descriptors, "descriptors are left open");
    assert!(after.children <= before.children, "processes are left behind");
}
