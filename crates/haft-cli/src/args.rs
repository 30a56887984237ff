//! The command line. Its doc comments are the help texts. Nothing here looks at files or settings.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args as Flags, Parser, Subcommand, ValueEnum};
use haft_core::{Format, Mode};
use haft_dialects as dialects;

/// One engine for a model's tool calls: several dialects, confined, in parallel, in order.
#[derive(Parser)]
#[command(name = "haft", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Flags)]
pub(crate) struct Common {
    /// The dialect that the session speaks [default: claude]
    #[arg(long, global = true, value_name = "NAME", value_parser = dialect_names())]
    pub(crate) dialect: Option<String>,
    /// The folder that the session may touch [default: the current folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Another folder that the session may touch; may be given several times
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Narrow the session to one folder of the workspace
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) focus: Option<String>,
    /// How permissive the session is [default: default]
    #[arg(long, global = true, value_name = "MODE", value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// The session to continue, or to begin under this name [default: for `call`, `undo`, `redo` and `todos` that of this
    /// terminal in this workspace; else a new one]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
#[command(defer = true)] // only the one that was typed is read in full
pub(crate) enum Command {
    /// Show the tools of a dialect
    Tools {
        /// As text, or as definitions for an API
        #[arg(long, value_enum, default_value = "text")]
        format: ToolFormat,
    },
    /// Make one call; its reply goes to stdout
    Call {
        /// The tool's name
        tool: String,
        /// The arguments: a JSON object, `-` to read one from stdin, or `name=value` pairs
        #[arg(value_name = "JSON | - | NAME=VALUE")]
        input: Vec<String>,
    },
    /// Make the calls of a file: JSON Lines, each line a call or a turn of calls
    ///
    /// The replies are JSON Lines, too, in the order of the calls. The exit code is 0 when every line could be
    /// read and answered: that a call failed is told in its reply, as is that a line made no sense.
    Batch {
        /// The file; `-` for stdin
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Serve the session's tools over the Model Context Protocol
    ///
    /// Without --http, to whoever starts haft, over its standard input and output. With it, to any number of clients,
    /// at http://ADDR/mcp, each with a session of its own.
    #[command(args_conflicts_with_subcommands = true)]
    Mcp {
        #[command(flatten)]
        http: HttpFlags,
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Show what was changed, the newest first
    History {
        /// Show what each change did, as a unified diff
        #[arg(long)]
        diff: bool,
        /// How many changes
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
        limit: usize,
        /// These changes only
        #[arg(value_name = "NUMBER")]
        numbers: Vec<Numbers>,
    },
    /// Undo changes: the last one of this terminal's session, or those that are named
    Undo {
        /// The numbers of the changes, such as 7, or 3-5 for several
        #[arg(value_name = "NUMBER", conflicts_with = "last")]
        numbers: Vec<Numbers>,
        /// So many of the last changes
        #[arg(long, value_name = "COUNT")]
        last: Option<std::num::NonZeroUsize>,
        /// Also changes of other sessions, such as those of an MCP client or of another terminal
        #[arg(long)]
        any: bool,
        /// Keep what was changed in the files since, where it is in other lines
        #[arg(long)]
        merge: bool,
        /// Only show what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Redo changes that were undone: the last one undone at this terminal, or those that are named
    Redo {
        /// The numbers of the changes, such as 7, or 3-5 for several
        #[arg(value_name = "NUMBER", conflicts_with = "last")]
        numbers: Vec<Numbers>,
        /// So many of the changes that were taken back last
        #[arg(long, value_name = "COUNT")]
        last: Option<std::num::NonZeroUsize>,
        /// Also changes that other sessions took back
        #[arg(long)]
        any: bool,
        /// Only show what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the rules about calls, change them, or see what they do to a call
    Rules {
        #[command(subcommand)]
        command: Option<RulesCommand>,
    },
    /// Show the settings that this project brings, and follow them in full from then on
    Trust {
        /// Without asking: the settings were read before
        #[arg(long)]
        yes: bool,
    },
    /// Show what was decided about calls, the latest last, and check that nobody has changed it
    ///
    /// With `--session`, only what was decided in that one. The exit code is 1 if something was changed.
    Audit {
        /// How many decisions
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
        limit: usize,
    },
    /// Show the list of tasks of a session
    Todos,
    /// Show how often each tool was called, and how long it took
    Stats,
    /// Show what is in force here: workspace, settings, trust, state
    Doctor,
    /// Print every setting and what it means, as Markdown
    Settings,
    /// Print a script that completes haft's arguments in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How the protocol is served over HTTP.
#[derive(Flags)]
pub(crate) struct HttpFlags {
    /// Serve over HTTP at this address and port, such as 127.0.0.1:8765
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<std::net::SocketAddr>,
    /// A file with the token that clients must know; the variable HAFT_MCP_TOKEN may hold one instead. An address that
    /// others can reach needs one
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// A page in a browser that may be a client, such as http://localhost:5173; may be given several times
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    /// A session ends when nothing was said for so many seconds
    #[arg(long, value_name = "SECONDS", requires = "http", default_value_t = 3600)]
    pub(crate) idle_seconds: u64,
}

/// What can be done with the servers whose tools haft uses.
#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Show the servers whose tools are used, where each comes from, and whether it works
    List,
    /// Log in to a server that wants to know for whom haft works; it is kept, and renewed by itself
    Login {
        /// The server's name
        server: String,
    },
    /// Start a server and show what it offers; the exit code is 1 if it cannot be used
    Test {
        /// The server's name
        server: String,
    },
}

/// What can be done with rules.
#[derive(Subcommand)]
pub(crate) enum RulesCommand {
    /// Show every rule and where it comes from
    List,
    /// Let calls happen without being asked, such as `Bash(git status:*)` or `Edit(src/**)`
    Allow {
        /// The rule
        rule: String,
        #[command(flatten)]
        place: Where,
    },
    /// Have calls asked about, every time
    Ask {
        /// The rule
        rule: String,
        #[command(flatten)]
        place: Where,
    },
    /// Have calls denied
    Deny {
        /// The rule
        rule: String,
        #[command(flatten)]
        place: Where,
    },
    /// Take a rule back
    Remove {
        /// The rule, as it is listed
        rule: String,
        #[command(flatten)]
        place: Where,
    },
    /// Show what would become of a call, and why; the exit code is 0 only if it would happen without a question
    Check {
        /// The tool's name
        tool: String,
        /// The arguments: a JSON object, `-` to read one from stdin, or `name=value` pairs
        #[arg(value_name = "JSON | - | NAME=VALUE")]
        input: Vec<String>,
    },
    /// Show what the rules would do now to the calls of a past session
    Replay {
        /// The session, as `haft audit` tells it
        session: String,
    },
}

/// Where a rule is kept.
#[derive(Clone, Copy, Flags)]
pub(crate) struct Where {
    /// In your own settings, for every project [default: for this project, in haft's state]
    #[arg(long)]
    pub(crate) user: bool,
}

/// The dialects, so that a shell can complete them.
fn dialect_names() -> PossibleValuesParser {
    PossibleValuesParser::new(dialects::all().iter().map(|dialect| dialect.name()))
}

/// A mode, as it is typed.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ModeName {
    /// What is not safe is asked
    Default,
    /// Nothing is changed
    Plan,
    /// Changes of files in the workspace are not asked
    AcceptEdits,
    /// Nothing is asked
    Bypass,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Default => Mode::Default,
            ModeName::Plan => Mode::Plan,
            ModeName::AcceptEdits => Mode::AcceptEdits,
            ModeName::Bypass => Mode::Bypass,
        }
    }
}

/// A form in which tools are shown.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum ToolFormat {
    /// For people
    Text,
    /// Everything haft knows of each tool
    Json,
    /// OpenAI Chat Completions
    Openai,
    /// OpenAI Responses
    OpenaiResponses,
    /// Anthropic Messages
    Anthropic,
    /// The Model Context Protocol
    Mcp,
    /// The reference of every dialect
    Markdown,
}

impl ToolFormat {
    /// The form for an API, if it is one.
    pub(crate) fn api(self) -> Option<Format> {
        match self {
            ToolFormat::Text | ToolFormat::Markdown => None,
            ToolFormat::Json => Some(Format::Haft),
            ToolFormat::Openai => Some(Format::OpenAi),
            ToolFormat::OpenaiResponses => Some(Format::OpenAiResponses),
            ToolFormat::Anthropic => Some(Format::Anthropic),
            ToolFormat::Mcp => Some(Format::Mcp),
        }
    }
}

/// A change's number, or a range of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers(std::ops::RangeInclusive<u64>);

/// Maximum length of a range.
const MAX_NUMBERS: u64 = 100_000;

impl std::str::FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number of a change"));
        let Some((first, last)) = text.split_once("..").or_else(|| text.split_once('-')) else {
            return number(text).map(|number| Self(number..=number));
        };
        match (number(first)?, number(last)?) {
            (first, last) if first > last => Err(format!("`{text}` begins after its end")),
            (first, last) if last - first >= MAX_NUMBERS => Err(format!("`{text}` names too many changes")),
            (first, last) => Ok(Self(first..=last)),
        }
    }
}

impl Numbers {
    /// All numbers of these ranges.
    pub(crate) fn all(numbers: &[Self]) -> Vec<u64> {
        numbers.iter().flat_map(|numbers| numbers.0.clone()).collect()
    }
}
