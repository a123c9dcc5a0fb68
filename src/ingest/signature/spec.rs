//! A scheme spelled out in configuration, for senders that have no preset.
//!
//! Every field is text, as it stands in the file, and every fault is collected: an operator who
//! describes a signature should not learn of the mistakes one start at a time.

use std::str::FromStr;

use chrono::TimeDelta;
use http::HeaderName;
use thiserror::Error;

use super::scheme::{IdPlace, Scheme, SignatureList, SignedTime, TimePlace};
use super::{Algorithm, KeyEncoding, SignatureEncoding, Template, TimeFormat};
use crate::ingest::json::Pointer;

/// A scheme as configuration writes it. Only `header` must be given.
///
/// The default, with a header of one's own, is an HMAC-SHA-256 in hex over the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemeSpec {
    /// The header with the signature, for example `X-Signature`.
    pub header: String,
    /// What stands before a single signature, for example `sha256=`. Default: nothing.
    pub prefix: Option<String>,
    /// `single` (default), `spaced` (`v1,<sig> v1,<sig>`) or `pairs` (`t=…,v1=…`).
    pub list: Option<String>,
    /// The tag of our entries in a list. Default: `v1`.
    pub version: Option<String>,
    /// `sha256` (default), `sha1` or `sha512`.
    pub algorithm: Option<String>,
    /// How signatures are written: `hex` (default) or `base64`.
    pub encoding: Option<String>,
    /// How the secret is written: `utf8` (default), `base64`, `hex` or `whsec`.
    pub key_encoding: Option<String>,
    /// What is signed, of `{id}`, `{timestamp}`, `{method}`, `{uri}`, `{body}` and text between
    /// them. Default: `{body}`.
    pub template: Option<String>,
    /// Where the signed time stands: `header:X-Timestamp`, `body:/sent_at` or `pair:t`.
    /// Default: none.
    pub timestamp: Option<String>,
    /// `unix` (seconds, default), `unix-ms` or `iso8601`.
    pub timestamp_format: Option<String>,
    /// How old a signature may be: a number with `s`, `m` or `h`. Default: `300s`.
    pub past_max: Option<String>,
    /// How far ahead of our clock it may be. Default: `60s`.
    pub future_max: Option<String>,
    /// Where the id of the delivery or its event stands: `header:X-Delivery` or `body:/event_id`;
    /// never the id of the ticket, which would make each later event a duplicate. Default: none,
    /// so that equal bodies count as one event.
    pub id: Option<String>,
    /// How senders reach this server, for example `https://hooks.example.com`. Needed when the
    /// template holds `{uri}`.
    pub public_url: Option<String>,
}

/// One fault in a scheme, with the field that holds it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{field}` {problem}")]
pub struct SchemeFault {
    /// The field of [`SchemeSpec`].
    pub field: &'static str,
    /// What is wrong and what would be right, worded to follow the field.
    pub problem: String,
}

/// Default age that a signature may have (Standard Webhooks' libraries and Slack: five minutes).
pub(in crate::ingest) const PAST_MAX: TimeDelta = TimeDelta::seconds(300);
/// Default lead that a sender's clock may have.
pub(in crate::ingest) const FUTURE_MAX: TimeDelta = TimeDelta::seconds(60);

impl SchemeSpec {
    /// The scheme, or everything that is wrong with it.
    ///
    /// # Errors
    ///
    /// One [`SchemeFault`] for each wrong field and each pair of fields that contradict.
    pub fn parse(&self) -> Result<Scheme, Vec<SchemeFault>> {
        let mut faults = Faults(Vec::new());
        let header = faults.take("header", header_name(&self.header));
        let list = faults.take("list", self.signature_list());
        let algorithm =
            faults.take("algorithm", word(self.algorithm.as_deref(), Algorithm::Sha256, Algorithm::WORDS));
        let encoding = faults.take(
            "encoding",
            word(self.encoding.as_deref(), SignatureEncoding::Hex, SignatureEncoding::WORDS),
        );
        let key_encoding = faults
            .take("key_encoding", word(self.key_encoding.as_deref(), KeyEncoding::Utf8, KeyEncoding::WORDS));
        let template = self.template.as_deref().unwrap_or("{body}");
        let template = faults.take("template", Template::parse(template, self.public_url.as_deref()));
        let time = self.time(&mut faults);
        let id = faults.take("id", self.id_place());
        if let (Some(template), Some(id)) = (&template, &id) {
            self.check_parts(template, time.as_ref(), id, &mut faults);
        }
        let scheme = (|| {
            Some(Scheme {
                header: header?,
                list: list?,
                algorithm: algorithm?,
                encoding: encoding?,
                key_encoding: key_encoding?,
                template: template?,
                time,
                id: id?,
            })
        })();
        scheme.filter(|_| faults.0.is_empty()).ok_or(faults.0)
    }

    fn signature_list(&self) -> Result<SignatureList, String> {
        let version = self.version.clone().unwrap_or_else(|| "v1".to_owned());
        let prefix = self.prefix.clone().unwrap_or_default();
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !plain(&prefix) {
            return Err("goes with a `prefix` of visible ASCII without spaces".into());
        }
        if !plain(&version) || version.is_empty() || version.contains([',', '=']) {
            return Err("goes with a `version` such as `v1`, without `,` and `=`".into());
        }
        match (self.list.as_deref().unwrap_or("single"), prefix.is_empty(), self.version.is_some()) {
            ("single", _, true) => Err("is `single`, so `version` has no meaning".into()),
            ("single", ..) => Ok(SignatureList::Single { prefix }),
            ("spaced" | "pairs", false, _) => Err("is no `single`, so `prefix` has no meaning".into()),
            ("spaced", ..) => Ok(SignatureList::Spaced { version }),
            ("pairs", ..) => Ok(SignatureList::Pairs { version }),
            (other, ..) => Err(format!("is `{other}`; write `single`, `spaced` or `pairs`")),
        }
    }

    fn time(&self, faults: &mut Faults) -> Option<SignedTime> {
        let format = faults.take(
            "timestamp_format",
            word(self.timestamp_format.as_deref(), TimeFormat::UnixSeconds, TimeFormat::WORDS),
        );
        let past_max = faults.take("past_max", tolerance(self.past_max.as_deref(), PAST_MAX));
        let future_max = faults.take("future_max", tolerance(self.future_max.as_deref(), FUTURE_MAX));
        let Some(place) = self.timestamp.as_deref() else {
            let given = [&self.timestamp_format, &self.past_max, &self.future_max];
            if given.into_iter().any(Option::is_some) {
                faults.note("timestamp", "is missing, though its format or a tolerance is given");
            }
            return None;
        };
        let place = faults.take("timestamp", self.time_place(place));
        Some(SignedTime { place: place?, format: format?, past_max: past_max?, future_max: future_max? })
    }

    fn time_place(&self, text: &str) -> Result<TimePlace, String> {
        match text.split_once(':') {
            Some(("header", name)) => header_name(name).map(TimePlace::Header),
            Some(("body", pointer)) => Ok(TimePlace::Body(Pointer::parse(pointer)?)),
            Some(("pair", _)) if self.list.as_deref() != Some("pairs") => {
                Err("stands in a pair, so `list` must be `pairs`".into())
            }
            Some(("pair", key)) if !key.is_empty() => Ok(TimePlace::Pair(key.to_owned())),
            _ => Err(format!("is `{text}`; write `header:X-Timestamp`, `body:/sent_at` or `pair:t`")),
        }
    }

    fn id_place(&self) -> Result<IdPlace, String> {
        let Some(text) = self.id.as_deref() else { return Ok(IdPlace::Nowhere) };
        match text.split_once(':') {
            Some(("header", name)) => header_name(name).map(IdPlace::Header),
            Some(("body", pointer)) => Ok(IdPlace::Body(Pointer::parse(pointer)?)),
            _ => Err(format!("is `{text}`; write `header:X-Delivery` or `body:/event_id`")),
        }
    }

    fn check_parts(&self, template: &Template, time: Option<&SignedTime>, id: &IdPlace, faults: &mut Faults) {
        if template.has_id() && !matches!(id, IdPlace::Header(_)) {
            faults.note("template", "signs `{id}`, so `id` must name the header that holds it");
        }
        if self.timestamp.is_some() && time.is_none() {
            return; // The faults of the timestamp are noted already.
        }
        let outside_body = time.is_some_and(|time| !matches!(time.place, TimePlace::Body(_)));
        if template.has_timestamp() && !outside_body {
            faults.note("template", "signs `{timestamp}`, so `timestamp` must name its header or pair");
        }
        if outside_body && !template.has_timestamp() {
            faults.note(
                "timestamp",
                "is not signed: put `{timestamp}` into the template, or leave it out, since anybody could change it",
            );
        }
    }
}

/// The faults so far.
struct Faults(Vec<SchemeFault>);

impl Faults {
    fn note(&mut self, field: &'static str, problem: impl Into<String>) {
        self.0.push(SchemeFault { field, problem: problem.into() });
    }

    fn take<T>(&mut self, field: &'static str, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.note(field, problem)).ok()
    }
}

fn header_name(text: &str) -> Result<HeaderName, String> {
    if text.is_empty() {
        return Err("is missing; name the header, for example `X-Signature`".into());
    }
    HeaderName::from_str(text).map_err(|_| format!("is `{text}`, which is no name of a header"))
}

fn word<T: FromStr>(text: Option<&str>, default: T, words: &str) -> Result<T, String> {
    let Some(text) = text else { return Ok(default) };
    text.parse().map_err(|_| format!("is `{text}`; write {words}"))
}

/// Reads `90`, `90s`, `15m` or `2h`, at most a day: a longer window protects nothing.
fn tolerance(text: Option<&str>, default: TimeDelta) -> Result<TimeDelta, String> {
    const DAY_SECONDS: i64 = 24 * 3600;
    let Some(text) = text else { return Ok(default) };
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let unit_seconds = match unit {
        "m" => 60,
        "h" => 3600,
        _ => 1,
    };
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = if plain { number.parse::<i64>().ok() } else { None };
    match seconds.and_then(|count| count.checked_mul(unit_seconds)) {
        Some(seconds @ 0..=DAY_SECONDS) => Ok(TimeDelta::seconds(seconds)),
        _ => Err(format!("is `{text}`; write a time up to a day such as `300s`, `5m` or `1h`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn fields(spec: &SchemeSpec) -> Vec<&'static str> {
        spec.parse().expect_err("faults").iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn a_header_alone_is_a_scheme() {
        let scheme =
            SchemeSpec { header: "X-Signature".into(), ..SchemeSpec::default() }.parse().expect("valid");
        assert_eq!(scheme.header(), "x-signature");
        assert!(!scheme.has_signed_time() && !scheme.id_is_signed());
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        let spec = SchemeSpec {
            algorithm: some("md5"),
            encoding: some("base32"),
            key_encoding: some("raw"),
            template: some("{everything}"),
            timestamp: some("cookie:t"),
            past_max: some("a while"),
            id: some("nowhere"),
            ..SchemeSpec::default()
        };
        let expected =
            ["header", "algorithm", "encoding", "key_encoding", "template", "past_max", "timestamp", "id"];
        assert_eq!(fields(&spec), expected);
    }

    #[test]
    fn parts_and_places_must_agree() {
        let base = SchemeSpec { header: "X-Signature".into(), ..SchemeSpec::default() };
        let unsigned_time = SchemeSpec { timestamp: some("header:X-Time"), ..base.clone() };
        assert_eq!(fields(&unsigned_time), ["timestamp"]);
        let lost_parts = SchemeSpec { template: some("{id}.{timestamp}.{body}"), ..base.clone() };
        assert_eq!(fields(&lost_parts), ["template", "template"]);
        let lost_pair = SchemeSpec { timestamp: some("pair:t"), ..base.clone() };
        assert_eq!(fields(&lost_pair), ["timestamp"]);
        let tolerance_alone = SchemeSpec { past_max: some("5m"), ..base };
        assert_eq!(fields(&tolerance_alone), ["timestamp"]);
    }

    #[test]
    fn tolerances_are_whole_times_up_to_a_day() {
        assert_eq!(tolerance(Some("5m"), PAST_MAX), Ok(TimeDelta::seconds(300)));
        assert_eq!(tolerance(Some("0"), PAST_MAX), Ok(TimeDelta::zero()));
        for text in ["", "m", "-5s", "25h", "9223372036854775807h", "1.5h"] {
            assert!(tolerance(Some(text), PAST_MAX).is_err(), "{text:?}");
        }
    }
}
