//! Keeping content: small content in the record itself, larger content in a file of its own, each once.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};

use haft_sandbox::{
    AbsPath, ChangeError, ChangeErrorKind, Durability, Hash, State, Store, TreeEntry, Workspace,
};

use super::Result;
use super::content::{Content, Splice};
use super::log::Log;
use super::record::{Digest, Kept, Part, Shape, Text};

/// Content up to this size lies in the record.
const SMALL: usize = 256 << 10;

/// New content up to this size is kept too, to be shown later; larger content is only kept when it is
/// replaced in turn.
pub(super) const KEPT_AFTER: u64 = SMALL as u64;

/// So many contents are told one by the other before one is kept whole again.
const MAX_CHAIN: u32 = 16;
/// In so many parts.
const MAX_PARTS: usize = 64;
/// A content that cannot be kept whole may be told in more.
const MAX_PARTS_BOTH: usize = 10_000;

/// As much content lies in one record.
const MOST: usize = 4 << 20;

/// Keeps the content that one record names.
pub(super) struct Keeper<'a> {
    pub(super) log: &'a mut Log,
    pub(super) kept: Vec<u8>,
    /// Large content, still to be written to files of its own.
    pub(super) blobs: HashMap<Hash, Vec<u8>>,
    /// Large content that other content is told by, and that must be as surely on disk.
    pub(super) relied: HashSet<Hash>,
    pub(super) notes: Vec<String>,
    here: HashMap<Hash, Kept>,
    /// What may still be kept for this record.
    budget: u64,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(log: &'a mut Log) -> Self {
        let budget = (log.limits.bytes / 4).max(log.limits.file);
        Self {
            log,
            kept: Vec::new(),
            blobs: HashMap::new(),
            relied: HashSet::new(),
            notes: Vec::new(),
            here: HashMap::new(),
            budget,
        }
    }

    /// How large a content may be to be kept whole.
    pub(super) fn most(&self) -> u64 {
        self.log.limits.file.min(self.budget)
    }

    /// Keeps content and tells where.
    pub(super) fn keep(&mut self, content: &[u8], hash: &Hash) -> Result<Kept> {
        if let Some(kept) = self.known(hash) {
            return Ok(kept);
        }
        let size = content.len() as u64;
        if size > self.most() {
            return Ok(Kept::No);
        }
        self.budget -= size;
        if content.len() > SMALL || self.kept.len() + content.len() > MOST {
            self.blobs.insert(*hash, content.to_vec());
            return Ok(Kept::Blob);
        }
        let kept = Kept::Here { at: self.add(content), length: size };
        self.here.insert(*hash, kept.clone());
        Ok(kept)
    }

    /// Keeps content that replaces other content as what differs, where the other is kept in the same
    /// segment and little differs.
    pub(super) fn keep_spliced(&mut self, content: &Content, hash: &Hash, replaced: &Hash) -> Option<Kept> {
        if let Some(kept) = self.known(hash) {
            return Some(kept);
        }
        let splices = content.splices();
        let new: usize = splices.iter().map(|splice| splice.new.len()).sum();
        let is_here = self.here.contains_key(replaced) || self.blobs.contains_key(replaced);
        let chained = self.log.chain(replaced).or(is_here.then_some(0));
        let fits = !splices.is_empty() && splices.len() <= MAX_PARTS && new as u64 <= content.len() / 4;
        if !fits || chained.is_none_or(|chained| chained >= MAX_CHAIN) || self.kept.len() + new > MOST {
            return None;
        }
        Some(self.forward(splices, replaced))
    }

    /// Keeps content and what it replaces each as what differs from the other: all that is needed while one
    /// of them is in place, however large they are. Nothing where too much differs.
    pub(super) fn keep_both(
        &mut self,
        content: &Content,
        hash: &Hash,
        replaced: &Hash,
    ) -> Option<(Kept, Kept)> {
        let splices = content.splices();
        let bytes: usize = splices.iter().map(|splice| splice.gone.len() + splice.new.len()).sum();
        let fits = !splices.is_empty() && splices.len() <= MAX_PARTS_BOTH;
        if !fits || self.kept.len() + bytes > MOST {
            return None;
        }
        let mut parts = Vec::with_capacity(splices.len());
        // Where a splice is in the new content: as far on as those before it made that longer.
        let (mut gone, mut new) = (0, 0);
        for splice in splices {
            let from = self.add(&splice.gone);
            let (length, replaced) = (splice.gone.len() as u64, splice.new.len() as u64);
            parts.push(Part { at: splice.at + new - gone, gone: replaced, from, length });
            (gone, new) = (gone + length, new + replaced);
        }
        let before = Kept::Spliced { of: Digest(*hash), parts };
        Some((before, self.forward(splices, replaced)))
    }

    fn forward(&mut self, splices: &[Splice], replaced: &Hash) -> Kept {
        let mut parts = Vec::with_capacity(splices.len());
        for Splice { at, gone, new } in splices {
            let (gone, length) = (gone.len() as u64, new.len() as u64);
            parts.push(Part { at: *at, gone, from: self.add(new), length });
        }
        Kept::Spliced { of: Digest(*replaced), parts }
    }

    /// Keeps parts of another record again, for this one to outlast it; nothing if they are gone.
    pub(super) fn keep_parts(&mut self, segment: u32, of: Digest, parts: &[Part]) -> Result<Option<Kept>> {
        let mut again = Vec::with_capacity(parts.len());
        for part in parts {
            let Some(bytes) = self.log.part(segment, part)? else { return Ok(None) };
            again.push(Part { from: self.add(&bytes), ..*part });
        }
        Ok(Some(Kept::Spliced { of, parts: again }))
    }

    /// Where content is kept in this segment.
    fn known(&mut self, hash: &Hash) -> Option<Kept> {
        match self.log.here(hash) {
            Some((kept, None)) => return Some(kept),
            Some((kept, Some(blob))) if self.log.has_blob(&blob) => {
                self.relied.insert(blob);
                return Some(kept);
            }
            _ => {}
        }
        self.here.get(hash).cloned()
    }

    /// Adds bytes to the record, and tells where they will lie.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        let at = self.log.content_begins() + self.kept.len() as u64;
        self.kept.extend(bytes);
        at
    }

    /// The shape of what was found at a place, with its content kept.
    pub(super) fn keep_found(
        &mut self,
        workspace: &Workspace,
        place: &AbsPath,
        found: &State,
    ) -> Result<Shape> {
        let mut shape = Shape::of(found);
        if let Shape::File { hash, size, kept, .. } = &mut shape {
            *kept = self.keep_file(workspace, place, *hash, *size)?;
        }
        Ok(shape)
    }

    /// The same for a file whose content is at hand.
    pub(super) fn keep_known(&mut self, found: &State, hash: &Hash, content: &[u8]) -> Result<Shape> {
        let mut shape = Shape::of(found);
        if let Shape::File { kept, .. } = &mut shape {
            *kept = self.keep(content, hash)?;
        }
        Ok(shape)
    }

    fn not_kept(&mut self, workspace: &Workspace, place: &AbsPath, size: u64) {
        let shown = workspace.display(place);
        self.notes.push(format!(
            "`{shown}` ({size} bytes) is too large for the journal to keep: undo cannot bring its old content back"
        ));
    }

    fn keep_file(
        &mut self,
        workspace: &Workspace,
        place: &AbsPath,
        hash: Option<Digest>,
        size: u64,
    ) -> Result<Kept> {
        let kept = match hash {
            Some(Digest(hash)) if size <= self.most() => match self.known(&hash) {
                Some(kept) => kept,
                None => self.keep(&read(workspace, place, &hash, size)?, &hash)?,
            },
            _ => Kept::No,
        };
        if kept == Kept::No {
            self.not_kept(workspace, place, size);
        }
        Ok(kept)
    }

    /// The shape of a whole tree, with its content kept.
    pub(super) fn keep_tree(
        &mut self,
        workspace: &Workspace,
        root: &AbsPath,
        tree: &[TreeEntry],
    ) -> Result<Shape> {
        let mut entries = Vec::with_capacity(tree.len());
        for entry in tree {
            let place = AbsPath::lexical(&root.as_path().join(&entry.below));
            if let State::Special(kind) = &entry.state {
                let kind = ChangeErrorKind::Unkeepable(*kind);
                return Err(ChangeError::new(workspace.display(&place), kind).into());
            }
            let shape = self.keep_found(workspace, &place, &entry.state)?;
            entries.push((Text::of(&entry.below), shape));
        }
        Ok(Shape::Tree(entries))
    }
}

/// Writes large content to a file of its own. A name that is there may hold what was written without
/// waiting for the disk, or only a part.
pub(super) fn write_blob(
    blobs: &Store,
    hash: &Hash,
    content: &[u8],
    durability: Durability,
) -> io::Result<()> {
    let name = hash.to_string();
    let is_there = blobs.read(&name)?.is_some_and(|found| Hash::of(&found) == *hash);
    match (durability, is_there) {
        (Durability::Full, true) => blobs.sync(&name),
        (Durability::Full, false) => blobs.write(&name, content),
        (Durability::Fast, true) => Ok(()),
        (Durability::Fast, false) => blobs.write_fast(&name, content),
    }
}

/// Reads a file that must still have this content.
pub(super) fn read(workspace: &Workspace, place: &AbsPath, hash: &Hash, size: u64) -> Result<Vec<u8>> {
    let open = workspace.open_file(place).map_err(ChangeError::from)?;
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let failed = |error: std::io::Error| ChangeError::new(workspace.display(place), error);
    open.file.take(size.saturating_add(1)).read_to_end(&mut content).map_err(failed)?;
    if Hash::of(&content) != *hash {
        let kind = ChangeErrorKind::Conflict("content that is just being changed".to_owned());
        return Err(ChangeError::new(workspace.display(place), kind).into());
    }
    Ok(content)
}

/// Larger files are not shown or merged, only brought back.
pub(super) const SHOWN: u64 = 256 << 20;

/// Content that is at hand, and its hash.
pub(super) type AtHand = (Hash, Vec<u8>);

/// What a place holds now; nothing if that is no file, or too large to be shown.
pub(super) fn in_place(workspace: &Workspace, place: &AbsPath) -> Option<AtHand> {
    let open = workspace.open_file(place).ok().filter(|open| open.stat.size <= SHOWN)?;
    let mut content = Vec::with_capacity(usize::try_from(open.stat.size).ok()?);
    open.file.take(SHOWN).read_to_end(&mut content).ok()?;
    Some((Hash::of(&content), content))
}
