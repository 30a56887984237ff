//! Random operations on files, which a command makes while it is recorded.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, RenameFlags};

const SEED: &str = "HAFT_TEST_SEED";
const OPERATIONS: &str = "HAFT_TEST_OPERATIONS";
const PROCESSES: &str = "HAFT_TEST_PROCESSES";

/// A small generator of random numbers, so that a seed gives the same run everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    /// A path of one to three names, out of few, so that operations meet.
    fn path(&mut self) -> PathBuf {
        let depth = 1 + self.below(3);
        (0..depth).map(|_| ["a", "b", "c", "d"][self.below(4)]).collect()
    }

    fn text(&mut self) -> Vec<u8> {
        let length = [0, 1, 10, 300, 5000][self.below(5)];
        (0..length).map(|_| b'a' + self.below(26) as u8).collect()
    }
}

fn number(name: &str) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Runs in the command: many operations, most of which fail.
#[test]
#[ignore = "started by another test"]
fn operations() {
    let seed = number(SEED);
    let children: Vec<_> = (1..number(PROCESSES))
        .map(|process| command(seed + process * 7_919, 1, number(OPERATIONS)).spawn().unwrap())
        .collect();
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut open: Vec<File> = Vec::new();
    for _ in 0..number(OPERATIONS) {
        operation(&mut random, &mut open);
    }
    for mut child in children {
        child.wait().unwrap();
    }
}

fn operation(random: &mut Random, open: &mut Vec<File>) {
    let (path, other) = (random.path(), random.path());
    let text = random.text();
    // Failures are part of it.
    let _ = match random.below(20) {
        0..=2 => fs::write(&path, text),
        3 => OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(&text)),
        4 => OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| {
            file.write_all(&text)?;
            open.push(file);
            Ok(())
        }),
        5 => OpenOptions::new().write(true).open(&path).map(|file| open.push(file)),
        6 if !open.is_empty() => {
            let at = random.below(open.len());
            let mut file = open.swap_remove(at);
            file.seek(SeekFrom::Start(3)).and_then(|_| file.write_all(&text))
        }
        7 | 8 => fs::remove_file(&path),
        9..=11 => fs::rename(&path, &other),
        12 => rustix::fs::renameat_with(CWD, &path, CWD, &other, RenameFlags::EXCHANGE).map_err(Into::into),
        13 => fs::create_dir(&path),
        14 => fs::remove_dir(&path),
        15 => fs::remove_dir_all(&path),
        16 => symlink(["a", "b/c", "../b", "nothing"][random.below(4)], &path),
        17 => fs::hard_link(&path, &other),
        18 => {
            let mode = [0o600, 0o644, 0o755, 0o700][random.below(4)];
            let is_dir = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
            fs::set_permissions(&path, fs::Permissions::from_mode(if is_dir { mode | 0o700 } else { mode }))
        }
        _ => OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(2)),
    };
}

/// A command that makes random operations in its working directory, by several processes at once.
pub(crate) fn command(seed: u64, processes: u64, operations: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "operations::operations", "--ignored", "--nocapture", "-q"]);
    command.env(SEED, seed.to_string()).env(PROCESSES, processes.to_string());
    command.env(OPERATIONS, operations.to_string()).stdout(Stdio::null());
    command
}

/// Makes a tree with files, directories, links and hard links.
pub(crate) fn populate(root: &Path, random: &mut Random) {
    for _ in 0..25 {
        let path = root.join(random.path());
        if path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_err()) {
            continue;
        }
        let other = root.join(random.path());
        let _ = match random.below(8) {
            0 => symlink(["a", "b/c", "../b", "nothing"][random.below(4)], &path),
            1 => fs::hard_link(other, &path),
            2 => fs::create_dir(&path),
            _ => fs::write(&path, random.text()),
        };
    }
}
