//! What the engine can do (`ops`) and how four dialects spell it (`dialects`). Operations know no JSON and
//! no dialect; dialects touch no files. What several dialects write the same way is in `text`.

pub mod dialects;
pub mod ops;
mod text;
