//! Dialects through the public interface. One binary for all: each has the whole workspace in it and takes long to link.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // files are made without haft's own door

mod asks;
mod own_tools;
mod reading;
mod rules;
mod search;
mod surface;
mod web;
