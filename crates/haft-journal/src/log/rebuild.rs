//! Rebuilding content from the log: from a full copy, or along a chain of deltas from one.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::fs::FileExt as _;

use haft_sandbox::Hash;

use super::super::archive::HashedContent;
use super::super::record;
use super::{LONGEST_CHAIN, Log, segment_name};

impl Log {
    /// Content of an entry of a segment, from its own storage or any other; `None` if it is gone.
    pub(crate) fn content(
        &self,
        segment: u32,
        storage: &record::Storage,
        hash: &Hash,
    ) -> io::Result<Option<Vec<u8>>> {
        match self.read_full(segment, storage, hash)? {
            Some(content) => Ok(Some(content)),
            None => self.rebuild(hash, None),
        }
    }

    /// Content that is stored in full, if its hash is right.
    fn read_full(&self, segment: u32, storage: &record::Storage, hash: &Hash) -> io::Result<Option<Vec<u8>>> {
        let content = match storage {
            record::Storage::Inline { at, length } => self.read_bytes(segment, *at, *length)?,
            record::Storage::Blob => self.blobs.read(&hash.to_string())?,
            record::Storage::Delta { .. } | record::Storage::Elsewhere(_) | record::Storage::None => None,
        };
        Ok(content.filter(|content| Hash::of(content) == *hash))
    }

    /// How entries store a content, the newest first.
    fn storages<'a>(&'a self, hash: &Hash) -> Vec<(u32, &'a record::Storage)> {
        let mut storages = Vec::new();
        let numbers = self.users.get(hash).into_iter().flatten().rev();
        for entry in numbers.filter_map(|number| self.entries.get(number)) {
            entry.intent.for_each_file(&mut |other, storage, _| {
                if other == hash {
                    storages.push((entry.segment, storage));
                }
            });
        }
        storages
    }

    /// Content of that hash, along the shortest chain of deltas from content that is stored in full, or from `start`. A
    /// breadth-first search from the wanted content backwards; then the deltas are applied forwards.
    pub(crate) fn rebuild(&self, hash: &Hash, start: Option<&HashedContent>) -> io::Result<Option<Vec<u8>>> {
        let mut delta_from: HashMap<Hash, (Hash, u32, &[record::Part])> = HashMap::new();
        let mut queue = VecDeque::from([(*hash, 0)]);
        while let Some((next, chain)) = queue.pop_front() {
            let storages = self.storages(&next);
            let mut found = start.filter(|(other, _)| *other == next).map(|(_, content)| content.clone());
            for (segment, storage) in &storages {
                if found.is_none() {
                    found = self.read_full(*segment, storage, &next)?;
                }
            }
            if let Some(mut content) = found {
                let mut at = next;
                while at != *hash {
                    let Some((to, segment, parts)) = delta_from.get(&at) else { return Ok(None) };
                    let Some(patched) = self.apply_delta(*segment, &content, parts)? else { return Ok(None) };
                    (content, at) = (patched, *to);
                }
                return Ok((Hash::of(&content) == *hash).then_some(content));
            }
            for (segment, storage) in storages {
                let record::Storage::Delta { of, parts } = storage else { continue };
                if chain < LONGEST_CHAIN && of.0 != *hash && !delta_from.contains_key(&of.0) {
                    delta_from.insert(of.0, (next, segment, parts));
                    queue.push_back((of.0, chain + 1));
                }
            }
        }
        Ok(None)
    }

    /// The new bytes of a part of a delta.
    pub(crate) fn part(&self, segment: u32, part: &record::Part) -> io::Result<Option<Vec<u8>>> {
        self.read_bytes(segment, part.from, part.length)
    }

    /// Applies a delta to content; `None` if it does not fit.
    fn apply_delta(&self, segment: u32, base: &[u8], parts: &[record::Part]) -> io::Result<Option<Vec<u8>>> {
        let mut content = Vec::with_capacity(base.len());
        let mut at = 0;
        for part in parts {
            let Some(new) = self.part(segment, part)? else { return Ok(None) };
            let Some(unchanged) = base.get(at..part.at as usize) else { return Ok(None) };
            content.extend_from_slice(unchanged);
            content.extend_from_slice(&new);
            at = (part.at + part.removed) as usize;
        }
        let Some(rest) = base.get(at..) else { return Ok(None) };
        content.extend_from_slice(rest);
        Ok(Some(content))
    }

    /// Bytes of a segment.
    fn read_bytes(&self, segment: u32, at: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match &self.active {
            Some(active) if active.id == segment => active.file.try_clone()?,
            _ if self.store.has(&segment_name(segment))? => self.store.open_log(&segment_name(segment))?,
            _ => return Ok(None),
        };
        let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut content, at)?;
        Ok(Some(content))
    }
}
