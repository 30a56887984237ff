//! Plans to take back what setup wrote: by its record as long as the file is as setup left it, and otherwise key by key.

use std::collections::BTreeSet;
use std::path::PathBuf;

use haft_sandbox::user::Reader;
use serde_json::{Map, Value};

use super::client::{Client, Extra, Level};
use super::document::{Form, Problem, at};
use super::edit::{Edit, Made};
use super::plan::{Draft, FileChange, Plan, Present, edits_of, files_of, grouped, settings_file, untouched};
use super::{ENTRY, Places};
use crate::error::HostError;

/// Plans to take back what setup wrote, and the entry named haft whoever wrote it.
pub fn plan_removal(client: &'static Client, level: Level, places: &Places) -> Result<Plan, HostError> {
    let files = files_of(client, level, places)?;
    let entry = Edit::set(&[client.servers, &[ENTRY]].concat(), Value::Null);
    let extras: Vec<Extra> =
        [client.question, client.tools].iter().flat_map(|switch| switch.extras()).copied().collect();
    let settings = settings_file(client, places, files);
    let (mut planned, mut notes) = (Vec::new(), Vec::new());
    for (path, entry) in grouped(client, places, files, entry, Vec::new()) {
        let is_settings = settings.as_ref() == Some(&path);
        let extras = if is_settings { extras.as_slice() } else { &[] };
        planned.push(plan_removal_in(client.form, path, entry.first(), extras, places, &mut notes)?);
    }
    Ok(Plan { client, level, files: planned, notes, records: places.records.clone() })
}

fn plan_removal_in(
    form: Form,
    path: PathBuf,
    entry: Option<&Edit>,
    extras: &[Extra],
    places: &Places,
    notes: &mut Vec<String>,
) -> Result<FileChange, HostError> {
    let Present { text, record, restored } = Present::read(&path, places)?;
    let had_record = record.is_some();
    let is_restored = restored.is_some();
    let base = restored.or_else(|| text.clone()).unwrap_or_default();
    let mut draft = Draft { form, text: base, splices: Vec::new() };
    let mut remove = || -> Result<(), Problem> {
        for made in record.iter().filter(|_| !is_restored).flat_map(|record| record.made.iter().rev()) {
            let document = draft.meaning()?;
            draft.take(&made.removal(&document))?;
        }
        let by_name = |edit: Edit| Made { edit, replaced: None, made_from: None };
        if let Some(entry) = entry {
            let document = draft.meaning()?;
            draft.take(&by_name(entry.clone()).removal(&document))?;
        }
        for extra in extras {
            let document = draft.meaning()?;
            let found = present(*extra, &document);
            let is_left =
                !found.is_empty() && found.iter().all(|edit| !edit.names_haft() && edit.is_in(&document));
            if is_left && record.is_none() {
                let keys = found.iter().map(|edit| edit.path().join(".")).collect::<BTreeSet<_>>();
                let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                notes.push(format!(
                    "{} in `{}` is left as it is, since setup has no record of writing it",
                    keys.join(", "),
                    path.display()
                ));
            }
            for edit in found.into_iter().filter(Edit::names_haft) {
                let document = draft.meaning()?;
                draft.take(&by_name(edit).removal(&document))?;
            }
        }
        Ok(())
    };
    remove().map_err(|problem| untouched(&path, &problem))?;
    let is_empty = draft.meaning().is_ok_and(|document| document.as_object().is_some_and(Map::is_empty));
    let is_own = record.as_ref().is_some_and(|record| record.created);
    let after = match text {
        Some(_) if is_own && is_empty => None,
        Some(_) => Some(draft.text),
        None => None,
    };
    let folders = record.map(|record| record.folders).unwrap_or_default();
    Ok(FileChange { path, before: text, after, record: None, had_record, reader: Reader::Default, folders })
}

/// What a document has of an extra; for extras of tools, whichever tools they are about.
fn present(extra: Extra, document: &Value) -> Vec<Edit> {
    let owned = |path: &[&str]| -> Vec<String> { path.iter().map(|key| (*key).to_owned()).collect() };
    match extra {
        Extra::ItemPerTool(list, before) => {
            let items = at(document, &owned(list)).and_then(Value::as_array).into_iter().flatten();
            let items = items.filter_map(Value::as_str).filter(|text| text.starts_with(before));
            items.map(|text| Edit::item(list, text)).collect()
        }
        Extra::TextPerTool(table, before, ..) => {
            let tools = at(document, &owned(table)).and_then(Value::as_object).into_iter().flatten();
            let tools = tools.filter(|(key, _)| key.starts_with(before));
            tools.map(|(key, value)| Edit::set(&[table, &[key.as_str()]].concat(), value.clone())).collect()
        }
        extra => edits_of(extra, &[]).into_iter().filter(Edit::is_about_value).collect(),
    }
}
