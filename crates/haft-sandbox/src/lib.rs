//! The only door to files and processes. Everything above this crate names places by [`AbsPath`], which
//! only the workspace can make, and starts processes only through it. It knows nothing of tools, calls,
//! permissions or JSON.

mod path;

pub use path::AbsPath;
