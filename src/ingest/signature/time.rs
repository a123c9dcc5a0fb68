//! Reading and writing the time that a sender signs.
//!
//! Only whole numbers count as Unix times. One official library takes `123.9`, another refuses it;
//! a value that two readers understand differently has no place in a check of freshness.

use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};

/// How the signed time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// Whole seconds since 1970.
    UnixSeconds,
    /// Whole milliseconds since 1970.
    UnixMillis,
    /// ISO-8601 with a zone, as in RFC 3339.
    Iso8601,
}

/// Enough digits for every instant that chrono can hold in milliseconds.
const DIGITS_MAX: usize = 16;

impl TimeFormat {
    pub(super) const WORDS: &str = "`unix`, `unix-ms` or `iso8601`";

    /// The instant, or nothing when the text is not exactly of this format.
    pub(super) fn parse(self, text: &str) -> Option<DateTime<Utc>> {
        match self {
            Self::UnixSeconds => DateTime::from_timestamp(digits(text)?, 0),
            Self::UnixMillis => DateTime::from_timestamp_millis(digits(text)?),
            Self::Iso8601 => DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc()),
        }
    }

    /// The text that a sender puts down for this instant.
    pub(super) fn render(self, time: DateTime<Utc>) -> String {
        match self {
            Self::UnixSeconds => time.timestamp().to_string(),
            Self::UnixMillis => time.timestamp_millis().to_string(),
            Self::Iso8601 => time.to_rfc3339_opts(SecondsFormat::Secs, true),
        }
    }
}

fn digits(text: &str) -> Option<i64> {
    let plain = text.len() <= DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

impl FromStr for TimeFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "unix" => Ok(Self::UnixSeconds),
            "unix-ms" => Ok(Self::UnixMillis),
            "iso8601" => Ok(Self::Iso8601),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_unix_times() {
        let parse = |text| TimeFormat::UnixSeconds.parse(text).map(|time| time.timestamp());
        assert_eq!(parse("1614265330"), Some(1_614_265_330));
        for text in
            ["", "1614265330.9", "+1614265330", "-1", " 1614265330", "1e9", "٣", "99999999999999999999"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn iso_times_need_their_zone() {
        let parse = |text| TimeFormat::Iso8601.parse(text).map(|time| time.timestamp());
        assert_eq!(parse("2021-03-25T05:09:27Z"), Some(1_616_648_967));
        assert_eq!(parse("2021-03-25T07:09:27+02:00"), Some(1_616_648_967));
        assert_eq!(parse("2021-03-25T05:09:27"), None);
        assert_eq!(parse("2021-03-25T05:09:2"), None);
    }

    #[test]
    fn what_is_rendered_is_parsed_again() {
        let time = DateTime::from_timestamp(1_700_000_000, 0).expect("in range");
        for format in [TimeFormat::UnixSeconds, TimeFormat::UnixMillis, TimeFormat::Iso8601] {
            assert_eq!(format.parse(&format.render(time)), Some(time));
        }
    }
}
