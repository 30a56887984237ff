//! Configurations of repositories: which of their settings can make git run programs.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::super::recorder;
use super::place::Place;
use crate::triggers;

/// Largest configuration that is looked at; a larger one is set aside.
const MAX_BYTES: u64 = 1 << 20;

/// Whether a path is that of a repository's configuration.
pub(super) fn is_config(path: &Path) -> bool {
    triggers::in_repository(path)
        .is_some_and(|(_, inside)| ["config", "config.worktree"].iter().any(|name| inside == Path::new(name)))
}

/// Sets a configuration aside if it can make git run programs, and leaves one without these settings in its place. Returns
/// the new name.
pub(super) fn disarm(place: &Place) -> Option<PathBuf> {
    let Some(text) = place.text(MAX_BYTES) else { return place.set_aside() };
    let harmless = harmless(&text);
    if harmless == text {
        return None;
    }
    let aside = place.set_aside();
    if !harmless.is_empty() {
        let _ = place.write_new(&mut harmless.as_bytes(), 0o644);
    }
    aside
}

/// Whether a configuration has no setting that can make git run programs and that it did not have before.
pub(super) fn is_no_more_harmful(place: &Place, before: &Path) -> bool {
    let mut old = String::new();
    let read = recorder::open_kept(before).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut old));
    let (Some(new), Ok(_)) = (place.text(MAX_BYTES), read) else { return false };
    let old: HashSet<(String, &str)> = harmful(&old).collect();
    harmful(&new).all(|setting| old.contains(&setting))
}

fn harmless(text: &str) -> String {
    judged(text).filter_map(|(_, line, is_harmless)| is_harmless.then_some(line)).collect()
}

/// The settings that can make git run programs, each with its section.
fn harmful(text: &str) -> impl Iterator<Item = (String, &str)> {
    judged(text).filter_map(|(section, line, is_harmless)| (!is_harmless).then_some((section, line.trim())))
}

/// The lines of a configuration, each with the header of its section and whether it is in an allow list of settings that
/// cannot make git run programs: the repository's format, its remotes and branches, its user.
fn judged(text: &str) -> impl Iterator<Item = (String, &str, bool)> {
    const CORE: [&str; 8] = [
        "repositoryformatversion",
        "filemode",
        "bare",
        "logallrefupdates",
        "symlinks",
        "ignorecase",
        "precomposeunicode",
        "autocrlf",
    ];
    let (mut header, mut section) = (String::new(), String::new());
    let mut is_continued = false;
    let mut is_harmless = move |line: &str| {
        let was_continued = std::mem::replace(&mut is_continued, line.ends_with('\\'));
        let line = line.trim();
        if was_continued || is_continued {
            return (header.clone(), false);
        }
        if let Some(start) = line.strip_prefix('[') {
            // A key may follow its section on the same line.
            let Some((name, "")) = start.split_once(']') else { return (line.to_owned(), false) };
            section = name.split([' ', '"']).next().unwrap_or_default().to_lowercase();
            header = line.to_owned();
            return (header.clone(), true);
        }
        let key = line.split('=').next().unwrap_or_default().trim().to_lowercase();
        let is_harmless = line.is_empty()
            || line.starts_with(['#', ';'])
            || match &*section {
                "core" => CORE.contains(&&*key),
                "remote" => ["url", "fetch", "pushurl"].contains(&&*key),
                "branch" => ["remote", "merge", "rebase"].contains(&&*key),
                "user" => ["name", "email"].contains(&&*key),
                "extensions" => ["objectformat", "refstorage", "worktreeconfig"].contains(&&*key),
                "submodule" => ["url", "active"].contains(&&*key),
                "gc" | "maintenance" => key == "auto",
                "pull" => key == "rebase",
                "push" => ["default", "autosetupremote"].contains(&&*key),
                _ => false,
            };
        (header.clone(), is_harmless)
    };
    text.split_inclusive('\n').map(move |line| {
        let (header, is_harmless) = is_harmless(line.trim_end_matches(['\n', '\r']));
        (header, line, is_harmless)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_keeps_only_settings_that_run_nothing() {
        let fresh = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
            [remote \"origin\"]\n\turl = ../main\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
            [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = n\n";
        assert_eq!(harmless(fresh), fresh);
        assert_eq!(harmful(fresh).count(), 0);
        for planted in [
            "[core]\n\tfsmonitor = evil\n",
            "[core]\n\thooksPath = .evil\n",
            "[core] pager = evil\n",
            "[CORE]\n\tSSHCommand=evil\n",
            "[alias]\n\tst = !evil\n",
            "[include]\n\tpath = ../evil\n",
            "[includeIf \"gitdir:/\"]\n\tpath = ../evil\n",
            "[filter \"x\"]\n\tclean = evil\n",
            "[remote \"origin\"]\n\tuploadpack = evil\n",
            "[remote \"origin\"]\n\tvcs = ext\n",
            "[user]\n\tname = a\\\n\tb\n[core]\n\tfsmonitor = evil\n",
            "[credential]\n\thelper = !evil\n",
            "[diff]\n\texternal = evil\n",
        ] {
            let kept = harmless(&format!("{fresh}{planted}"));
            assert!(kept.starts_with(fresh) && !kept.contains("evil") && !kept.contains("ext"), "{kept}");
            assert_ne!(harmful(&format!("{fresh}{planted}")).count(), 0, "{planted}");
        }
    }

    #[test]
    fn the_same_line_in_another_section_is_another_setting() {
        let of = |text| harmful(text).collect::<HashSet<_>>();
        let before = of("[lfs]\n\tpath = x\n");
        assert!(!of("[include]\n\tpath = x\n").is_subset(&before));
        assert!(of("[user]\n\tname = n\n[lfs]\n\tpath = x\n").is_subset(&before));
    }
}
