//! All access to files, processes and the network. The crates above name files by [`AbsPath`], which only the workspace can
//! make, and start processes only through this crate. It knows nothing of tools, calls, permissions or JSON.

mod change;
#[cfg(feature = "egress")]
pub mod egress;
mod error;
mod id;
pub mod names;
mod offload;
mod path;
pub mod process;
mod removal;
pub mod sandbox;
pub mod secrets;
mod stat;
mod store;
pub mod terminal;
pub mod triggers;
pub mod user;
mod workspace;

pub use change::{
    Attributes, ChangeError, ChangeErrorKind, Changed, Durability, Expect, Hash, Hasher, Like, OneFlush,
    State, TempName, TreeEntry, start_writing,
};
pub use error::{Obstacle, PathError, PathErrorKind};
pub use id::random_id;
pub use path::AbsPath;
pub use process::{Exit, Finished, Partner, Pipes, Run, Start, run};
pub use stat::{Entry, Kind, Name, Stamp, Stat};
pub use store::{OpenStoreFile, ReusableLock, Store, StoreEntry, StoreLock};
pub use workspace::{Draft, Folder, FolderAccess, OpenFile, OpenFolder, ResolvedPath, Workspace};
