//! Times as the dialects write them.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};

/// ISO 8601 in UTC, to the millisecond.
pub fn iso(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Seconds since 1970, with a fraction.
pub fn seconds(time: SystemTime) -> f64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}
