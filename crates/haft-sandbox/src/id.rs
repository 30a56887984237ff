//! Unique names that cannot be guessed.

/// 128 random bits from the kernel, as 32 hexadecimal digits.
///
/// # Panics
/// If the kernel provides no random numbers: sessions, approvals and process marks rely on these names, so it would not be
/// safe to go on.
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("the kernel gives no random numbers: {error}");
    }
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ids_are_the_same() {
        let ids: std::collections::HashSet<String> = (0..1000).map(|_| random_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }
}
