//! Listing folders, one level or recursively. Shows links and never follows them. Knows nothing of ignore files: only the
//! caller's globs leave entries out.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use globset::GlobSet;
use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::{Entry, Kind, names};

use super::Hidden;

/// Lists a folder.
#[derive(Clone, Debug)]
pub struct List {
    /// The folder.
    pub folder: AbsPath,
    /// One level or recursive.
    pub depth: Depth,
    /// Treatment of names that begin with a dot.
    pub hidden: Hidden,
    /// Globs of entries to leave out, matched with the name and with the path relative to the folder.
    pub ignore: GlobSet,
    /// Order of the entries.
    pub order: Order,
    /// Maximum number of entries.
    pub limit: usize,
}

/// Whether a listing is recursive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The entries of the folder itself.
    One,
    /// The entries of the folder and of all folders below it.
    All,
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By path.
    Name,
    /// Folders first, then by name, ignoring case.
    FoldersFirst,
}

/// A folder's entries.
#[derive(Debug)]
pub struct Listing {
    /// The folder.
    pub folder: AbsPath,
    /// The entries, at most [`List::limit`].
    pub entries: Vec<Listed>,
    /// Number of all entries; in a recursive listing that reached its limit, of those seen so far.
    pub total: usize,
    /// Paths of folders that could not be read.
    pub unreadable: Vec<String>,
}

/// An entry of a listing.
#[derive(Debug)]
pub struct Listed {
    /// Its path relative to the listed folder.
    pub name: String,
    /// Its absolute path.
    pub path: PathBuf,
    /// Whether it is a file, a folder, a link or something else.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Time of its last change.
    pub modified: SystemTime,
    /// Its permission bits.
    pub mode: u32,
}

impl Operation for List {
    type Output = Listing;

    fn claims(&self) -> Claims {
        Claims::none().read(Resource::Path(self.folder.clone()))
    }

    /// Only for one level: a recursive fingerprint would cost as much as the listing.
    fn fingerprint(&self, cx: &Context) -> Option<u64> {
        if self.depth == Depth::All {
            return None;
        }
        let mut entries = cx.workspace().list(&self.folder).ok()?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut hasher = DefaultHasher::new();
        for entry in entries {
            (entry.name, entry.stat.stamp).hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    async fn run(self, cx: &Context) -> Result<Listing, Fault> {
        match self.depth {
            Depth::One => self.walk(cx),
            Depth::All => {
                let cx = cx.clone();
                let walking = tokio::task::spawn_blocking(move || self.walk(&cx));
                walking.await.map_err(|error| Fault::failed(error.to_string()))?
            }
        }
    }
}

impl List {
    fn walk(self, cx: &Context) -> Result<Listing, Fault> {
        let mut listing =
            Listing { folder: self.folder.clone(), entries: Vec::new(), total: 0, unreadable: Vec::new() };
        // A stack: folders are pushed in reverse order, so that they are read in the order of the listing and the limit
        // cuts off its end.
        let mut folders = vec![(self.folder.clone(), PathBuf::new())];
        while let Some((folder, below)) = folders.pop() {
            if cx.is_cancelled() {
                return Err(cx.cancelled_fault());
            }
            let entries = match cx.workspace().list(&folder) {
                Ok(entries) => entries,
                Err(error) if below.as_os_str().is_empty() => return Err(error.into()),
                Err(_) => {
                    listing.unreadable.push(names::show(below.as_os_str()));
                    continue;
                }
            };
            let first = listing.entries.len();
            for entry in entries {
                let name = below.join(&entry.name);
                if self.leaves_out(&entry, &name) {
                    continue;
                }
                listing.total += 1;
                listing.entries.push(listed(&folder, &name, entry));
            }
            self.sort(&mut listing.entries[first..]);
            if self.depth == Depth::All {
                if listing.total > self.limit {
                    break;
                }
                let deeper =
                    listing.entries[first..].iter().rev().filter(|entry| entry.kind == Kind::Directory);
                folders.extend(deeper.filter_map(|entry| {
                    let name = entry.path.file_name()?;
                    Some((folder.child(name), below.join(name)))
                }));
            }
        }
        if self.depth == Depth::All {
            self.sort(&mut listing.entries);
        }
        listing.entries.truncate(self.limit);
        Ok(listing)
    }

    fn leaves_out(&self, entry: &Entry, name: &Path) -> bool {
        let is_hidden = entry.name.as_encoded_bytes().first() == Some(&b'.');
        (is_hidden && self.hidden == Hidden::Skip)
            || self.ignore.is_match(Path::new(&entry.name))
            || self.ignore.is_match(name)
    }

    fn sort(&self, entries: &mut [Listed]) {
        match self.order {
            Order::Name => entries.sort_by(|a, b| a.path.cmp(&b.path)),
            Order::FoldersFirst => entries.sort_by_cached_key(|entry| {
                (entry.kind != Kind::Directory, entry.name.to_lowercase(), entry.name.clone())
            }),
        }
    }
}

fn listed(folder: &AbsPath, name: &Path, entry: Entry) -> Listed {
    Listed {
        name: names::show(name.as_os_str()),
        path: folder.as_path().join(&entry.name),
        kind: entry.stat.kind,
        size: entry.stat.size,
        modified: entry.stat.modified,
        mode: entry.stat.mode,
    }
}

/// Compiles globs of entries to leave out of a listing.
pub fn ignore_set(patterns: &[String]) -> Result<GlobSet, Fault> {
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        let glob = globset::GlobBuilder::new(pattern.trim_end_matches('/')).literal_separator(true).build();
        set.add(glob.map_err(|error| bad_pattern(pattern, &error))?);
    }
    set.build().map_err(|error| bad_pattern(&patterns.join(", "), &error))
}

fn bad_pattern(pattern: &str, error: &globset::Error) -> Fault {
    Fault::new(FaultKind::InvalidInput, format!("`{pattern}` is no valid pattern: {}", error.kind()))
        .hint("patterns look like `*.pyc`, `build` or `docs/*.md`")
}
