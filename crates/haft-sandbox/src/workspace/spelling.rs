//! Which spelling of a name counts. What is written down about a place goes by its path, so two spellings
//! of one file must lead to one path: that of the name on disk. Letters with accents can be composed or
//! not, which no file system of Linux evens out; upper and lower case are one to some, and a few even
//! decide it folder by folder. This yields names only and opens nothing.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization as _;

use crate::names;

/// How many folders are remembered; a walk for one more costs a few calls.
const REMEMBERED: usize = 10_000;

/// What is known of the file systems met so far.
#[derive(Debug, Default)]
pub(super) struct Spelling {
    devices: RwLock<HashMap<u64, Letters>>,
    /// Folders, by their spelling on disk, that tell upper from lower case on a device where each decides.
    telling: RwLock<HashSet<PathBuf>>,
}

/// What upper and lower case are to a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    /// Different letters.
    Apart,
    /// The same letters.
    Alike,
    /// Either, as each folder says.
    ByFolder,
    /// Not known from its kind: a name has to be tried.
    Untold,
}

/// In what two names may differ and still be alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ignoring {
    /// Whether accents are composed.
    Form,
    /// That, and upper or lower case.
    Letters,
}

impl Spelling {
    /// Whether a name that was found in this folder is known, without a look at any disk, to have no other
    /// spelling. The folder's path is given as it was asked for.
    pub(super) fn is_settled(&self, device: u64, folder: Option<&Path>) -> bool {
        match self.known(device) {
            Some(Letters::Apart) => true,
            Some(Letters::ByFolder) => folder.is_some_and(|folder| self.is_telling(folder)),
            _ => false,
        }
    }

    /// The name on disk of what was found under `name` in a folder on this device, if that is another. The
    /// folder is spelled as on disk.
    pub(super) fn of_found(&self, folder: &Path, name: &OsStr, device: u64) -> Option<OsString> {
        let letters = self.known(device).unwrap_or_else(|| {
            let letters = letters_on(folder);
            self.learn(device, letters);
            letters
        });
        let alike = match letters {
            Letters::Apart => false,
            Letters::Alike => true,
            Letters::ByFolder => !self.is_telling(folder) && !self.learn_telling(folder),
            Letters::Untold => match tried(folder, name) {
                Some(tried) => {
                    self.learn(device, tried);
                    tried == Letters::Alike
                }
                None => true,
            },
        };
        if alike { on_disk(folder, name) } else { None }
    }

    /// The name in this folder that is meant by one that was not found: the only one that differs in
    /// nothing but whether its accents are composed.
    pub(super) fn of_missing(&self, folder: &Path, name: &OsStr) -> Option<OsString> {
        if name.as_bytes().is_ascii() {
            return None;
        }
        match *alike(name, &names_in(folder)?, Ignoring::Form) {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    fn known(&self, device: u64) -> Option<Letters> {
        self.devices.read().get(&device).copied()
    }

    fn learn(&self, device: u64, letters: Letters) {
        self.devices.write().insert(device, letters);
    }

    fn is_telling(&self, folder: &Path) -> bool {
        self.telling.read().contains(folder)
    }

    /// Asks a folder whether it tells upper from lower case, and remembers it if it does.
    fn learn_telling(&self, folder: &Path) -> bool {
        let tells = !is_folding(folder);
        if tells {
            let mut telling = self.telling.write();
            if telling.len() >= REMEMBERED {
                telling.clear();
            }
            telling.insert(folder.to_owned());
        }
        tells
    }
}

/// Whether a name is this plain one to any file system: some ignore case, some characters that show
/// nothing, and some dots and spaces at the end.
pub(super) fn means(name: &OsStr, plain: &str) -> bool {
    if name.eq_ignore_ascii_case(plain) {
        return true;
    }
    let Some(text) = name.to_str() else { return false };
    let ends_oddly = text.ends_with(['.', ' ']);
    if text.is_ascii() && !ends_oddly {
        return false;
    }
    let shown: String = text.chars().filter(|char| !names::is_ignorable(*char)).collect();
    shown.trim_end_matches(['.', ' ']).eq_ignore_ascii_case(plain)
}

/// The name in the listing under which something was found by another spelling.
fn on_disk(folder: &Path, name: &OsStr) -> Option<OsString> {
    let names = names_in(folder)?;
    match *alike(name, &names, Ignoring::Letters) {
        [] if names.iter().any(|listed| listed == name) => None,
        [only] => Some(only.clone()),
        // Several, or another name altogether, such as the short ones of FAT.
        ref several => {
            let found = rustix::fs::lstat(folder.join(name)).ok()?;
            let is_it = |other: &OsStr| {
                let other = rustix::fs::lstat(folder.join(other));
                other.is_ok_and(|other| (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino))
            };
            match several.is_empty() {
                false => several.iter().find(|other| is_it(other)).map(|other| (*other).clone()),
                // With several hard links it could be any of them.
                true if found.st_nlink > 1 && !is_directory(&found) => None,
                true => names.iter().find(|other| is_it(other)).cloned(),
            }
        }
    }
}

/// The names that are alike to the one wanted; none if that is among them, since then it is meant.
fn alike<'a>(wanted: &OsStr, names: &'a [OsString], ignoring: Ignoring) -> Vec<&'a OsString> {
    let Some(key) = wanted.to_str().map(|wanted| key(wanted, ignoring)) else { return Vec::new() };
    if names.iter().any(|name| name == wanted) {
        return Vec::new();
    }
    let same = |text: &str| key == self::key(text, ignoring);
    names.iter().filter(|name| name.to_str().is_some_and(same)).collect()
}

/// What names that are alike have in common.
fn key(name: &str, ignoring: Ignoring) -> String {
    match ignoring {
        Ignoring::Form => name.nfc().collect(),
        // Up and down again, because some letters have two small forms.
        Ignoring::Letters => {
            name.nfd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfc().collect()
        }
    }
}

/// Tries a name in the other case: what answers to it without being listed under it is the same.
fn tried(folder: &Path, name: &OsStr) -> Option<Letters> {
    let other = other_case(name.to_str()?)?;
    match rustix::fs::lstat(folder.join(&other)) {
        Err(Errno::NOENT) => Some(Letters::Apart),
        Err(_) => None,
        Ok(_) if names_in(folder)?.iter().any(|listed| *listed == *other) => Some(Letters::Apart),
        Ok(_) => Some(Letters::Alike),
    }
}

/// The name with upper and lower case exchanged, if that is another.
fn other_case(name: &str) -> Option<String> {
    let exchange = |char: char| match char.is_ascii_lowercase() {
        true => char.to_ascii_uppercase(),
        false => char.to_ascii_lowercase(),
    };
    let other: String = name.chars().map(exchange).collect();
    (other != name).then_some(other)
}

fn names_in(folder: &Path) -> Option<Vec<OsString>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    let entries = Dir::new(fd).ok()?;
    entries.map(|entry| Some(OsStr::from_bytes(entry.ok()?.file_name().to_bytes()).to_owned())).collect()
}

fn is_directory(raw: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(raw.st_mode).is_dir()
}

/// What case is to the file system that a folder is on, by the kind of that file system.
#[cfg(target_os = "linux")]
fn letters_on(folder: &Path) -> Letters {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let system = rustix::fs::open(folder, flags, Mode::empty()).and_then(rustix::fs::fstatfs);
    // The width of this field differs between platforms.
    #[allow(clippy::unnecessary_cast)]
    match system.map(|system| system.f_type as u32) {
        Ok(0x4d44 | 0x2011_bab0 | 0x4244 | 0x482b | 0xff53_4d42 | 0xfe53_4d42 | 0x517b) => Letters::Alike,
        Ok(0xef53) => where_kernel_folds("ext4"),
        Ok(0xf2f5_2010) => where_kernel_folds("f2fs"),
        Ok(0x0102_1994) => where_kernel_folds("tmpfs"),
        Ok(0x9123_683e) => Letters::Apart,
        _ => Letters::Untold,
    }
}

#[cfg(not(target_os = "linux"))]
fn letters_on(_: &Path) -> Letters {
    Letters::Untold
}

/// Folders decide only where the kernel was built to let them.
#[cfg(target_os = "linux")]
fn where_kernel_folds(system: &str) -> Letters {
    let told = Path::new("/sys/fs");
    match told.exists() && !told.join(system).join("features/casefold").exists() {
        true => Letters::Apart,
        false => Letters::ByFolder,
    }
}

/// Whether names in this folder are looked up without regard to case.
#[cfg(target_os = "linux")]
fn is_folding(folder: &Path) -> bool {
    use rustix::fs::IFlags;
    /// `FS_CASEFOLD_FL`
    const CASEFOLD: IFlags = IFlags::from_bits_retain(0x4000_0000);
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = rustix::fs::open(folder, flags, Mode::empty()).and_then(rustix::fs::ioctl_getflags);
    flags.is_ok_and(|flags| flags.contains(CASEFOLD))
}

#[cfg(not(target_os = "linux"))]
fn is_folding(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(wanted: &str, names: &[&str], ignoring: Ignoring) -> Vec<String> {
        let names: Vec<_> = names.iter().map(OsString::from).collect();
        alike(wanted.as_ref(), &names, ignoring)
            .iter()
            .map(|name| name.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn accents_are_alike_however_they_are_composed() {
        let (composed, apart) = ("caf\u{e9}", "cafe\u{301}");
        assert_eq!(found(composed, &["cafe", apart], Ignoring::Form), [apart]);
        assert_eq!(found(apart, &["cafe", composed], Ignoring::Form), [composed]);
        assert!(found(composed, &["CAF\u{c9}", "cafe"], Ignoring::Form).is_empty());
        // Three ways to write one letter: which one is meant cannot be told.
        assert_eq!(found("\u{212b}", &["\u{c5}", "A\u{30a}"], Ignoring::Form).len(), 2);
        assert_eq!(found("한", &["\u{1112}\u{1161}\u{11ab}"], Ignoring::Form).len(), 1);
    }

    #[test]
    fn case_is_ignored_in_any_alphabet() {
        for (wanted, listed) in [
            ("readme.md", "README.md"),
            ("ÉTÉ", "e\u{301}te\u{301}"),
            ("ΟΔΟΣ", "οδος"),
            ("οδοσ", "οδος"),
            ("ЖУК", "жук"),
            ("\u{1c4}", "\u{1c6}"),
            ("STRASSE", "straße"),
        ] {
            assert_eq!(found(wanted, &["other", listed], Ignoring::Letters), [listed]);
        }
        assert!(found("résumé", &["resume"], Ignoring::Letters).is_empty());
    }

    #[test]
    fn an_exact_name_is_always_meant() {
        for ignoring in [Ignoring::Form, Ignoring::Letters] {
            assert!(found("caf\u{e9}", &["cafe\u{301}", "caf\u{e9}", "CAF\u{c9}"], ignoring).is_empty());
        }
        let bytes = OsStr::from_bytes(b"\xff");
        assert!(alike(bytes, &["a".into()], Ignoring::Letters).is_empty());
        assert!(alike("a".as_ref(), &[bytes.to_owned()], Ignoring::Letters).is_empty());
    }

    #[test]
    fn the_other_case_is_another_name() {
        assert_eq!(other_case("Read-me.1").as_deref(), Some("rEAD-ME.1"));
        assert_eq!(other_case("1-2_é"), None);
    }

    #[test]
    fn no_spelling_hides_what_a_name_means() {
        for name in [".haft", ".HAFT", ".Haft.", ".haft ", ".haft. .", ".ha\u{200d}ft", "\u{feff}.HaFt\u{ad}"]
        {
            assert!(means(name.as_ref(), ".haft"), "{name:?}");
        }
        for name in ["haft", ".haft-1.tmp", ".hafted", "..haft", ".häft", ". haft", ".ha ft", ""] {
            assert!(!means(name.as_ref(), ".haft"), "{name:?}");
        }
    }

    #[test]
    fn what_was_learned_is_not_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("File"), "").unwrap();
        assert_eq!(tried(dir.path(), "File".as_ref()), Some(Letters::Apart));
        assert_eq!(tried(dir.path(), "1".as_ref()), None);
        std::fs::write(dir.path().join("fILE"), "").unwrap();
        assert_eq!(tried(dir.path(), "File".as_ref()), Some(Letters::Apart));
        let spelling = Spelling::default();
        assert!(!spelling.is_settled(7, Some(dir.path())));
        spelling.learn(7, Letters::ByFolder);
        assert!(!spelling.is_settled(7, Some(dir.path())));
        assert_eq!(spelling.of_found(dir.path(), "File".as_ref(), 7), None);
        assert!(spelling.is_settled(7, Some(dir.path())));
        assert!(!spelling.is_settled(7, None));
        spelling.learn(8, Letters::Alike);
        assert_eq!(spelling.of_found(dir.path(), "File".as_ref(), 8), None, "it is listed like that");
        assert!(!spelling.is_settled(8, Some(dir.path())));
    }
}
