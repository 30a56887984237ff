//! Commands that a dialect may refuse outright, by category.

use std::collections::BTreeSet;

use super::{Command, Cwd, Doubt, ParsedCommand, Word, code, scan, wrap};

/// A category of commands that a dialect may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// Talks to other machines.
    Network,
    /// Opens a browser.
    Browser,
    /// Becomes another user.
    Privilege,
    /// Installs software.
    Packages,
    /// Changes services, mounts and disks.
    System,
    /// Changes how the network works.
    NetworkConfiguration,
}

impl Category {
    /// Name of the category, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Browser => "browsers",
            Self::Privilege => "privilege",
            Self::Packages => "package management",
            Self::System => "system",
            Self::NetworkConfiguration => "network configuration",
        }
    }

    /// The commands of this category.
    pub fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Network => &["curl", "wget", "ssh", "scp", "nc", "telnet"],
            Self::Browser => &["chrome", "firefox", "safari"],
            Self::Privilege => &["sudo", "su", "doas"],
            Self::Packages => &["apt", "apt-get", "yum", "dnf", "pacman", "brew"],
            Self::System => &["systemctl", "service", "mount", "umount", "fdisk", "mkfs"],
            Self::NetworkConfiguration => &["iptables", "ufw", "firewall-cmd", "ifconfig", "ip"],
        }
    }

    /// Every category.
    pub const ALL: [Self; 6] = [
        Self::Network,
        Self::Browser,
        Self::Privilege,
        Self::Packages,
        Self::System,
        Self::NetworkConfiguration,
    ];
}

/// A banned command in a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Banned {
    /// The program, as listed in [`Category::commands`].
    pub word: &'static str,
    /// The category that lists it.
    pub category: Category,
}

/// The banned commands that a command line may run, through any wrapper, variable or code.
pub fn banned(understood: &ParsedCommand) -> Vec<Banned> {
    let mut names = understood.nearby.clone();
    for command in understood.commands() {
        names_of_command(command, &mut names);
    }
    understood.scanned().iter().for_each(|token| scan::names_of(token, &mut names));
    let listed = Category::ALL
        .into_iter()
        .flat_map(|category| category.commands().iter().map(move |word| (category, *word)));
    listed
        .filter(|(_, word)| names.contains(*word))
        .map(|(category, word)| Banned { word, category })
        .collect()
}

/// The part of a command that runs something which is not in its text, so that it may be a banned command.
pub fn unread(understood: &ParsedCommand) -> Option<&Doubt> {
    understood.doubts().iter().find(|doubt| matches!(doubt, Doubt::Unread(_)))
}

/// The word of a command that names its program and is not certain: a glob, or another command's output. It may be a
/// banned command. The values of variables are followed elsewhere.
pub fn uncertain_program(understood: &ParsedCommand) -> Option<&Word> {
    let is_uncertain = |word: &&Word| {
        matches!(word.doubt(), Some(Doubt::Substitution | Doubt::Glob | Doubt::Brace | Doubt::Arithmetic))
    };
    understood.commands().iter().filter_map(|command| command.argv.first()).find(is_uncertain)
}

fn names_of_command(command: &Command, names: &mut BTreeSet<String>) {
    let Some(first) = command.argv.first() else { return };
    if !is_own_program(command, first) {
        scan::names_of(first.text(), names);
    }
    if !first.is_literal() {
        scan::tokens(first.raw()).for_each(|token| scan::names_of(&token, names));
    }
    // Words in code are commands only if the code can start programs.
    if wrap::takes_code(command) && code::may_start_programs(command).is_some() {
        code::texts(command).into_iter().flat_map(code::words).for_each(|word| scan::names_of(word, names));
    }
}

/// Whether a program is a file of the project, such as `./service`, and not one of the system.
fn is_own_program(command: &Command, program: &Word) -> bool {
    let is_below = |path: &str| !path.starts_with('/') && path.split('/').all(|name| name != "..");
    let in_project = match &command.cwd {
        Cwd::Start => true,
        Cwd::At(path) => is_below(path),
        Cwd::Unknown => false,
    };
    program.is_literal() && program.text().contains('/') && is_below(program.text()) && in_project
}
