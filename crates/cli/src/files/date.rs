//! Times as the tools show them, in the time zone of this machine.

use chrono::{DateTime, Local, TimeZone};
use vector_client::Time;

/// Half a year of 365.2425 days: what is older, or in the future, shows its year instead of the hour.
const RECENT: i64 = 31_556_952 / 2;

fn local(time: Time) -> Option<DateTime<Local>> {
    Local.timestamp_opt(time.seconds, time.nanoseconds).single()
}

/// Now, in seconds since 1970.
#[allow(clippy::disallowed_methods)] // what people call now
pub fn now() -> Time {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() }
}

/// As `ls -l` shows it.
pub fn short(time: Time, now: Time) -> String {
    let recent = time <= now && time.seconds > now.seconds - RECENT;
    formatted(time, if recent { "%b %e %H:%M" } else { "%b %e  %Y" })
}

/// As `stat` shows it: `2024-03-01 10:11:12.123456789 +0100`.
pub fn full(time: Time) -> String {
    formatted(time, "%Y-%m-%d %H:%M:%S.%f %z")
}

/// By a format of strftime.
pub fn formatted(time: Time, format: &str) -> String {
    match local(time) {
        Some(date) => date.format(format).to_string(),
        None => time.seconds.to_string(),
    }
}
