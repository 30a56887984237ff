//! Which spelling of a name is canonical. Records and claims identify a file by its path, so two spellings of one file must
//! resolve to one path: that of the name on disk. Accented letters can be composed or decomposed, which no file system of
//! Linux normalises; some file systems ignore case, and a few decide that per folder. This yields names only and opens no
//! file.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization as _;

use crate::names;

/// Most cached folders; a miss costs a few system calls.
const MAX_CACHED: usize = 10_000;

/// A cache of how file systems treat case.
#[derive(Debug, Default)]
pub(super) struct Spelling {
    devices: RwLock<HashMap<u64, CaseRule>>,
    /// Case-sensitive folders, by their spelling on disk, of devices where each folder decides.
    sensitive: RwLock<HashSet<PathBuf>>,
}

/// How a file system treats upper and lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseRule {
    /// Names that differ in case are different.
    Sensitive,
    /// Names that differ in case are the same.
    Insensitive,
    /// Each folder decides.
    PerFolder,
    /// Its type does not tell: a name has to be tried.
    Unknown,
}

/// Differences that a comparison of names ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ignoring {
    /// Whether accents are composed.
    Form,
    /// Whether accents are composed, and case.
    FormAndCase,
}

impl Spelling {
    /// Whether the cache knows that a name found in this folder has no other spelling. The folder's path is given as the
    /// caller spelled it.
    pub(super) fn is_settled(&self, device: u64, folder: Option<&Path>) -> bool {
        match self.rule(device) {
            Some(CaseRule::Sensitive) => true,
            Some(CaseRule::PerFolder) => folder.is_some_and(|folder| self.is_sensitive(folder)),
            _ => false,
        }
    }

    /// The name on disk of the file that was found as `name` in a folder on this device, if the two differ. The folder is
    /// spelled as on disk.
    pub(super) fn of_found(&self, folder: &Path, name: &OsStr, device: u64) -> Option<OsString> {
        let rule = self.rule(device).unwrap_or_else(|| {
            let rule = rule_of_file_system(folder);
            self.set_rule(device, rule);
            rule
        });
        let ignores_case = match rule {
            CaseRule::Sensitive => false,
            CaseRule::Insensitive => true,
            CaseRule::PerFolder => !self.is_sensitive(folder) && !self.check_sensitive(folder),
            CaseRule::Unknown => match probe_case(folder, name) {
                Some(tried) => {
                    self.set_rule(device, tried);
                    tried == CaseRule::Insensitive
                }
                None => true,
            },
        };
        if ignores_case { on_disk(folder, name) } else { None }
    }

    /// The name in this folder that matches one that was not found: the only one that differs in nothing but whether its
    /// accents are composed.
    pub(super) fn of_missing(&self, folder: &Path, name: &OsStr) -> Option<OsString> {
        if name.as_bytes().is_ascii() {
            return None;
        }
        match *matching(name, &names_in(folder)?, Ignoring::Form) {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    fn rule(&self, device: u64) -> Option<CaseRule> {
        self.devices.read().get(&device).copied()
    }

    fn set_rule(&self, device: u64, rule: CaseRule) {
        self.devices.write().insert(device, rule);
    }

    fn is_sensitive(&self, folder: &Path) -> bool {
        self.sensitive.read().contains(folder)
    }

    /// Asks the file system whether a folder is case-sensitive, and caches it if it is.
    fn check_sensitive(&self, folder: &Path) -> bool {
        let is_sensitive = !is_folding(folder);
        if is_sensitive {
            let mut sensitive = self.sensitive.write();
            if sensitive.len() >= MAX_CACHED {
                sensitive.clear();
            }
            sensitive.insert(folder.to_owned());
        }
        is_sensitive
    }
}

/// Whether some file system would take a name for this plain one: some ignore case, some invisible characters, and some
/// trailing dots and spaces.
pub(super) fn means(name: &OsStr, plain: &str) -> bool {
    if name.eq_ignore_ascii_case(plain) {
        return true;
    }
    let Some(text) = name.to_str() else { return false };
    let has_odd_end = text.ends_with(['.', ' ']);
    if text.is_ascii() && !has_odd_end {
        return false;
    }
    let visible: String = text.chars().filter(|char| !names::is_ignorable(*char)).collect();
    visible.trim_end_matches(['.', ' ']).eq_ignore_ascii_case(plain)
}

/// The listed name of a file that was found by another spelling.
fn on_disk(folder: &Path, name: &OsStr) -> Option<OsString> {
    let names = names_in(folder)?;
    match *matching(name, &names, Ignoring::FormAndCase) {
        [] if names.iter().any(|listed| listed == name) => None,
        [only] => Some(only.clone()),
        // Several candidates, or a different name altogether, such as a short name on FAT: compare inodes.
        ref several => {
            let found = rustix::fs::lstat(folder.join(name)).ok()?;
            let is_same = |other: &OsStr| {
                let other = rustix::fs::lstat(folder.join(other));
                other.is_ok_and(|other| (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino))
            };
            match several.is_empty() {
                false => several.iter().find(|other| is_same(other)).map(|other| (*other).clone()),
                // With several hard links it could be any of them.
                true if found.st_nlink > 1 && !is_directory(&found) => None,
                true => names.iter().find(|other| is_same(other)).cloned(),
            }
        }
    }
}

/// The names that match the wanted one; none if that is listed itself, since an exact match wins.
fn matching<'a>(wanted: &OsStr, names: &'a [OsString], ignoring: Ignoring) -> Vec<&'a OsString> {
    let Some(key) = wanted.to_str().map(|wanted| key(wanted, ignoring)) else { return Vec::new() };
    if names.iter().any(|name| name == wanted) {
        return Vec::new();
    }
    let same = |text: &str| key == self::key(text, ignoring);
    names.iter().filter(|name| name.to_str().is_some_and(same)).collect()
}

/// The normal form by which names are compared.
fn key(name: &str, ignoring: Ignoring) -> String {
    match ignoring {
        Ignoring::Form => name.nfc().collect(),
        // To upper case and back, because some letters have two lower-case forms.
        Ignoring::FormAndCase => {
            name.nfd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfc().collect()
        }
    }
}

/// Finds out by trying a name in the other case: a file that is found by it without being listed under it shows that case is
/// ignored. `None` if that cannot be told.
fn probe_case(folder: &Path, name: &OsStr) -> Option<CaseRule> {
    let other = other_case(name.to_str()?)?;
    match rustix::fs::lstat(folder.join(&other)) {
        Err(Errno::NOENT) => Some(CaseRule::Sensitive),
        Err(_) => None,
        Ok(_) if names_in(folder)?.iter().any(|listed| *listed == *other) => Some(CaseRule::Sensitive),
        Ok(_) => Some(CaseRule::Insensitive),
    }
}

/// The name with upper and lower case swapped, if that differs.
fn other_case(name: &str) -> Option<String> {
    let swap = |char: char| match char.is_ascii_lowercase() {
        true => char.to_ascii_uppercase(),
        false => char.to_ascii_lowercase(),
    };
    let other: String = name.chars().map(swap).collect();
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

/// How the file system of a folder treats case, by the type of that file system.
#[cfg(target_os = "linux")]
fn rule_of_file_system(folder: &Path) -> CaseRule {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let system = rustix::fs::open(folder, flags, Mode::empty()).and_then(rustix::fs::fstatfs);
    // The width of this field differs between platforms.
    #[allow(clippy::unnecessary_cast)]
    match system.map(|system| system.f_type as u32) {
        // FAT, exFAT, HFS, HFS+, CIFS, SMB2, SMB.
        Ok(0x4d44 | 0x2011_bab0 | 0x4244 | 0x482b | 0xff53_4d42 | 0xfe53_4d42 | 0x517b) => {
            CaseRule::Insensitive
        }
        Ok(0xef53) => rule_if_kernel_folds("ext4"),
        Ok(0xf2f5_2010) => rule_if_kernel_folds("f2fs"),
        Ok(0x0102_1994) => rule_if_kernel_folds("tmpfs"),
        // btrfs
        Ok(0x9123_683e) => CaseRule::Sensitive,
        _ => CaseRule::Unknown,
    }
}

#[cfg(not(target_os = "linux"))]
fn rule_of_file_system(_: &Path) -> CaseRule {
    CaseRule::Unknown
}

/// The rule of a file system with per-folder case folding, which works only if the kernel was built with it.
#[cfg(target_os = "linux")]
fn rule_if_kernel_folds(system: &str) -> CaseRule {
    let sys = Path::new("/sys/fs");
    match sys.exists() && !sys.join(system).join("features/casefold").exists() {
        true => CaseRule::Sensitive,
        false => CaseRule::PerFolder,
    }
}

/// Whether lookups in this folder ignore case.
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

    fn matches(wanted: &str, names: &[&str], ignoring: Ignoring) -> Vec<String> {
        let names: Vec<_> = names.iter().map(OsString::from).collect();
        matching(wanted.as_ref(), &names, ignoring)
            .iter()
            .map(|name| name.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn composed_and_decomposed_accents_match() {
        let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
        assert_eq!(matches(composed, &["cafe", decomposed], Ignoring::Form), [decomposed]);
        assert_eq!(matches(decomposed, &["cafe", composed], Ignoring::Form), [composed]);
        assert!(matches(composed, &["CAF\u{c9}", "cafe"], Ignoring::Form).is_empty());
        // Three ways to write one letter: ambiguous.
        assert_eq!(matches("\u{212b}", &["\u{c5}", "A\u{30a}"], Ignoring::Form).len(), 2);
        assert_eq!(matches("한", &["\u{1112}\u{1161}\u{11ab}"], Ignoring::Form).len(), 1);
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
            assert_eq!(matches(wanted, &["other", listed], Ignoring::FormAndCase), [listed]);
        }
        assert!(matches("résumé", &["resume"], Ignoring::FormAndCase).is_empty());
    }

    #[test]
    fn an_exact_match_wins() {
        for ignoring in [Ignoring::Form, Ignoring::FormAndCase] {
            assert!(matches("caf\u{e9}", &["cafe\u{301}", "caf\u{e9}", "CAF\u{c9}"], ignoring).is_empty());
        }
        let bytes = OsStr::from_bytes(b"\xff");
        assert!(matching(bytes, &["a".into()], Ignoring::FormAndCase).is_empty());
        assert!(matching("a".as_ref(), &[bytes.to_owned()], Ignoring::FormAndCase).is_empty());
    }

    #[test]
    fn the_other_case_is_another_name() {
        assert_eq!(other_case("Read-me.1").as_deref(), Some("rEAD-ME.1"));
        assert_eq!(other_case("1-2_é"), None);
    }

    #[test]
    fn no_spelling_evades_the_comparison() {
        for name in [".haft", ".HAFT", ".Haft.", ".haft ", ".haft. .", ".ha\u{200d}ft", "\u{feff}.HaFt\u{ad}"]
        {
            assert!(means(name.as_ref(), ".haft"), "{name:?}");
        }
        for name in ["haft", ".haft-1.tmp", ".hafted", "..haft", ".häft", ". haft", ".ha ft", ""] {
            assert!(!means(name.as_ref(), ".haft"), "{name:?}");
        }
    }

    #[test]
    fn case_rules_are_cached() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("File"), "").unwrap();
        assert_eq!(probe_case(dir.path(), "File".as_ref()), Some(CaseRule::Sensitive));
        assert_eq!(probe_case(dir.path(), "1".as_ref()), None);
        std::fs::write(dir.path().join("fILE"), "").unwrap();
        assert_eq!(probe_case(dir.path(), "File".as_ref()), Some(CaseRule::Sensitive));
        let spelling = Spelling::default();
        assert!(!spelling.is_settled(7, Some(dir.path())));
        spelling.set_rule(7, CaseRule::PerFolder);
        assert!(!spelling.is_settled(7, Some(dir.path())));
        assert_eq!(spelling.of_found(dir.path(), "File".as_ref(), 7), None);
        assert!(spelling.is_settled(7, Some(dir.path())));
        assert!(!spelling.is_settled(7, None));
        spelling.set_rule(8, CaseRule::Insensitive);
        assert_eq!(spelling.of_found(dir.path(), "File".as_ref(), 8), None, "it is listed like that");
        assert!(!spelling.is_settled(8, Some(dir.path())));
    }
}
