//! The only door to files and processes. Everything above this crate names places by [`AbsPath`], which
//! only the workspace can make, and starts processes only through it. It knows nothing of tools, calls,
//! permissions or JSON.

pub mod cage;
mod change;
mod error;
pub mod names;
mod offload;
mod path;
pub mod process;
mod stat;
mod store;
pub mod terminal;
pub mod user;
mod workspace;

pub use change::{
    Attributes, ChangeError, ChangeErrorKind, Changed, Durability, Expect, Hash, Hasher, Like, OneFlush,
    State, TempName, TreeEntry, start_writing,
};
pub use error::{Obstacle, PathError, PathErrorKind};
pub use path::AbsPath;
pub use process::{Exit, Finished, Partner, Pipes, Run, Start, run};
pub use stat::{Entry, Kind, Name, Stamp, Stat};
pub use store::{KeptOpen, Latch, Store, StoreEntry, StoreLock};
pub use workspace::{Access, Draft, Folder, OpenFile, OpenFolder, Place, Workspace};
