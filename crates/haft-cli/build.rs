//! How the command is linked.
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // cargo is told so, and the machine asked

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    // The linker's program takes this to mean that nothing is linked in either, where all of it should be.
    let is_static = std::env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|all| all.contains("crt-static"));
    if is_gnu() && !is_static {
        // A million bytes of addresses would be written anew each time haft starts, and each time it starts a keeper:
        // half of the time that a keeper takes. The stack, the heap and the libraries are where nobody knows all the same.
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    // One library less to be found when haft starts, and on machines that have none.
    if let Some(folder) = unwinder() {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// Whether haft is built for Linux and its usual C library.
fn is_gnu() -> bool {
    let is = |name: &str, wanted: &str| std::env::var(name).is_ok_and(|value| value == wanted);
    is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu")
}

/// Where the C compiler keeps what unwinds the stack, as a library to be linked in.
fn unwinder() -> Option<PathBuf> {
    if !is_gnu() || std::env::var("TARGET").ok()? != std::env::var("HOST").ok()? {
        return None;
    }
    let said = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let file = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
    // A compiler that does not know it says no more than the name.
    file.parent().filter(|folder| folder.is_absolute() && file.exists()).map(Path::to_owned)
}
