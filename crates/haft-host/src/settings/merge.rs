//! Merges the settings of several files, and filters those of an untrusted project. Both destructure every field, so a new
//! setting does not compile until it is handled here.

use haft_core::DEFAULT_MAX_RESULT;
use haft_dialects as dialects;

use super::{
    DurabilitySetting, Files, Hooks, JournalLimits, Limits, Mcp, ModeSetting, Permissions, Sandbox, Search,
    Settings,
};

impl Settings {
    /// Merges later settings, which win; lists are concatenated.
    pub(super) fn add(&mut self, later: Settings) {
        let Settings {
            dialect,
            mode,
            schedule,
            add_dirs,
            tools,
            trusted: _,
            limits: Limits { max_result, keep_days, keep_megabytes },
            files: Files { durability, lenient, placeholders, check },
            search: Search { hidden, ignored, seconds },
            sandbox,
            permissions:
                Permissions { allow: _, ask: _, r#try: _, deny: _, effects: _, recommended: _, seconds: patience },
            journal,
            hooks: Hooks { pre_tool_use, post_tool_use, post_tool_use_failure },
            // A project cannot set the others.
            mcp: Mcp { servers, network: _, free: _ },
            web: _,
        } = later;
        fn win<T>(so_far: &mut Option<T>, later: Option<T>) {
            if later.is_some() {
                *so_far = later;
            }
        }
        win(&mut self.dialect, dialect);
        win(&mut self.mode, mode);
        win(&mut self.schedule, schedule);
        self.add_dirs.extend(add_dirs);
        self.tools.extend(tools);
        self.limits.max_result.extend(max_result);
        win(&mut self.limits.keep_days, keep_days);
        win(&mut self.limits.keep_megabytes, keep_megabytes);
        win(&mut self.files.durability, durability);
        win(&mut self.files.lenient, lenient);
        win(&mut self.files.placeholders, placeholders);
        win(&mut self.files.check, check);
        win(&mut self.search.hidden, hidden);
        win(&mut self.search.ignored, ignored);
        win(&mut self.search.seconds, seconds);
        self.sandbox.merge(sandbox);
        win(&mut self.permissions.seconds, patience);
        let JournalLimits { keep_days, keep_megabytes, keep_changes, max_file_megabytes } = journal;
        win(&mut self.journal.keep_days, keep_days);
        win(&mut self.journal.keep_megabytes, keep_megabytes);
        win(&mut self.journal.keep_changes, keep_changes);
        win(&mut self.journal.max_file_megabytes, max_file_megabytes);
        self.hooks.pre_tool_use.extend(pre_tool_use);
        self.hooks.post_tool_use.extend(post_tool_use);
        self.hooks.post_tool_use_failure.extend(post_tool_use_failure);
        self.mcp.servers.extend(servers);
    }

    /// The effective limit of a tool's replies; the smallest of all dialects that have the tool.
    fn longest_reply(&self, tool: &str) -> usize {
        let dialects = dialects::all();
        let of_that_name = dialects.iter().flat_map(|dialect| dialect.tools());
        let own = of_that_name.filter(|found| *found.spec().name == *tool).map(|tool| tool.spec().max_result);
        let set = self.limits.max_result.get(tool).copied();
        set.or(own.min()).unwrap_or(DEFAULT_MAX_RESULT)
    }

    /// Splits the settings of an untrusted project: those that make haft stricter than `so_far`, and the names of all others,
    /// which are ignored.
    pub(super) fn restricted(self, so_far: &Settings) -> (Settings, Vec<&'static str>) {
        let Settings {
            dialect,
            mode,
            schedule,
            add_dirs,
            tools,
            trusted,
            limits: Limits { mut max_result, keep_days, keep_megabytes },
            files: Files { durability, lenient, placeholders, check },
            search: Search { hidden, ignored, seconds },
            sandbox,
            permissions:
                Permissions { allow, ask, r#try: tried, deny, effects, recommended, seconds: patience },
            journal:
                JournalLimits { keep_days: days, keep_megabytes: space, keep_changes, max_file_megabytes },
            hooks: Hooks { pre_tool_use, post_tool_use, post_tool_use_failure },
            mcp: Mcp { servers, network: _, free: _ },
            web: _,
        } = self;
        let mut ignored_keys = Vec::new();
        let mut ignore = |key: &'static str, is_set: bool| {
            if is_set && !ignored_keys.contains(&key) {
                ignored_keys.push(key);
            }
        };
        fn only<T>(set: Option<T>, is_stricter: impl FnOnce(&T) -> bool) -> (Option<T>, bool) {
            let is_set = set.is_some();
            let kept = set.filter(is_stricter);
            let is_ignored = is_set && kept.is_none();
            (kept, is_ignored)
        }
        let all = max_result.len();
        max_result.retain(|tool, chars| *chars <= so_far.longest_reply(tool));
        ignore("limits.max_result", max_result.len() < all);
        ignore("limits.keep_days", keep_days.is_some());
        ignore("limits.keep_megabytes", keep_megabytes.is_some());
        let (mode, is_looser) = only(mode, |mode| *mode == ModeSetting::Plan);
        ignore("mode", is_looser);
        let (durability, is_looser) = only(durability, |durability| *durability == DurabilitySetting::Full);
        ignore("files.durability", is_looser);
        let (lenient, is_looser) = only(lenient, |lenient| !lenient);
        ignore("files.lenient", is_looser);
        let (placeholders, is_looser) = only(placeholders, |placeholders| !placeholders);
        ignore("files.placeholders", is_looser);
        let (check, is_looser) = only(check, |check| *check);
        ignore("files.check", is_looser);
        ignore("search", hidden.is_some() || ignored.is_some() || seconds.is_some());
        ignore("sandbox", sandbox != Sandbox::default());
        ignore("permissions.try", !tried.is_empty());
        ignore("permissions.effects", !effects.is_empty());
        ignore("permissions.allow", !allow.is_empty() || recommended == Some(true));
        // A shorter timeout denies unanswered questions sooner, which is stricter.
        let limit = so_far.permissions.seconds;
        let (patience, is_looser) = only(patience, |set| limit.is_none_or(|limit| *set <= limit));
        ignore("permissions.seconds", is_looser);
        ignore("journal", [days, space, keep_changes, max_file_megabytes].iter().any(Option::is_some));
        ignore("add_dirs", !add_dirs.is_empty());
        ignore("tools", !tools.is_empty());
        let hooks = [&pre_tool_use, &post_tool_use, &post_tool_use_failure];
        ignore("hooks", hooks.iter().any(|hooks| !hooks.is_empty()));
        ignore("mcp.servers", !servers.is_empty());
        let kept = Settings {
            // The dialect and the schedule make haft neither stricter nor more permissive.
            dialect,
            schedule,
            mode,
            trusted,
            limits: Limits { max_result, ..Limits::default() },
            files: Files { durability, lenient, placeholders, check },
            permissions: Permissions { ask, deny, seconds: patience, ..Permissions::default() },
            ..Settings::default()
        };
        (kept, ignored_keys)
    }
}
