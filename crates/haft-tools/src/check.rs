//! placeholder for merge
/// x
#[derive(Clone, Default)]
pub struct Checkers;
/// x
#[derive(Debug, Clone)]
pub struct Checked {
    pub checker: &'static str,
    pub errors: Vec<Found>,
    pub more: usize,
    pub existing: usize,
}
/// x
#[derive(Debug, Clone)]
pub struct Found {
    pub line: usize,
    pub message: String,
    pub source: String,
    pub marker: String,
}
impl Checkers {
    pub fn none() -> Self {
        Self
    }
    pub fn standard() -> Self {
        Self
    }
    pub fn knows(&self, _n: &str) -> bool {
        false
    }
    pub fn compare(&self, _f: &str, _b: Option<&str>, _a: &str) -> Option<Checked> {
        None
    }
}
