//! What a session keeps between runs besides what it knows of files: values of its tools, each by a name. Knows
//! nothing of what is in them.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value of a session's own that is kept with the session, if that is kept: see [`Session::lasting`](crate::Session::lasting).
pub trait Lasting: Serialize + DeserializeOwned + Default + Any + Send + Sync {
    /// The name it is kept by. No other has it.
    const NAME: &'static str;
}

/// The lasting values of a session, or of several that are one to the user. Cheap to clone.
#[derive(Clone, Default)]
pub struct LastingValues(Arc<Mutex<Values>>);

#[derive(Default)]
struct Values {
    /// As they were kept. What nobody asks for stays so.
    saved: BTreeMap<String, Value>,
    live: BTreeMap<&'static str, Live>,
}

struct Live {
    value: Arc<dyn Any + Send + Sync>,
    save: fn(&(dyn Any + Send + Sync)) -> Option<Value>,
    /// What it is when there is none.
    new: Option<Value>,
}

impl LastingValues {
    /// Values as an earlier run kept them.
    pub fn new(saved: BTreeMap<String, Value>) -> Self {
        Self(Arc::new(Mutex::new(Values { saved, live: BTreeMap::new() })))
    }

    /// A value, as it was kept or as it is when there is none. What cannot be read any more is begun anew.
    pub(crate) fn get<T: Lasting>(&self) -> Arc<T> {
        let mut values = self.values();
        let saved = values.saved.get(T::NAME).cloned();
        let live = values.live.entry(T::NAME).or_insert_with(|| {
            let value: T = saved.and_then(|saved| serde_json::from_value(saved).ok()).unwrap_or_default();
            Live { value: Arc::new(value), save: save::<T>, new: save::<T>(&T::default()) }
        });
        live.value.clone().downcast().unwrap_or_default()
    }

    /// All of them as they are to be kept, and the names of those that are not what they were.
    pub(crate) fn save(&self) -> (BTreeMap<String, Value>, BTreeSet<String>) {
        let values = self.values();
        let (mut all, mut changed) = (values.saved.clone(), BTreeSet::new());
        for (name, live) in &values.live {
            let Some(now) = (live.save)(&*live.value) else { continue };
            // A value that was only looked at is what it is when there is none.
            let before = values.saved.get(*name).or(live.new.as_ref());
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

fn save<T: Lasting>(value: &(dyn Any + Send + Sync)) -> Option<Value> {
    serde_json::to_value(value.downcast_ref::<T>()?).ok()
}
