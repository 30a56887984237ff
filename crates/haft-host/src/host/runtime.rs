//! Converts settings to the options of operations, the sandbox and the journal.

use std::time::Duration;

use haft_journal as journal;
use haft_ops::{
    EditOptions, Editing, EffectsCount, Hidden, Ignored, Leniency, Placeholders, Profile, SandboxOptions,
    Searching,
};
use haft_sandbox::Store;
use haft_sandbox::sandbox::{self, Layer, Layers, Network};
use haft_text::check::Checkers;

use super::{DAY, Host};
use crate::settings::{EffectsSetting, Folders, LayerSetting, LayersSetting, Settings, home};

/// The options of operations that change files.
pub(super) fn editing(settings: &Settings) -> Editing {
    let lenient = settings.files.lenient.unwrap_or(true);
    let placeholders = settings.files.placeholders.unwrap_or(false);
    Editing {
        options: EditOptions {
            leniency: if lenient { Leniency::Lenient } else { Leniency::Exact },
            placeholders: if placeholders { Placeholders::Keep } else { Placeholders::Refuse },
        },
        checkers: if settings.files.check.unwrap_or(true) { Checkers::standard() } else { Checkers::none() },
    }
}

/// The sandbox options of commands. `state` is the workspace's state folder.
pub(super) fn sandbox_options(settings: &Settings, state: &Store, folders: &Folders) -> SandboxOptions {
    const MEGABYTE: u64 = 1 << 20;
    let set = &settings.sandbox;
    let layer = |setting: &LayerSetting| match setting {
        LayerSetting::Processes => Layer::Processes,
        LayerSetting::View => Layer::View,
        LayerSetting::Paths => Layer::Paths,
        LayerSetting::Network => Layer::Network,
        LayerSetting::Calls => Layer::Calls,
        LayerSetting::Quota => Layer::Quota,
    };
    let megabytes = |count: Option<u64>| count.map(|count| count.saturating_mul(MEGABYTE));
    let defaults = sandbox::Limits::usual();
    SandboxOptions {
        layers: match set.layers {
            None | Some(LayersSetting::All) => Layers::All,
            Some(LayersSetting::Few) => Layers::Few,
            Some(LayersSetting::None) => Layers::None,
        },
        required: set.require.iter().map(layer).collect(),
        network: if set.network == Some(true) { Network::On } else { Network::Off },
        effects: match set.effects {
            None | Some(EffectsSetting::Record) => EffectsCount::AtOnce,
            Some(EffectsSetting::Ask) => EffectsCount::WhenApproved,
        },
        hidden: set
            .hidden
            .iter()
            .map(|path| home(path))
            // The settings may hold tokens, and the state what was in files of other workspaces.
            .chain([folders.state.clone(), folders.config.clone()])
            .collect(),
        passed: set.pass_env.clone(),
        profile: match set.profile {
            Some(false) => Profile::Ignored,
            _ => Profile::Kept(state.clone()),
        },
        limits: sandbox::Limits {
            memory: megabytes(set.memory_megabytes),
            cpu: set.cpu_seconds,
            file_size: megabytes(set.file_megabytes),
            processes: set.processes.or(defaults.processes),
            total_memory: megabytes(set.total_memory_megabytes).or(defaults.total_memory),
            total_cpu: set.total_cpu_seconds,
            ..defaults
        },
    }
}

impl Host {
    /// The sandbox options of commands.
    pub fn sandbox_options(&self) -> SandboxOptions {
        sandbox_options(&self.loaded().settings, &self.state, &self.guards.folders)
    }
}

/// The options of searches.
pub(super) fn searching(settings: &Settings) -> Searching {
    let set = &settings.search;
    let defaults = Searching::default();
    Searching {
        time: set.seconds.map_or(defaults.time, |seconds| Duration::from_secs(seconds.clamp(1, 3600))),
        hidden: set.hidden.map(|shown| if shown { Hidden::Show } else { Hidden::Skip }),
        ignored: set.ignored.map(|shown| if shown { Ignored::Show } else { Ignored::Skip }),
    }
}

/// The limits of the journal.
pub fn journal_limits(settings: &Settings) -> journal::Limits {
    const MEGABYTE: u64 = 1 << 20;
    let set = &settings.journal;
    let defaults = journal::Limits::default();
    journal::Limits {
        bytes: set.keep_megabytes.map_or(defaults.bytes, |count| count.max(1).saturating_mul(MEGABYTE)),
        entries: set.keep_changes.map_or(defaults.entries, |count| count.max(1)),
        age: set
            .keep_days
            .map_or(defaults.age, |days| Duration::from_secs(days.saturating_mul(DAY.as_secs()))),
        file: set.max_file_megabytes.map_or(defaults.file, |count| count.saturating_mul(MEGABYTE)),
    }
}
