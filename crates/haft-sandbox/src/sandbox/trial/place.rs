//! Where the layers of a trial lie: a private directory with an upper and a work directory for each root. Exchanging files
//! needs both sides on one mount, so a root that lies on another mount than the private directory has its layers in a hidden
//! directory of its own.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ffi::OsString, fs};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, StatxFlags};

use super::super::wire::{Build, Frame, Parts};
use crate::removal::remove_later;
use crate::store::remove_tree;

/// Name of the description in a trial's directory.
const DESCRIPTION: &str = "view";
/// Where a root that lies on another mount has its layers.
const OWN_PLACE: &str = ".haft/trials";

/// A root and the layers of its view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Layer {
    pub(in super::super) root: PathBuf,
    pub(in super::super) upper: PathBuf,
    pub(in super::super) work: PathBuf,
}

/// A point in time, as files have it: seconds and nanoseconds.
pub(super) type Time = (i64, u32);

/// The directory of a trial.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) store: PathBuf,
    pub(super) layers: Vec<Layer>,
    /// The change time of a file that was made before the view: what changed since has this or a later one.
    pub(super) since: Time,
    /// Whether the old sides of a commit are here, so that another owner removes it.
    pub(super) is_handed_over: AtomicBool,
    /// Locked while this process lives.
    lock: Option<OwnedFd>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_handed_over.load(Ordering::Acquire) {
            // Later, since it takes as long as a command. What is left then is removed when the journal is opened next.
            let (store, layers) = (std::mem::take(&mut self.store), std::mem::take(&mut self.layers));
            let lock = self.lock.take();
            remove_later(move || {
                let _ = remove(&store, &layers);
                drop(lock);
            });
        }
    }
}

/// What was found in a directory that may be a trial's.
pub(super) enum Left {
    /// It is none.
    NotATrial,
    /// The process that made it lives.
    InUse,
    /// It was left behind.
    Behind(Place),
}

impl Place {
    pub(super) fn make(roots: &[PathBuf], store: &Path) -> io::Result<Self> {
        let lock = Some(locked(store)?);
        let id = store.file_name().unwrap_or_default();
        let mount = mount_of(store)?;
        let mut layers = Vec::with_capacity(roots.len());
        for (number, root) in roots.iter().enumerate() {
            let base = match mount_of(root)? == mount {
                true => store.to_owned(),
                false => root.join(OWN_PLACE).join(id),
            };
            let (upper, work) = (base.join(format!("upper-{number}")), base.join(format!("work-{number}")));
            layers.push(Layer { root: root.clone(), upper, work });
        }
        let (description, since) = marked(store)?;
        let is_handed_over = AtomicBool::new(false);
        let mut place = Self { store: store.to_owned(), layers, since, is_handed_over, lock };
        // Described before it is made: whatever is left behind can be found.
        place.describe(description)?;
        for layer in &mut place.layers {
            private_dir(&layer.work)?;
            private_dir(&layer.upper)?;
            // The root of the view shows the attributes of the upper directory.
            let found = fs::metadata(&layer.root)?;
            let own = fs::metadata(&layer.upper)?;
            if (found.uid(), found.gid()) != (own.uid(), own.gid()) {
                let _ = std::os::unix::fs::chown(&layer.upper, Some(found.uid()), Some(found.gid()));
            }
            fs::set_permissions(&layer.upper, found.permissions())?;
        }
        Ok(place)
    }

    fn describe(&self, mut file: fs::File) -> io::Result<()> {
        let paths = |pick: fn(&Layer) -> &PathBuf| -> Vec<Vec<u8>> {
            self.layers.iter().map(|layer| pick(layer).as_os_str().as_bytes().to_vec()).collect()
        };
        let frame = Build::default()
            .number(self.since.0.cast_unsigned())
            .number(self.since.1.into())
            .list(paths(|layer| &layer.root).into_iter())
            .list(paths(|layer| &layer.upper).into_iter())
            .list(paths(|layer| &layer.work).into_iter())
            .frame();
        file.write_all(&frame.encoded())
    }

    /// Looks at a directory that a dead process may have left.
    pub(super) fn left(store: &Path) -> io::Result<Left> {
        let Some((since, layers)) = described(store)? else { return Ok(Left::NotATrial) };
        let Some(lock) = lock(store)? else { return Ok(Left::InUse) };
        let is_handed_over = AtomicBool::new(false);
        Ok(Left::Behind(Self { store: store.to_owned(), layers, since, is_handed_over, lock: Some(lock) }))
    }

    /// Removes all of it.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.store, &self.layers)
    }
}

fn remove(store: &Path, layers: &[Layer]) -> io::Result<()> {
    remove_own_places(store, layers)?;
    remove_tree(store)
}

/// Removes what a trial has outside of its directory. To be called before that is removed.
pub fn release(store: &Path) -> io::Result<()> {
    described(store)?.map_or(Ok(()), |(_, layers)| remove_own_places(store, &layers))
}

/// Removes the layers that lie in roots.
fn remove_own_places(store: &Path, layers: &[Layer]) -> io::Result<()> {
    for layer in layers.iter().filter(|layer| !layer.upper.starts_with(store)) {
        let Some(base) = layer.upper.parent() else { continue };
        remove_tree(base)?;
        // Only where nothing else is in them.
        for dir in base.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(dir);
        }
    }
    Ok(())
}

/// What the description in a directory says; `None` if it has none, so that it is no trial's.
fn described(store: &Path) -> io::Result<Option<(Time, Vec<Layer>)>> {
    let description = match fs::read(store.join(DESCRIPTION)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let frame = description.get(4..).and_then(|bytes| Frame::decoded(bytes).ok());
    // One that was cut off describes nothing: its process died before it made anything else.
    Ok(Some(frame.and_then(|frame| parse(frame).ok()).unwrap_or_default()))
}

fn parse(frame: Frame) -> io::Result<(Time, Vec<Layer>)> {
    let mut parts = Parts::of(frame);
    let (seconds, nanoseconds) = (parts.number()?.cast_signed(), parts.number()?);
    let mut paths = || -> io::Result<Vec<PathBuf>> {
        Ok(parts.list()?.into_iter().map(|path| OsString::from_vec(path).into()).collect())
    };
    let (roots, uppers, works) = (paths()?, paths()?, paths()?);
    let layers = roots.into_iter().zip(uppers).zip(works);
    let layers = layers.map(|((root, upper), work)| Layer { root, upper, work }).collect();
    Ok(((seconds, u32::try_from(nanoseconds).unwrap_or(0)), layers))
}

fn private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Locks a directory. `None` if another process has.
fn lock(dir: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, dir, flags, Mode::empty())?;
    match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        locked => Ok(locked.map(|()| Some(dir))?),
    }
}

/// The mount that a path is on: files can be exchanged within one.
fn mount_of(path: &Path) -> io::Result<(u32, u32, u64)> {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
    Ok((found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id))
}

/// Makes a directory and locks it.
fn locked(store: &Path) -> io::Result<OwnedFd> {
    for _ in 0..100 {
        private_dir(store)?;
        // Another process may take the empty directory for one that was left behind, and remove it.
        if let Some(lock) = lock(store)?
            && rustix::fs::fstat(&lock)?.st_nlink > 0
        {
            return Ok(lock);
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// The file of the description, and its change time. Looking at it and changing it once more makes kernels with fine-grained
/// times use one, so that everything that changes later has the same time or a later one, and nothing that changed earlier
/// has.
fn marked(store: &Path) -> io::Result<(fs::File, Time)> {
    let file = fs::File::create_new(store.join(DESCRIPTION))?;
    file.metadata()?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    let found = file.metadata()?;
    Ok((file, (found.ctime(), u32::try_from(found.ctime_nsec()).unwrap_or(0))))
}
