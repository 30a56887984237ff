//! How the command is linked.
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // cargo is told so, and the machine asked

use std::process::Command;

fn main() {
    // A third of the time that haft takes to start went into a million bytes of relocations: packed, they are a hundredth
    // of that. A C library that does not know them would not start haft at all.
    if libc_version().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// The version of this machine's glibc, if haft is built for it.
fn libc_version() -> Option<(u32, u32)> {
    let is_native = std::env::var("TARGET").ok()? == std::env::var("HOST").ok()?;
    if !is_native || std::env::var("CARGO_CFG_TARGET_ENV").ok()? != "gnu" {
        return None;
    }
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
