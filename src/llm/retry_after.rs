//! How long a provider asks us to wait, in every form that providers use.
//!
//! A server's delay is a floor, never shortened: a call before it is over is refused again and
//! may count against the limit. Delays that make no sense are ignored rather than obeyed.
//!
//! Sources: RFC 9110 section 10.2.3 (`Retry-After`), `retry-after-ms` and `x-ms-retry-after-ms` of
//! OpenAI and Azure, `google.rpc.RetryInfo` in Gemini's error details.

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use regex::Regex;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Longest delay that is believed; longer ones count as this. Azure sends 86,400 s for a day.
pub const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The delay that an answer asks for: headers first, then the body's details, then its prose.
#[must_use]
pub fn delay(headers: &HeaderMap, body: &Value, message: &str, now: DateTime<Utc>) -> Option<Duration> {
    from_headers(headers, now).or_else(|| from_details(body)).or_else(|| from_prose(message))
}

/// `retry-after-ms`, then `x-ms-retry-after-ms`, then `retry-after` as seconds or HTTP date.
#[must_use]
pub fn from_headers(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let milliseconds = ["retry-after-ms", "x-ms-retry-after-ms"]
        .into_iter()
        .find_map(|name| text(name)?.parse().ok().and_then(|ms: f64| believable(ms / 1000.0)));
    milliseconds.or_else(|| {
        let value = text("retry-after")?;
        match value.parse::<f64>() {
            Ok(seconds) => believable(seconds),
            Err(_) => until(value, now),
        }
    })
}

/// Gemini's `error.details[].retryDelay`, such as `45.837906927s`.
fn from_details(body: &Value) -> Option<Duration> {
    // Gemini's compatibility URL wraps its error object in an array.
    let body = body.get(0).unwrap_or(body);
    let details = body.get("error")?.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay"))?.as_str()?;
    believable(delay.trim().strip_suffix('s')?.parse().ok()?)
}

/// "retry in 45.8s", "retry after 45 seconds", "try again in 120ms", "try again in 1m2.5s".
fn from_prose(message: &str) -> Option<Duration> {
    #[expect(clippy::expect_used, reason = "the patterns are constants that the tests compile")]
    static PROSE: LazyLock<(Regex, Regex)> = LazyLock::new(|| {
        let sentence = r"(?i)\b(?:retry|again)\s+(?:in|after)\s+((?:\d{1,9}(?:\.\d{1,12})?\s*[a-z]+\s*)+)";
        let part = r"(?i)(\d+(?:\.\d+)?)\s*([a-z]+)";
        (Regex::new(sentence).expect("a valid pattern"), Regex::new(part).expect("a valid pattern"))
    });
    let (sentence, part) = &*PROSE;
    let span = sentence.captures(message)?.get(1)?.as_str();
    let mut seconds = 0.0;
    for found in part.captures_iter(span) {
        let number: f64 = found[1].parse().ok()?;
        seconds += number
            * match found[2].to_ascii_lowercase().as_str() {
                "ms" | "millisecond" | "milliseconds" => 0.001,
                "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
                "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
                "h" | "hour" | "hours" => 3600.0,
                _ => return None,
            };
    }
    believable(seconds)
}

fn until(date: &str, now: DateTime<Utc>) -> Option<Duration> {
    let at = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let seconds = i64::try_from(at).ok()?.checked_sub(now.timestamp())?;
    if seconds <= 0 {
        return None;
    }
    Some(Duration::from_secs(seconds.unsigned_abs()).min(DELAY_MAX))
}

/// Zero, negative, infinite and not-a-number delays say nothing; enormous ones mean "very long".
fn believable(seconds: f64) -> Option<Duration> {
    if !seconds.is_finite() || seconds <= 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(DELAY_MAX).min(DELAY_MAX))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-11-29T12:00:00Z".parse().expect("a valid time")
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).expect("a valid header");
        pairs.iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect()
    }

    fn seconds(pairs: &[(&'static str, &str)]) -> Option<f64> {
        from_headers(&headers(pairs), now()).map(|delay| delay.as_secs_f64())
    }

    #[test]
    fn every_header_form_is_read() {
        assert_eq!(seconds(&[("retry-after", "7")]), Some(7.0));
        assert_eq!(seconds(&[("retry-after", "0.25")]), Some(0.25));
        assert_eq!(seconds(&[("retry-after-ms", "1500")]), Some(1.5));
        assert_eq!(seconds(&[("x-ms-retry-after-ms", "250")]), Some(0.25));
        assert_eq!(seconds(&[("retry-after", "Sun, 29 Nov 2026 12:00:30 GMT")]), Some(30.0));
        assert_eq!(seconds(&[("retry-after", "86400")]), Some(86_400.0));
    }

    #[test]
    fn milliseconds_win_over_seconds_unless_they_make_no_sense() {
        assert_eq!(seconds(&[("retry-after-ms", "1500"), ("retry-after", "2")]), Some(1.5));
        assert_eq!(seconds(&[("retry-after-ms", "soon"), ("retry-after", "2")]), Some(2.0));
        assert_eq!(seconds(&[("retry-after-ms", "-5"), ("retry-after", "2")]), Some(2.0));
    }

    #[test]
    fn a_delay_without_sense_is_ignored() {
        for odd in ["-1", "0", "NaN", "inf", "-inf", "soon", "", "Sun, 29 Nov 2020 12:00:30 GMT"] {
            assert_eq!(seconds(&[("retry-after", odd)]), None, "{odd:?}");
        }
    }

    #[test]
    fn an_enormous_delay_counts_as_a_day() {
        for enormous in ["1e30", "99999999999", "Sun, 29 Nov 2099 12:00:30 GMT"] {
            assert_eq!(seconds(&[("retry-after", enormous)]), Some(DELAY_MAX.as_secs_f64()), "{enormous}");
        }
    }

    #[test]
    fn the_fraction_of_a_gemini_delay_is_kept() {
        let body = json!({"error": {"details": [{"x": 1}, {"retryDelay": "45.837906927s"}]}});
        let expected = Some(Duration::from_nanos(45_837_906_927));
        assert_eq!(delay(&HeaderMap::new(), &body, "", now()), expected);
        assert_eq!(delay(&HeaderMap::new(), &json!([body]), "", now()), expected);
    }

    #[test]
    fn a_delay_in_prose_is_read_in_every_unit() {
        let table = [
            ("Please retry in 45.8s.", Some(45.8)),
            ("Please retry after 45 seconds.", Some(45.0)),
            ("Please try again in 120ms.", Some(0.12)),
            ("Please try again in 1m2.5s. Visit", Some(62.5)),
            ("try again in 7m30s", Some(450.0)),
            ("try again in 1h2m3s", Some(3723.0)),
            ("try again in 6m", Some(360.0)),
            ("Please try again later.", None),
            ("retry in a moment", None),
        ];
        for (message, expected) in table {
            let read = from_prose(message).map(|delay| (delay.as_secs_f64() * 1000.0).round() / 1000.0);
            assert_eq!(read, expected, "{message}");
        }
    }

    #[test]
    fn a_header_wins_over_the_body() {
        let body = json!({"error": {"details": [{"retryDelay": "45s"}]}});
        let read = delay(&headers(&[("retry-after", "3")]), &body, "retry in 9s", now());
        assert_eq!(read, Some(Duration::from_secs(3)));
    }
}
