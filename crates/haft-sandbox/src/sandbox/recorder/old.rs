//! The old side of what a command changed: attributes, and where the content is kept.

use std::ffi::OsString;
use std::path::Path;

use rustix::fs::FileType;

use super::effects::{Old, OldContent};
use super::keep::{self, Copy};
use super::model::{InodeInfo, Meta};
use super::settle::{Settle, meta_at};
use crate::change::Attributes;

impl Settle<'_> {
    /// The old side of a file or link whose name went.
    pub(super) fn old(&self, info: &InodeInfo) -> Result<Old, String> {
        match info.meta.file_type {
            FileType::Symlink => {
                Ok(Old::Link { target: info.target.clone(), attributes: attributes(info, Vec::new()) })
            }
            FileType::RegularFile => self.old_file(info, None),
            _ => Err("it was a special file".to_owned()),
        }
    }

    /// The old side of a file; `current` is where it is, if it has its old content still.
    pub(super) fn old_file(&self, info: &InodeInfo, current: Option<&Path>) -> Result<Old, String> {
        let mut xattrs = info.xattrs.clone();
        let content = match (current, &info.copy, &info.link) {
            (Some(current), ..) => OldContent::Current(current.to_owned()),
            (None, Some(Copy::File(copy)), _) => OldContent::Kept(self.store.join(copy)),
            (None, Some(Copy::InMemory(content)), _) => {
                let path = self.store.join(format!("m{}-{}", info.meta.id.device, info.meta.id.inode));
                let written = std::fs::write(&path, content);
                written.map_err(|error| format!("its old content could not be written: {error}"))?;
                OldContent::Kept(path)
            }
            (None, None, Some(link)) => {
                let path = self.store.join(link);
                // It is the file itself: another program that has it open may have written to it.
                let is_unchanged =
                    meta_at(&path).is_some_and(|is| is.id == info.meta.id && is.size == info.meta.size);
                if let Some(why) = &info.lost {
                    return Err(why.clone());
                }
                if !is_unchanged {
                    return Err("another program changed it meanwhile".to_owned());
                }
                xattrs = xattrs.or_else(|| Some(keep::xattrs_at(&path)));
                OldContent::Kept(path)
            }
            (None, None, None) => {
                return Err(info
                    .lost
                    .clone()
                    .unwrap_or_else(|| "it was changed without a record".to_owned()));
            }
        };
        let attributes = attributes(info, xattrs.unwrap_or_default());
        Ok(Old::File { content, size: info.meta.size, attributes, linked: None })
    }
}

pub(super) fn attributes(info: &InodeInfo, xattrs: Vec<(OsString, Vec<u8>)>) -> Attributes {
    let Meta { mode, uid, gid, modified, .. } = info.meta;
    let xattrs = info.xattrs.clone().unwrap_or(xattrs);
    Attributes { mode, uid, gid, modified, xattrs }
}
