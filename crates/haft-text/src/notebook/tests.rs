use super::plan::CellProblem;
use proptest::prelude::*;
use serde_json::json;

use super::show::Part;
use super::*;
use crate::Source;

const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Títle\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "calc",
   "metadata": {"x": 1.0},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": ["4\n"]
    }
   ],
   "source": "2 + 2"
  }
 ],
 "metadata": {"kernelspec": {"language": "python"}},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

fn edit(cell: Option<&str>, kind: Option<CellKind>, source: &str, mode: CellMode) -> CellEdit {
    CellEdit { cell: cell.map(str::to_owned), kind, source: source.to_owned(), mode }
}

fn planned(text: &str, edit: &CellEdit) -> (String, CellPlanned) {
    let planned = plan_cell(&Source::new(String::from(text).into()).unwrap(), edit).unwrap();
    (String::from_utf8(planned.bytes.clone()).unwrap(), planned)
}

#[test]
fn a_replaced_code_cell_loses_its_outputs() {
    let (after, planned) = planned(NOTEBOOK, &edit(Some("calc"), None, "a\nb", CellMode::Replace));
    let expected = NOTEBOOK
        .replace("\"execution_count\": 3", "\"execution_count\": null")
        .replace("\"source\": \"2 + 2\"", "\"source\": [\n    \"a\\n\",\n    \"b\"\n   ]");
    let from = expected.find("[\n    {\n     \"name\"").unwrap();
    let to = expected.find("],\n   \"source\": [\n    \"a").unwrap();
    assert_eq!(after, format!("{}[{}", &expected[..from], &expected[to..]));
    assert_eq!((planned.number, planned.kind, planned.was.as_deref()), (1, CellKind::Code, Some("2 + 2")));
}

#[test]
fn a_new_cell_is_written_in_the_style_of_the_file() {
    let (after, planned) =
        planned(NOTEBOOK, &edit(Some("intro"), Some(CellKind::Code), "x = 'é'", CellMode::Insert));
    let id = planned.cell_id.unwrap();
    let cell = format!(
        "  {{\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"{id}\",\n   \"metadata\": {{}},\n   \"outputs\": [],\n   \"source\": [\n    \"x = 'é'\"\n   ]\n  }},\n"
    );
    let at = NOTEBOOK.find("  {\n   \"cell_type\": \"code\"").unwrap();
    assert_eq!(after, format!("{}{cell}{}", &NOTEBOOK[..at], &NOTEBOOK[at..]));
    assert_eq!(planned.number, 1);
}

#[test]
fn cells_are_deleted_with_their_commas() {
    for cell in ["intro", "calc", "0", "cell-1"] {
        let (after, _) = planned(NOTEBOOK, &edit(Some(cell), None, "", CellMode::Delete));
        let value: Value = serde_json::from_str(&after).unwrap();
        assert_eq!(value["cells"].as_array().unwrap().len(), 1);
        let (empty, _) = planned(&after, &edit(Some("0"), None, "", CellMode::Delete));
        assert!(empty.contains("\"cells\": [],"));
        let (again, _) = planned(&empty, &edit(None, Some(CellKind::Markdown), "x", CellMode::Insert));
        assert!(again.starts_with("{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\""), "{again}");
    }
}

#[test]
fn a_cell_can_become_one_of_another_kind() {
    let (after, planned) =
        planned(NOTEBOOK, &edit(Some("1"), Some(CellKind::Markdown), "# x", CellMode::Replace));
    let value: Value = serde_json::from_str(&after).unwrap();
    assert_eq!(
        value["cells"][1],
        json!({"cell_type": "markdown", "id": "calc", "metadata": {"x": 1.0}, "source": ["# x"]})
    );
    assert_eq!(planned.cell_id.as_deref(), Some("calc"));
}

#[test]
fn errors_have_hints() {
    let fail = |text: &str, edit: &CellEdit| {
        plan_cell(&Source::new(String::from(text).into()).unwrap(), edit).unwrap_err()
    };
    let problem = fail(NOTEBOOK, &edit(Some("clac"), None, "", CellMode::Delete));
    assert_eq!(problem.message(), "it has no cell `clac`");
    assert!(problem.hint().contains("`calc`"), "{}", problem.hint());
    assert_eq!(fail(NOTEBOOK, &edit(None, None, "", CellMode::Replace)), CellProblem::NoCell);
    assert_eq!(fail(NOTEBOOK, &edit(None, None, "", CellMode::Insert)), CellProblem::NoKind);
    assert!(matches!(fail("{", &edit(None, None, "", CellMode::Delete)), CellProblem::NoNotebook(_)));
    let old = r#"{"worksheets": [{"cells": []}], "nbformat": 3}"#;
    assert_eq!(fail(old, &edit(None, None, "", CellMode::Delete)), CellProblem::OldFormat(3));
}

#[test]
fn escapes_marks_and_line_ends_stay_as_the_file_has_them() {
    let text = format!("\u{feff}{}", NOTEBOOK.replace('í', "\\u00ed").replace('\n', "\r\n"));
    let (after, _) = planned(&text, &edit(Some("0"), None, "é\n😀", CellMode::Replace));
    assert!(after.starts_with('\u{feff}') && after.ends_with("}\r\n"));
    assert!(after.contains("[\r\n    \"\\u00e9\\n\",\r\n    \"\\ud83d\\ude00\"\r\n   ]"), "{after}");
    let compact =
        r#"{"cells":[{"cell_type":"raw","metadata":{},"source":"a"}],"nbformat":4,"nbformat_minor":2}"#;
    let (after, planned) = planned(compact, &edit(Some("0"), Some(CellKind::Raw), "b", CellMode::Insert));
    assert_eq!(planned.cell_id, None);
    assert_eq!(
        after,
        r#"{"cells":[{"cell_type":"raw","metadata":{},"source":"a"},{"cell_type":"raw","metadata":{},"source":["b"]}],"nbformat":4,"nbformat_minor":2}"#
    );
}

#[test]
fn utf_16_is_changed_in_utf_16() {
    let bytes: Vec<u8> =
        std::iter::once(0xFEFF).chain(NOTEBOOK.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let planned =
        plan_cell(&Source::new(bytes).unwrap(), &edit(Some("calc"), None, "é", CellMode::Replace)).unwrap();
    let after = Source::new(planned.bytes).unwrap();
    assert!(serde_json::from_str::<Value>(after.text()).is_ok());
    assert!(after.marked());
}

#[test]
fn outputs_are_shown_without_colours_and_pictures_apart() {
    let text = json!({"cells": [{"cell_type": "code", "execution_count": 1, "source": ["plot()"], "outputs": [
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\u{1b}[0;31mE\u{1b}[0m: v"]},
        {"output_type": "display_data", "data": {"image/png": "aGk=\n", "text/plain": ["<Figure>"]}},
        {"output_type": "execute_result", "data": {"text/html": "<b>4</b>", "text/plain": "4"}},
        {"output_type": "stream", "text": "x".repeat(9000)}
    ]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 2});
    let shown = show(&text.to_string()).unwrap();
    let [Part::Text(before), Part::Picture(picture), Part::Text(after)] = &shown.parts[..] else {
        panic!("{:?}", shown.parts)
    };
    assert_eq!(
        before,
        "<cell number=\"0\" id=\"cell-0\" type=\"code\" run=\"1\">\nplot()\n</cell>\n<output of=\"0\">\nE: v\n[image/png, 2 bytes]\n"
    );
    assert_eq!(picture, b"hi");
    assert!(
        after.starts_with("4\n[text/html, 8 bytes]\nxxx")
            && after.ends_with("[1000 more characters of output]\n</output>\n")
    );
}

#[test]
fn format_3_is_shown_too() {
    let text = json!({"worksheets": [{"cells": [
        {"cell_type": "heading", "level": 2, "source": "Head"},
        {"cell_type": "code", "language": "python", "input": "1", "prompt_number": 2,
         "outputs": [{"output_type": "pyout", "text": ["1"]}]}
    ]}], "nbformat": 3});
    let shown = show(&text.to_string()).unwrap();
    assert_eq!(shown.cells, 2);
    let [Part::Text(text)] = &shown.parts[..] else { panic!() };
    assert!(
        text.contains("## Head")
            && text.contains("language=\"python\" run=\"2\">\n1\n</cell>\n<output of=\"1\">\n1\n")
    );
}

fn any_cell() -> impl Strategy<Value = Value> {
    ("[a-zA-Z0-9_-]{1,8}", ".{0,20}", any::<bool>()).prop_map(|(id, source, code)| {
        if code {
            json!({"cell_type": "code", "id": id, "execution_count": 1, "metadata": {}, "outputs": [{"output_type": "stream", "text": source}], "source": [source]})
        } else {
            json!({"cell_type": "markdown", "id": id, "metadata": {"π": 1.5e3}, "source": source})
        }
    })
}

proptest! {
    #[test]
    fn only_the_cell_changes(
        cells in prop::collection::vec(any_cell(), 1..5),
        at in any::<prop::sample::Index>(),
        source in "(.|\n){0,30}",
        mode in prop_oneof![Just(CellMode::Replace), Just(CellMode::Insert), Just(CellMode::Delete)],
        pretty in any::<bool>(),
    ) {
        let notebook = json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
        let text = if pretty { serde_json::to_string_pretty(&notebook).unwrap() } else { notebook.to_string() };
        let at = at.index(cells.len());
        let wanted = edit(Some(&format!("cell-{at}")), Some(CellKind::Code), &source.replace('\0', ""), mode);
        // An id may look like the number of another cell.
        prop_assume!(cells.iter().all(|cell| cell["id"] != format!("cell-{at}")));
        let (after, planned) = planned(&text, &wanted);
        let value: Value = serde_json::from_str(&after).unwrap();
        let mut expected = cells;
        match mode {
            CellMode::Delete => { expected.remove(at); }
            CellMode::Replace => expected[at] = value["cells"][at].clone(),
            CellMode::Insert => expected.insert(at + 1, value["cells"][at + 1].clone()),
        }
        prop_assert_eq!(&value["cells"], &json!(expected));
        if mode != CellMode::Delete {
            prop_assert_eq!(joined(value["cells"][planned.number].get("source")), wanted.source);
        }
        let before = Notebook::parse(&text).unwrap().cells().unwrap();
        for (number, cell) in before.iter().enumerate().filter(|(number, _)| *number != at) {
            prop_assert!(after.contains(cell.get()), "cell {number} changed");
        }
        let tail = &text[text.rfind("\"metadata\"").unwrap()..];
        prop_assert!(after.ends_with(tail));
    }
}
