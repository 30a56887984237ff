//! Commands that a dialect may refuse outright, by category.

use super::ParsedCommand;

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

/// The banned commands among all words that could be run, through any wrapper.
pub fn banned(understood: &ParsedCommand) -> Vec<Banned> {
    let listed = Category::ALL
        .into_iter()
        .flat_map(|category| category.commands().iter().map(move |word| (category, *word)));
    listed
        .filter(|(_, word)| understood.words().contains(*word))
        .map(|(category, word)| Banned { word, category })
        .collect()
}
