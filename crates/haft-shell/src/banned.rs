//! Commands that a dialect may refuse outright, by category.

use super::Understood;

/// What kind of command is banned.
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
    /// Its name, for people.
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

    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Network,
        Self::Browser,
        Self::Privilege,
        Self::Packages,
        Self::System,
        Self::NetworkConfiguration,
    ];
}

/// A banned command that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Banned {
    /// Its name in the list.
    pub word: &'static str,
    /// Its category.
    pub category: Category,
}

/// The banned commands among all that could be run, however they are wrapped.
pub fn banned(understood: &Understood) -> Vec<Banned> {
    let listed = Category::ALL
        .into_iter()
        .flat_map(|category| category.commands().iter().map(move |word| (category, *word)));
    listed
        .filter(|(_, word)| understood.words().contains(*word))
        .map(|(category, word)| Banned { word, category })
        .collect()
}
