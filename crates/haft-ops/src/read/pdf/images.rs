//! Whether a page shows images besides its text. Looks at the dictionaries of its resources, and decodes no image.

use pdf_extract::{Dictionary, Document, Object, ObjectId};

/// Smallest side of an image that counts, in pixels: smaller ones are bullets and rules.
const MIN_SIDE: i64 = 16;
/// Deepest nesting of forms that is followed.
const MAX_DEPTH: usize = 4;
/// Most objects of one page that are looked at.
const MAX_OBJECTS: usize = 1000;

/// Whether a page has an image among its resources.
pub(super) fn on_page(document: &Document, page: ObjectId) -> bool {
    let Ok((own, inherited)) = document.get_page_resources(page) else { return false };
    let inherited = inherited.into_iter().filter_map(|id| document.get_dictionary(id).ok());
    let mut left = MAX_OBJECTS;
    own.into_iter().chain(inherited).any(|resources| in_resources(document, resources, 0, &mut left))
}

fn in_resources(document: &Document, resources: &Dictionary, depth: usize, left: &mut usize) -> bool {
    let objects = resources.get(b"XObject").ok().and_then(|objects| resolved(document, objects));
    let Some(Object::Dictionary(objects)) = objects else { return false };
    objects.iter().any(|(_, object)| {
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        let Some(Object::Stream(stream)) = resolved(document, object) else { return false };
        let side = |name: &[u8]| {
            let value = stream.dict.get(name).ok().and_then(|value| resolved(document, value));
            value.and_then(|value| value.as_i64().ok()).unwrap_or_default()
        };
        match stream.dict.get(b"Subtype").and_then(Object::as_name) {
            Ok(b"Image") => side(b"Width") >= MIN_SIDE && side(b"Height") >= MIN_SIDE,
            Ok(b"Form") if depth < MAX_DEPTH => {
                let own = stream.dict.get(b"Resources").ok().and_then(|own| resolved(document, own));
                match own {
                    Some(Object::Dictionary(own)) => in_resources(document, own, depth + 1, left),
                    _ => false,
                }
            }
            _ => false,
        }
    })
}

/// An object, or the one that it refers to.
fn resolved<'a>(document: &'a Document, object: &'a Object) -> Option<&'a Object> {
    document.dereference(object).ok().map(|(_, object)| object)
}
