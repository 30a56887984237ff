//! Finding content again: where it is kept as a whole, or by way of other content and what differs from it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::fs::FileExt as _;

use haft_sandbox::Hash;

use super::super::keep::AtHand;
use super::super::record;
use super::{LONGEST_CHAIN, Log, name};

impl Log {
    /// Content that is kept for an entry of a segment, in its own way or by any other; nothing if it is gone.
    pub(crate) fn content(
        &self,
        segment: u32,
        kept: &record::Kept,
        hash: &Hash,
    ) -> io::Result<Option<Vec<u8>>> {
        match self.whole(segment, kept, hash)? {
            Some(content) => Ok(Some(content)),
            None => self.rebuilt(hash, None),
        }
    }

    /// Content that is kept as a whole.
    fn whole(&self, segment: u32, kept: &record::Kept, hash: &Hash) -> io::Result<Option<Vec<u8>>> {
        let content = match kept {
            record::Kept::Here { at, length } => self.raw(segment, *at, *length)?,
            record::Kept::Blob => self.blobs.read(&hash.to_string())?,
            record::Kept::Spliced { .. } | record::Kept::At(_) | record::Kept::No => None,
        };
        Ok(content.filter(|content| Hash::of(content) == *hash))
    }

    /// How entries keep content, the newest first.
    fn ways<'a>(&'a self, hash: &Hash) -> Vec<(u32, &'a record::Kept)> {
        let mut ways = Vec::new();
        let numbers = self.naming.get(hash).into_iter().flatten().rev();
        for known in numbers.filter_map(|number| self.known.get(number)) {
            known.intent.for_each_file(&mut |other, kept, _| {
                if other == hash {
                    ways.push((known.segment, kept));
                }
            });
        }
        ways
    }

    /// Content of that hash, by the shortest way that leads there from content that is kept as a whole or
    /// is at hand.
    pub(crate) fn rebuilt(&self, hash: &Hash, at_hand: Option<&AtHand>) -> io::Result<Option<Vec<u8>>> {
        let mut leads_to: HashMap<Hash, (Hash, u32, &[record::Part])> = HashMap::new();
        let mut queue = VecDeque::from([(*hash, 0)]);
        while let Some((next, chain)) = queue.pop_front() {
            let ways = self.ways(&next);
            let mut found = at_hand.filter(|(other, _)| *other == next).map(|(_, content)| content.clone());
            for (segment, kept) in &ways {
                if found.is_none() {
                    found = self.whole(*segment, kept, &next)?;
                }
            }
            if let Some(mut content) = found {
                let mut at = next;
                while at != *hash {
                    let Some((to, segment, parts)) = leads_to.get(&at) else { return Ok(None) };
                    let Some(then) = self.with_parts(*segment, &content, parts)? else { return Ok(None) };
                    (content, at) = (then, *to);
                }
                return Ok((Hash::of(&content) == *hash).then_some(content));
            }
            for (segment, kept) in ways {
                let record::Kept::Spliced { of, parts } = kept else { continue };
                if chain < LONGEST_CHAIN && of.0 != *hash && !leads_to.contains_key(&of.0) {
                    leads_to.insert(of.0, (next, segment, parts));
                    queue.push_back((of.0, chain + 1));
                }
            }
        }
        Ok(None)
    }

    /// The bytes of a part.
    pub(crate) fn part(&self, segment: u32, part: &record::Part) -> io::Result<Option<Vec<u8>>> {
        self.raw(segment, part.from, part.length)
    }

    /// Content with some parts replaced; nothing where a part is none of it.
    fn with_parts(&self, segment: u32, base: &[u8], parts: &[record::Part]) -> io::Result<Option<Vec<u8>>> {
        let mut content = Vec::with_capacity(base.len());
        let mut at = 0;
        for part in parts {
            let Some(new) = self.part(segment, part)? else { return Ok(None) };
            let Some(same) = base.get(at..part.at as usize) else { return Ok(None) };
            content.extend_from_slice(same);
            content.extend_from_slice(&new);
            at = (part.at + part.gone) as usize;
        }
        let Some(rest) = base.get(at..) else { return Ok(None) };
        content.extend_from_slice(rest);
        Ok(Some(content))
    }

    /// Bytes of a segment.
    fn raw(&self, segment: u32, at: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match &self.active {
            Some(active) if active.id == segment => active.file.try_clone()?,
            _ if self.store.has(&name(segment))? => self.store.open_log(&name(segment))?,
            _ => return Ok(None),
        };
        let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut content, at)?;
        Ok(Some(content))
    }
}
