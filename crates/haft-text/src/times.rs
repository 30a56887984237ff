//! Formats of times in replies.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};

/// Formats a time as ISO 8601 in UTC, with milliseconds.
pub fn iso(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Seconds since the Unix epoch, with a fraction; negative before it.
pub fn seconds(time: SystemTime) -> f64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}
