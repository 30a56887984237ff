//! Pagination of lists. A cursor is the name of the last item sent, so it stays valid while other items come and go.

use rmcp::ErrorData;
use rmcp::model::PaginatedRequestParams;

/// Items per page.
pub(super) const PAGE_SIZE: usize = 100;

/// The requested page, and the cursor of the next one.
pub(super) fn page<T>(
    items: Vec<T>,
    name: impl Fn(&T) -> &str,
    request: Option<&PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match request.and_then(|request| request.cursor.as_deref()) {
        None => 0,
        Some(cursor) => match items.iter().position(|item| name(item) == cursor) {
            Some(index) => index + 1,
            None => return Err(ErrorData::invalid_params("there is no such cursor", None)),
        },
    };
    let more = items.len() > start + PAGE_SIZE;
    let page: Vec<T> = items.into_iter().skip(start).take(PAGE_SIZE).collect();
    let next = if more { page.last().map(|item| name(item).to_owned()) } else { None };
    Ok((page, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("n{number}")).collect()
    }

    #[test]
    fn pages_cover_the_whole_list() {
        let mut cursor = None;
        let mut all = Vec::new();
        for _ in 0..3 {
            let request = PaginatedRequestParams::default().with_cursor(cursor.take());
            let (page, next) = page(names(250), |name| name.as_str(), Some(&request)).unwrap();
            all.extend(page);
            cursor = next;
        }
        assert_eq!(all, names(250));
        assert_eq!(cursor, None);
    }

    #[test]
    fn a_full_last_page_has_no_cursor() {
        let (page, next) = page(names(PAGE_SIZE), |name| name.as_str(), None).unwrap();
        assert_eq!((page.len(), next), (PAGE_SIZE, None));
    }

    #[test]
    fn an_unknown_cursor_is_refused() {
        let request = PaginatedRequestParams::default().with_cursor(Some("x".into()));
        assert!(page(names(3), |name| name.as_str(), Some(&request)).is_err());
    }
}
