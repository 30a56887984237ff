//! What the engine can do, in its own words.

mod list;
mod place;
mod read;

pub use list::{Depth, Hidden, List, Listed, Listing, Order, ignore_set};
pub use place::{existing, existing_all, existing_folder};
pub use read::{
    Body, Caps, Encoding, FileRead, Lines, Paged, Pages, Part, Piece, Read, Reading, Sheet, TokenBudget, only,
};
