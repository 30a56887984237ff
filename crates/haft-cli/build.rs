//! How the command is linked.
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // cargo is told so, and the machine asked

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    // A third of the time that haft takes to start went into a million bytes of relocations: packed, they are a hundredth
    // of that. A C library that does not know them would not start haft at all.
    if libc_version().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    // One library less to be found when haft starts, and on machines that have none.
    if let Some(folder) = unwinder() {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// Where the C compiler keeps what unwinds the stack, as a library to be linked in.
fn unwinder() -> Option<PathBuf> {
    if !is_for_this_machine()? {
        return None;
    }
    let said = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let file = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
    // A compiler that does not know it says no more than the name.
    file.parent().filter(|folder| folder.is_absolute() && file.exists()).map(Path::to_owned)
}

/// Whether haft is built for this machine, and its C library is glibc.
fn is_for_this_machine() -> Option<bool> {
    let is_native = std::env::var("TARGET").ok()? == std::env::var("HOST").ok()?;
    Some(is_native && std::env::var("CARGO_CFG_TARGET_ENV").ok()? == "gnu")
}

/// The version of this machine's glibc, if haft is built for it.
fn libc_version() -> Option<(u32, u32)> {
    if !is_for_this_machine()? {
        return None;
    }
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
