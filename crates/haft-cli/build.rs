//! How the command is linked.
#![allow(clippy::print_stdout)] // this is how cargo is told

fn main() {
    // A third of the time that haft takes to start went into a million bytes of relocations: packed, they are a hundredth
    // of that. Needs glibc 2.36, which linkers that know the option look after.
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
