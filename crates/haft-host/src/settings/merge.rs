//! How settings of several files become one. A project that is not trusted can only make haft stricter.

use haft_core::DEFAULT_MAX_RESULT;
use haft_dialects as dialects;

use super::{
    DurabilitySetting, Files, Hooks, JournalLimits, Limits, Mcp, ModeSetting, Permissions, Sandbox, Search,
    Settings,
};

impl Settings {
    /// Adds settings that win over these; lists add up. Each field is named, so that a new one is not forgotten.
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
            permissions: Permissions { allow: _, ask: _, deny: _, recommended: _, seconds: patience },
            journal,
            hooks: Hooks { pre_tool_use, post_tool_use, post_tool_use_failure },
            mcp: Mcp { servers },
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

    /// How long a reply of a tool may be as things stand, whatever the dialect.
    fn longest_reply(&self, tool: &str) -> usize {
        let dialects = dialects::all();
        let of_that_name = dialects.iter().flat_map(|dialect| dialect.tools());
        let own = of_that_name.filter(|found| *found.spec().name == *tool).map(|tool| tool.spec().max_result);
        let set = self.limits.max_result.get(tool).copied();
        set.or(own.min()).unwrap_or(DEFAULT_MAX_RESULT)
    }

    /// What of these settings a project may set that the user does not trust: what makes haft stricter than `so_far`.
    /// Names what was left out. Each field is named, so that a new one does not pass unless somebody decides that.
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
            permissions: Permissions { allow, ask, deny, recommended, seconds: patience },
            journal:
                JournalLimits { keep_days: days, keep_megabytes: space, keep_changes, max_file_megabytes },
            hooks: Hooks { pre_tool_use, post_tool_use, post_tool_use_failure },
            mcp: Mcp { servers },
        } = self;
        let mut out = Vec::new();
        let mut leave_out = |key: &'static str, is_set: bool| {
            if is_set && !out.contains(&key) {
                out.push(key);
            }
        };
        fn only<T>(set: Option<T>, is_stricter: impl FnOnce(&T) -> bool) -> (Option<T>, bool) {
            let is_set = set.is_some();
            let kept = set.filter(is_stricter);
            let is_left_out = is_set && kept.is_none();
            (kept, is_left_out)
        }
        let all = max_result.len();
        max_result.retain(|tool, chars| *chars <= so_far.longest_reply(tool));
        leave_out("limits.max_result", max_result.len() < all);
        leave_out("limits.keep_days", keep_days.is_some());
        leave_out("limits.keep_megabytes", keep_megabytes.is_some());
        let (mode, looser) = only(mode, |mode| *mode == ModeSetting::Plan);
        leave_out("mode", looser);
        let (durability, looser) = only(durability, |durability| *durability == DurabilitySetting::Full);
        leave_out("files.durability", looser);
        let (lenient, looser) = only(lenient, |lenient| !lenient);
        leave_out("files.lenient", looser);
        let (placeholders, looser) = only(placeholders, |placeholders| !placeholders);
        leave_out("files.placeholders", looser);
        let (check, looser) = only(check, |check| *check);
        leave_out("files.check", looser);
        leave_out("search", hidden.is_some() || ignored.is_some() || seconds.is_some());
        leave_out("sandbox", sandbox != Sandbox::default());
        leave_out("permissions.allow", !allow.is_empty() || recommended == Some(true));
        // A question that is denied sooner is stricter.
        let limit = so_far.permissions.seconds;
        let (patience, looser) = only(patience, |set| limit.is_none_or(|limit| *set <= limit));
        leave_out("permissions.seconds", looser);
        leave_out("journal", [days, space, keep_changes, max_file_megabytes].iter().any(Option::is_some));
        leave_out("add_dirs", !add_dirs.is_empty());
        leave_out("tools", !tools.is_empty());
        let hooks = [&pre_tool_use, &post_tool_use, &post_tool_use_failure];
        leave_out("hooks", hooks.iter().any(|hooks| !hooks.is_empty()));
        leave_out("mcp.servers", !servers.is_empty());
        let kept = Settings {
            // Which words a session speaks and in which order calls wait is neither stricter nor looser.
            dialect,
            schedule,
            mode,
            trusted,
            limits: Limits { max_result, ..Limits::default() },
            files: Files { durability, lenient, placeholders, check },
            permissions: Permissions { ask, deny, seconds: patience, ..Permissions::default() },
            ..Settings::default()
        };
        (kept, out)
    }
}
