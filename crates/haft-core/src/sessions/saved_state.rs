//! State of tools that is saved with a session, each value under a name. Knows nothing of what the values hold.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// State of a tool that is saved with the session: see [`Session::lasting`](crate::Session::lasting).
///
/// ```
/// use std::sync::Mutex;
///
/// use haft_core::sessions::SavedState;
/// use haft_core::{Engine, Workspace};
///
/// /// Notes that the model has taken.
/// #[derive(Default, serde::Serialize, serde::Deserialize)]
/// struct Notes(Mutex<Vec<String>>);
///
/// impl SavedState for Notes {
///     const NAME: &'static str = "notes";
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::default();
/// let first = engine.session(Workspace::open(".".as_ref())?).start();
/// first.lasting::<Notes>().0.lock().unwrap().push("remember the milk".to_owned());
///
/// let second = engine.session(Workspace::open(".".as_ref())?).resume(first.save()).start();
/// assert_eq!(*second.lasting::<Notes>().0.lock().unwrap(), ["remember the milk"]);
/// # Ok(())
/// # }
/// ```
pub trait SavedState: Serialize + DeserializeOwned + Default + Any + Send + Sync {
    /// The unique name under which the value is saved.
    const NAME: &'static str;
}

/// The saved state of a session's tools, which several sessions may share. Cheap to clone.
#[derive(Clone, Default)]
pub struct SavedStates(Arc<Mutex<Values>>);

#[derive(Default)]
struct Values {
    /// As an earlier run saved them. Values that no tool asks for are saved again unchanged.
    saved: BTreeMap<String, Value>,
    loaded: BTreeMap<&'static str, Loaded>,
}

struct Loaded {
    value: Arc<dyn Any + Send + Sync>,
    save: fn(&(dyn Any + Send + Sync)) -> Option<Value>,
    /// The default value, to tell whether a value that was not saved before has changed.
    default: Option<Value>,
}

impl SavedStates {
    /// Values as an earlier run saved them.
    pub fn new(saved: BTreeMap<String, Value>) -> Self {
        Self(Arc::new(Mutex::new(Values { saved, loaded: BTreeMap::new() })))
    }

    /// The saved value, or the default if none was saved or the saved one cannot be deserialized.
    pub(crate) fn get<T: SavedState>(&self) -> Arc<T> {
        let mut values = self.values();
        let saved = values.saved.get(T::NAME).cloned();
        let loaded = values.loaded.entry(T::NAME).or_insert_with(|| {
            let value: T = saved.and_then(|saved| serde_json::from_value(saved).ok()).unwrap_or_default();
            Loaded { value: Arc::new(value), save: save::<T>, default: save::<T>(&T::default()) }
        });
        loaded.value.clone().downcast().unwrap_or_default()
    }

    /// All values to save, and the names of those that have changed.
    pub(crate) fn save(&self) -> (BTreeMap<String, Value>, BTreeSet<String>) {
        let values = self.values();
        let (mut all, mut changed) = (values.saved.clone(), BTreeSet::new());
        for (name, loaded) in &values.loaded {
            let Some(now) = (loaded.save)(&*loaded.value) else { continue };
            // A value that was only read still equals the default.
            let before = values.saved.get(*name).or(loaded.default.as_ref());
            if before != Some(&now) {
                changed.insert((*name).to_owned());
                all.insert((*name).to_owned(), now);
            }
        }
        (all, changed)
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock()
    }
}

fn save<T: SavedState>(value: &(dyn Any + Send + Sync)) -> Option<Value> {
    serde_json::to_value(value.downcast_ref::<T>()?).ok()
}
