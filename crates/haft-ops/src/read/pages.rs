//! Page ranges in the notation of print dialogs: `3`, `1-5`, `1,4-6`. Knows nothing of documents.

use haft_core::Fault;

/// A list of page ranges. Pages are counted from 1 and keep the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "pdf", derive(serde::Serialize, serde::Deserialize))]
pub struct Pages(Vec<(u32, u32)>);

impl Pages {
    /// Parses `3`, `1-5`, `1,4-6` and the open range `7-`, which reaches to the last page.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            Fault::invalid(format!("`pages` is `{text}`, which names no pages"))
                .hint("write page numbers as `3`, `1-5` or `1,4-6`, counted from 1")
        };
        let number = |part: &str| part.trim().parse::<u32>().ok().filter(|number| *number > 0);
        let range = |part: &str| match part.split_once(['-', '–']) {
            None => number(part).map(|page| (page, page)),
            Some((first, "")) => number(first).map(|first| (first, u32::MAX)),
            Some((first, last)) => number(first).zip(number(last)).filter(|(first, last)| first <= last),
        };
        let ranges: Option<Vec<(u32, u32)>> = text.split(',').map(range).collect();
        ranges.map(Self).ok_or_else(wrong)
    }

    /// The listed pages that exist in a document of `total` pages, without duplicates.
    #[cfg(any(feature = "pdf", test))]
    pub(super) fn up_to(&self, total: u32) -> Vec<u32> {
        let mut all = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (first, last) in &self.0 {
            all.extend((*first..=(*last).min(total)).filter(|page| seen.insert(*page)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ranges_and_single_pages() {
        let pages = |text: &str| Pages::parse(text).unwrap().up_to(9);
        assert_eq!(pages("3"), [3]);
        assert_eq!(pages("1-3"), [1, 2, 3]);
        assert_eq!(pages("1, 4-6,5"), [1, 4, 5, 6]);
        assert_eq!(pages("8-"), [8, 9]);
        assert_eq!(pages("10-20"), [0_u32; 0]);
        assert_eq!(pages("1-4294967295"), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn rejects_text_that_is_not_a_page_list() {
        for text in ["", "0", "a", "3-1", "1,", "-3", "1-2-3", "99999999999"] {
            assert!(Pages::parse(text).is_err(), "{text}");
        }
    }
}
