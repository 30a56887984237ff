//! The settings of running sessions. Before every call the files behind them are compared by their stamps; if one has
//! changed, they are loaded again, so that `haft rules allow` and `haft trust` in another shell apply at once. Knows
//! nothing of how a session is built.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use haft_core::{Context, Fault, FaultKind, Store};
use haft_rules::{KnownTools, RuleBook, RuleSource};
use haft_sandbox::user;
use parking_lot::Mutex;

use super::runtime;
use crate::settings::{self, Folders, Loaded};

/// Settings that are loaded again when one of their files changes.
pub(super) struct LiveSettings {
    root: PathBuf,
    folders: Folders,
    known: KnownTools,
    state: Store,
    /// The settings that the engine was built from.
    first: Arc<Loaded>,
    current: Mutex<Current>,
}

struct Current {
    loaded: Arc<Loaded>,
    book: Arc<RuleBook>,
    /// Counts how often the settings were loaded.
    version: u64,
    stamps: Vec<FileStamp>,
}

type FileStamp = Option<(u64, u64, SystemTime)>;

/// The version of the settings that a session has applied. Zero: those that it started with.
#[derive(Default)]
struct Applied(AtomicU64);

impl LiveSettings {
    pub(super) fn new(
        root: PathBuf,
        folders: Folders,
        known: KnownTools,
        state: Store,
        loaded: Loaded,
    ) -> Self {
        let book = Arc::new(loaded.book.clone());
        let first = Arc::new(loaded);
        let current = Current { loaded: first.clone(), book, version: 0, stamps: Vec::new() };
        let live = Self { root, folders, known, state, first, current: Mutex::new(current) };
        live.current.lock().stamps = live.stamps();
        live
    }

    /// The settings as they were last loaded.
    pub(super) fn loaded(&self) -> Arc<Loaded> {
        self.current.lock().loaded.clone()
    }

    fn stamps(&self) -> Vec<FileStamp> {
        settings::files(&self.folders, &self.root, &self.state).iter().map(|file| user::stamp(file)).collect()
    }

    /// Loads the settings again if a file of theirs has changed. The stamps are taken first: a file that changes
    /// meanwhile is loaded once more at the next call.
    fn refresh(&self) -> Result<(Arc<Loaded>, Arc<RuleBook>, u64), Fault> {
        let mut current = self.current.lock();
        let stamps = self.stamps();
        if stamps != current.stamps {
            let loaded = settings::load(&self.folders, &self.root, &self.known).map_err(|error| {
                let message = format!("the settings have changed and cannot be read: {error}");
                Fault::new(FaultKind::Denied, message)
                    .hint("no call is allowed until the user has corrected them; `haft settings` shows them")
            })?;
            current.book = Arc::new(loaded.book.clone());
            current.loaded = Arc::new(loaded);
            current.version += 1;
            current.stamps = stamps;
        }
        Ok((current.loaded.clone(), current.book.clone(), current.version))
    }
}

impl RuleSource for LiveSettings {
    fn book(&self, cx: &Context) -> Result<Arc<RuleBook>, Fault> {
        let (loaded, book, version) = self.refresh()?;
        let session = cx.session();
        if session.extension::<Applied>().0.swap(version, Ordering::AcqRel) != version {
            session.set_extension(runtime::editing(&loaded.settings));
            session.set_extension(runtime::searching(&loaded.settings));
            session.set_extension(runtime::sandbox_options(&loaded.settings, &self.state, &self.folders));
            cx.log("settings", "info", &taken_up(&self.first, &loaded));
        }
        Ok(book)
    }
}

/// What a session says when it has taken up changed settings.
fn taken_up(before: &Loaded, after: &Loaded) -> String {
    let mut text = "the settings have changed, and this session follows them".to_owned();
    let later = needing_restart(before, after);
    if !later.is_empty() {
        text = format!("{text}, except for {}, which need a restart of haft", later.join(", "));
    }
    text
}

/// The settings that differ and that only a new session follows, by their names.
fn needing_restart(before: &Loaded, after: &Loaded) -> Vec<&'static str> {
    let (old, new) = (&before.settings, &after.settings);
    let servers = |loaded: &Loaded| -> Vec<_> {
        loaded.servers.iter().map(|server| (server.name.clone(), server.config.clone())).collect()
    };
    let changed = [
        ("dialect", old.dialect != new.dialect),
        ("mode", old.mode != new.mode),
        ("schedule", old.schedule != new.schedule),
        ("add_dirs", old.add_dirs != new.add_dirs),
        ("tools", old.tools != new.tools),
        ("limits", old.limits != new.limits),
        ("files.durability", old.files.durability != new.files.durability),
        ("permissions.seconds", old.permissions.seconds != new.permissions.seconds),
        ("journal", old.journal != new.journal),
        ("hooks", old.hooks != new.hooks),
        ("mcp.servers", servers(before) != servers(after)),
    ];
    changed.into_iter().filter_map(|(name, changed)| changed.then_some(name)).collect()
}
