//! Random trees of files, reproducible from a seed.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A deterministic pseudo-random generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

const WORDS: [&str; 16] = [
    "alpha",
    "Beta",
    "gamma_1",
    "TODO",
    "fn main()",
    "x",
    "émile",
    "straße",
    "日本",
    "alphabet",
    "a-b",
    "42",
    "{}",
    "foo.bar",
    "beta",
    "end",
];
const FOLDERS: [&str; 8] =
    ["src", "src/deep/er/still", "docs", "target", "build/out", ".config", "a b", "src/.hid"];
const NAMES: [&str; 12] = [
    "main.rs",
    "lib.rs",
    "tool.py",
    "README.md",
    "notes.txt",
    "a.log",
    "b.log",
    "data.json",
    ".env",
    "Makefile",
    "x.tmp",
    "UPPER.RS",
];
const RULES: [&str; 14] = [
    "*.log",
    "target/",
    "/build",
    "!a.log",
    "**/deep",
    "*.tmp",
    "!*.rs",
    "docs/*.md",
    "# no rule",
    "\\!odd",
    "er/",
    "still/**",
    "[ab].log",
    "!/src/x.tmp",
];

pub(crate) struct Tree {
    pub(crate) dir: TempDir,
    /// Files whose bytes are neither UTF-8 nor UTF-16.
    pub(crate) foreign: Vec<PathBuf>,
}

impl Tree {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Self { dir, foreign: Vec::new() };
        tree.fill(&PathBuf::from("ws"), &mut random);
        for folder in FOLDERS {
            if !random.one_in(4) {
                tree.fill(&Path::new("ws").join(folder), &mut random);
            }
        }
        std::fs::create_dir_all(tree.dir.path().join("out")).unwrap();
        std::fs::write(tree.dir.path().join("out/secret.rs"), "alpha outside\n").unwrap();
        let links =
            [("ws/file.rs", "src/main.rs"), ("ws/loop", "."), ("ws/to_src", "src"), ("ws/out", "../out")];
        for (name, target) in links {
            symlink(target, tree.dir.path().join(name)).unwrap();
        }
        symlink("../out/secret.rs", tree.dir.path().join("ws/secret.rs")).unwrap();
        tree
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    fn fill(&mut self, folder: &Path, random: &mut Random) {
        let at = self.dir.path().join(folder);
        std::fs::create_dir_all(&at).unwrap();
        for name in NAMES {
            if random.one_in(3) {
                continue;
            }
            let (bytes, is_foreign) = content(random);
            std::fs::write(at.join(name), bytes).unwrap();
            if is_foreign {
                self.foreign.push(folder.strip_prefix("ws").unwrap().join(name));
            }
        }
        for name in [".gitignore", ".ignore", ".rgignore"] {
            if random.one_in(4) {
                let rules: Vec<&str> = (0..1 + random.below(4)).map(|_| random.pick(&RULES)).collect();
                std::fs::write(at.join(name), rules.join("\n") + "\n").unwrap();
            }
        }
    }
}

/// The bytes of a file, and whether they are in an encoding that ripgrep does not detect.
fn content(random: &mut Random) -> (Vec<u8>, bool) {
    let form = random.below(12);
    let end = if form == 1 { "\r\n" } else { "\n" };
    let mut text = String::new();
    for _ in 0..random.below(14) {
        let words: Vec<&str> = (0..random.below(5)).map(|_| random.pick(&WORDS)).collect();
        text += &words.join(" ");
        text += end;
    }
    if random.one_in(3) {
        text.truncate(text.trim_end().len());
    }
    let wide = |mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| {
        mark.into_iter().chain(text.encode_utf16().flat_map(bytes)).collect::<Vec<u8>>()
    };
    match form {
        2 => (Vec::new(), false),
        3 => (wide([0xff, 0xfe], u16::to_le_bytes), false),
        4 => (wide([0xfe, 0xff], u16::to_be_bytes), false),
        5 => {
            let latin = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect::<Vec<_>>();
            let is_foreign = !latin.is_ascii();
            (latin, is_foreign)
        }
        6 => ([b"\x7fELF\0".as_slice(), text.as_bytes()].concat(), false),
        7 => ([b"\xef\xbb\xbf".as_slice(), text.as_bytes()].concat(), false),
        _ => (text.into_bytes(), false),
    }
}
