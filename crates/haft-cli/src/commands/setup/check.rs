//! Checks of the entries that clients have: the program exists, starts, and has this version; no client has two.

use haft_host::setup::{self, Found, Places};

/// The version of this program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The result of checking one entry.
pub(in crate::commands) struct Checked {
    pub(in crate::commands) found: Found,
    pub(in crate::commands) problem: Option<String>,
}

/// An entry, or several of one client, and what is wrong with them.
pub(in crate::commands) enum Remark {
    /// The entry works.
    Works(String),
    /// Something to know.
    Note(String),
    /// The entry does not work.
    Broken(String),
}

/// Checks all entries. Each program is started once.
pub(super) fn check(found: Vec<Found>) -> anyhow::Result<Vec<Checked>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let mut checked: Vec<Checked> = Vec::new();
        for found in found {
            let is_same = |other: &&Checked| match (&other.found.command, &found.command) {
                (Ok(one), Ok(other_command)) => {
                    other.found.level == found.level && one.first() == other_command.first()
                }
                _ => false,
            };
            let problem = match checked.iter().find(is_same) {
                Some(same) => same.problem.clone(),
                None => match found.version(VERSION).await {
                    Ok(version) if version == VERSION => None,
                    Ok(version) => Some(format!("starts haft {version}, and this is haft {VERSION}")),
                    Err(problem) => Some(problem),
                },
            };
            checked.push(Checked { found, problem });
        }
        checked
    }))
}

/// What `haft doctor` says of the clients.
pub(in crate::commands) fn check_clients(root: &std::path::Path) -> anyhow::Result<Vec<Remark>> {
    let found = setup::find(&Places::of(root)?);
    let duplicates = setup::duplicates(&found);
    let mut remarks: Vec<Remark> = check(found)?
        .into_iter()
        .map(|Checked { found, problem }| {
            let place = format!("{}: {}", found.client.title, found.path.display());
            let project = if found.level == setup::Level::Project { " --project" } else { "" };
            let again = format!("`haft setup {}{project}` writes the entry anew", found.client.name);
            match problem {
                None => Remark::Works(place),
                Some(problem) if found.command.is_err() => {
                    Remark::Note(format!("{place} cannot be read: {problem}"))
                }
                // Others may have another haft, or none, under that name.
                Some(problem) if found.level == setup::Level::Project => {
                    Remark::Note(format!("{place}: {problem}; {again}"))
                }
                Some(problem) => Remark::Broken(format!("{place}: {problem}; {again}")),
            }
        })
        .collect();
    remarks.extend(duplicates.into_iter().map(|duplicate| {
        let files: Vec<String> = duplicate.files.iter().map(|file| file.display().to_string()).collect();
        Remark::Note(format!(
            "{} has several entries, of which it uses one: {}; `haft setup {} --remove` takes one away, \
             with --project the project's",
            duplicate.client.title,
            files.join(", "),
            duplicate.client.name
        ))
    }));
    Ok(remarks)
}
