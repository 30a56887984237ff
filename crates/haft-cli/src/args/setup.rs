//! What can be typed after `haft setup`.

use clap::Args as Flags;
use clap::builder::PossibleValuesParser;
use haft_host::setup::CLIENTS;

/// Which clients are set up, and how.
#[derive(Flags)]
pub(crate) struct SetupFlags {
    /// The clients; without one, shows which are installed and set up
    #[arg(value_name = "CLIENT", value_parser = client_names())]
    pub(crate) clients: Vec<String>,
    /// Every client that is installed
    #[arg(long, conflicts_with = "clients")]
    pub(crate) all: bool,
    /// In this project's settings [default: in your own, for every project]
    #[arg(long)]
    pub(crate) project: bool,
    /// Switch the client's own tools for files and commands off, where that is possible
    #[arg(long, conflicts_with = "remove")]
    pub(crate) no_builtin_tools: bool,
    /// Switch the client's own tools on again, if an earlier setup switched them off
    #[arg(long, conflicts_with_all = ["remove", "no_builtin_tools"])]
    pub(crate) builtin_tools: bool,
    /// Take back what setup wrote
    #[arg(long)]
    pub(crate) remove: bool,
    /// Only show what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print what setup knows of each client, as Markdown
    #[arg(long, hide = true, exclusive = true)]
    pub(crate) markdown: bool,
}

fn client_names() -> PossibleValuesParser {
    PossibleValuesParser::new(CLIENTS.iter().map(|client| client.name))
}
