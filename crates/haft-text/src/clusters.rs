//! Cuts text between grapheme clusters, the characters that people see, so that no accent loses its letter and no emoji
//! falls apart. Limits still count code points, as the descriptions of tools do.

use unicode_segmentation::GraphemeCursor;

/// Longest cluster that is kept whole, in bytes. Clusters have no upper bound, so a longer one is cut like other text.
const MAX_CLUSTER: usize = 128;

/// The longest prefix of at most `max_chars` code points that ends between clusters; `None` if the whole text fits.
pub(crate) fn clip(text: &str, max_chars: usize) -> Option<&str> {
    let (at, _) = text.char_indices().nth(max_chars)?;
    Some(&text[..floor(text, at)])
}

/// The last position at or before `at` that is between clusters. `at` must be between code points.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    if cursor.is_boundary(text, 0) != Ok(false) {
        return at;
    }
    match cursor.prev_boundary(text, 0) {
        Ok(Some(before)) if at - before <= MAX_CLUSTER => before,
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_falls_between_clusters() {
        assert_eq!(clip("abc", 3), None);
        assert_eq!(clip("abcd", 3), Some("abc"));
        // A letter with a combining accent, a family joined by zero-width joiners, a flag, a Windows line end.
        for cluster in ["e\u{301}", "👨\u{200d}👩\u{200d}👧", "🇩🇪", "\r\n"] {
            let text = format!("a{cluster}b");
            let count = cluster.chars().count();
            for max in 1..=count {
                assert_eq!(clip(&text, max), Some("a"), "{cluster:?} at {max}");
            }
            assert_eq!(clip(&text, 1 + count), Some(&text[..text.len() - 1]), "{cluster:?}");
        }
    }

    #[test]
    fn a_cluster_without_end_is_cut_all_the_same() {
        let text = format!("a{}", "\u{301}".repeat(1000));
        assert_eq!(clip(&text, 500).map(|shown| shown.chars().count()), Some(500));
    }
}
