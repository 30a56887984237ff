//! Granted rules that outlast a session. Those of a project are stored in haft's state folder, where nothing in the
//! project can change them; those for every project are added to the user's settings, whose other lines stay as they are.

use std::path::{Path, PathBuf};

use haft_core::Fault;
use haft_core::Store;
use haft_core::permissions::Scope;
use haft_rules::{Effect, RuleBook, RuleStore, ToolRule};
use haft_sandbox::user;
use serde::{Deserialize, Serialize};

use crate::error::{Explain as _, HostError, HostErrorKind};

type Result<T> = std::result::Result<T, HostError>;

/// The file of a project's rules, in its state folder.
pub(crate) const FILE: &str = "rules.json";
/// The origin of a project's rules, as lists show it.
const PLACE: &str = "this project";
/// The file of the user's settings.
const SETTINGS: &str = "config.toml";
/// Maximum size of a settings file.
const MAX_BYTES: u64 = 1024 * 1024;

/// The stores of granted rules.
#[derive(Clone, Debug)]
pub struct Grants {
    /// The state folder of the project.
    pub state: Store,
    /// The folder of the user's settings file.
    pub config: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ProjectRules {
    allow: Vec<String>,
    ask: Vec<String>,
    r#try: Vec<String>,
    deny: Vec<String>,
}

impl ProjectRules {
    fn list(&mut self, effect: Effect) -> &mut Vec<String> {
        match effect {
            Effect::Allow => &mut self.allow,
            Effect::Ask => &mut self.ask,
            Effect::Try => &mut self.r#try,
            Effect::Deny => &mut self.deny,
        }
    }
}

impl Grants {
    /// Adds the rules of the project to a book.
    pub fn add_to(&self, book: &mut RuleBook) -> Result<()> {
        let mut rules = self.load()?;
        for effect in Effect::ALL {
            for rule in rules.list(effect) {
                book.add(effect, rule, PLACE).explain(HostErrorKind::State, || {
                    format!("`{}` holds a rule that is none", self.state.path(FILE).display())
                })?;
            }
        }
        Ok(())
    }

    fn load(&self) -> Result<ProjectRules> {
        let Some(bytes) = self.state.read(FILE)? else { return Ok(ProjectRules::default()) };
        serde_json::from_slice(&bytes)
            .explain(HostErrorKind::State, || format!("`{}` is damaged", self.state.path(FILE).display()))
    }

    /// Stores a rule. Returns whether it was new.
    pub fn add(&self, effect: Effect, rule: &ToolRule, scope: Scope) -> Result<bool> {
        self.change(effect, scope, |rules| {
            let is_new = !rules.iter().any(|known| known == rule.text());
            if is_new {
                rules.push(rule.text().to_owned());
            }
            is_new
        })
    }

    /// Removes a rule, whatever its effect. Returns whether it existed.
    pub fn remove(&self, rule: &str, scope: Scope) -> Result<bool> {
        let mut any = false;
        for effect in Effect::ALL {
            any |= self.change(effect, scope, |rules| {
                let before = rules.len();
                rules.retain(|known| known != rule);
                rules.len() < before
            })?;
        }
        Ok(any)
    }

    fn change(
        &self,
        effect: Effect,
        scope: Scope,
        change: impl FnOnce(&mut Vec<String>) -> bool,
    ) -> Result<bool> {
        match scope {
            Scope::User => self.change_settings(effect, change),
            _ => {
                let _lock = self.state.lock("rules.json.lock")?;
                let mut rules = self.load()?;
                let changed = change(rules.list(effect));
                if changed {
                    self.state.write(FILE, &serde_json::to_vec_pretty(&rules).kind(HostErrorKind::State)?)?;
                }
                Ok(changed)
            }
        }
    }

    /// Changes one list in the user's settings and keeps everything else, comments and layout included.
    fn change_settings(&self, effect: Effect, change: impl FnOnce(&mut Vec<String>) -> bool) -> Result<bool> {
        let mut document = self.settings()?;
        let wrong = || "the settings cannot be changed".to_owned();
        let table = document.entry("permissions").or_insert_with(toml_edit::table);
        let Some(table) = table.as_table_like_mut() else {
            return Err(HostError::settings(format!("{}: `permissions` is no table", wrong())));
        };
        let list = table.entry(effect.name()).or_insert_with(|| toml_edit::value(toml_edit::Array::new()));
        let Some(list) = list.as_array_mut() else {
            return Err(HostError::settings(format!("{}: its rules are no list", wrong())));
        };
        let known: Vec<String> = list.iter().filter_map(|rule| rule.as_str().map(str::to_owned)).collect();
        let mut wanted = known.clone();
        if !change(&mut wanted) {
            return Ok(false);
        }
        list.retain(|rule| rule.as_str().is_none_or(|rule| wanted.iter().any(|wanted| wanted == rule)));
        for rule in wanted.iter().filter(|rule| !known.contains(rule)) {
            list.push(rule.as_str());
        }
        Store::at(&self.config).write(SETTINGS, document.to_string().as_bytes())?;
        Ok(true)
    }

    /// The user's settings, parsed so that single lines can be changed.
    fn settings(&self) -> Result<toml_edit::DocumentMut> {
        let path = Store::at(&self.config).path(SETTINGS);
        let bytes = user::read_regular(&path, MAX_BYTES)?.unwrap_or_default();
        let wrong = || format!("`{}` cannot be changed", path.display());
        String::from_utf8(bytes)
            .explain(HostErrorKind::State, wrong)?
            .parse()
            .explain(HostErrorKind::State, wrong)
    }

    /// Adds a folder to the trusted ones in the user's settings.
    pub fn trust(&self, folder: &Path) -> Result<()> {
        let mut document = self.settings()?;
        let Some(shown) = folder.to_str() else {
            return Err(HostError::settings(format!(
                "`{}` is not UTF-8: settings cannot name it",
                folder.display()
            )));
        };
        let list = document.entry("trusted").or_insert_with(|| toml_edit::value(toml_edit::Array::new()));
        let Some(list) = list.as_array_mut() else {
            return Err(HostError::settings("`trusted` in your settings is no list"));
        };
        if !list.iter().any(|known| known.as_str() == Some(shown)) {
            list.push(shown);
            Store::at(&self.config).write(SETTINGS, document.to_string().as_bytes())?;
        }
        Ok(())
    }
}

impl RuleStore for Grants {
    fn keep(&self, rule: &ToolRule, scope: Scope) -> std::result::Result<(), Fault> {
        self.add(Effect::Allow, rule, scope).map(drop).map_err(|error| Fault::failed(error.to_string()))
    }
}
