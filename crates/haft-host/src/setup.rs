//! Writes the entry of haft's MCP server into the configuration of clients, and takes it back.
//!
//! [`CLIENTS`] is the one list of clients: the files of each, their form, and what can be switched off there. [`plan`] and
//! [`plan_removal`] compute what would be written, with nothing changed yet; [`Plan::carry_out`] writes it. [`find`]
//! tells what is set up. An edit inserts text and leaves every other byte of a file as it is.

mod client;
mod clients;
mod document;
mod edit;
mod find;
mod json;
mod places;
mod plan;
mod record;
mod removal;
#[cfg(test)]
mod tests;
mod toml;
mod yaml;

pub use client::{Client, Extra, Files, Folder, Layout, Level, Switch};
pub use clients::{CLIENTS, by_name};
pub use document::Form;
pub use find::{Duplicate, Found, Installed, duplicates, find};
pub use places::{Place, Places};
pub use plan::{BuiltinTools, FileChange, Plan, Request, earlier_args, plan};
pub use removal::plan_removal;

/// The name of haft's entry in every client.
pub const ENTRY: &str = "haft";
