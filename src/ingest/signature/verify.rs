//! Checking a delivery against a scheme.
//!
//! The order is fixed: header syntax, then the MAC against every live secret, then the signed
//! time. Nothing of the body is read before the MAC has matched, since a time in an unproven body
//! says nothing.

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, Method, Uri};
use subtle::ConstantTimeEq;

use super::scheme::{IdPlace, Scheme, SignatureList, SignedTime, TimePlace};
use super::template::Values;
use super::{Refusal, Secret};
use crate::ingest::json::{Node, Pointer, readable};

/// One HTTP request as it came, nothing decoded.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The request's method.
    pub method: &'a Method,
    /// The request's target; only path and query are used.
    pub uri: &'a Uri,
    /// All of its headers.
    pub headers: &'a HeaderMap,
    /// The exact bytes of its body.
    pub body: &'a [u8],
}

/// The sender's name for a delivery or its event: 1 to 256 visible ASCII characters.
///
/// The limit keeps ids fit for an index and for a log line; Standard Webhooks asks for no more
/// ("Webhook metadata", 1.0.0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryId(String);

impl DeliveryId {
    /// Most characters that an id may have.
    pub const CHARS_MAX: usize = 256;

    /// Takes a text that keeps to the limits; nothing otherwise.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=Self::CHARS_MAX).contains(&text.len());
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is known of a delivery once it is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The sender's id, where the scheme names a place for one and it holds a usable one.
    pub delivery_id: Option<DeliveryId>,
    /// Whether the MAC covers that id.
    pub id_is_signed: bool,
    /// When the sender signed, where the scheme says so.
    pub signed_at: Option<DateTime<Utc>>,
    /// Which of the live secrets matched, from 0. Tells when an old one is no longer in use.
    pub secret_index: usize,
}

/// Longest signature header that is looked at, in bytes: a thousand entries fit.
const SIGNATURE_HEADER_BYTES_MAX: usize = 64 * 1024;

/// Believes a delivery or says precisely why not. With no secrets, nothing is believed.
///
/// # Errors
///
/// The [`Refusal`], in the order syntax, MAC, time.
pub fn verify(
    scheme: &Scheme,
    secrets: &[Secret],
    delivery: &Delivery<'_>,
    now: DateTime<Utc>,
) -> Result<Verified, Refusal> {
    let head = Head::read(scheme, delivery.headers)?;
    let secret_index = matching_secret(scheme, secrets, delivery, &head).ok_or(Refusal::NoMatch)?;
    let signed_at = match (&scheme.time, head.time) {
        (None, _) => None,
        (Some(time), Some(claimed)) => Some(check_time(time, claimed.at, now)?),
        (Some(time), None) => Some(check_time(time, time_in_body(time, delivery.body)?, now)?),
    };
    let delivery_id = match &scheme.id {
        IdPlace::Nowhere => None,
        IdPlace::Header(_) => head.id.and_then(DeliveryId::new),
        IdPlace::Body(pointer) => scalar_in(delivery.body, pointer).and_then(|id| DeliveryId::new(&id)),
    };
    Ok(Verified { delivery_id, id_is_signed: scheme.id_is_signed(), signed_at, secret_index })
}

/// What the headers say, syntax checked, nothing of it believed yet.
struct Head<'a> {
    signatures: Vec<Vec<u8>>,
    id: Option<&'a str>,
    time: Option<ClaimedTime<'a>>,
}

/// The text is what was signed; the instant is what it means.
struct ClaimedTime<'a> {
    text: &'a str,
    at: DateTime<Utc>,
}

impl<'a> Head<'a> {
    fn read(scheme: &Scheme, headers: &'a HeaderMap) -> Result<Self, Refusal> {
        let id = match &scheme.id {
            IdPlace::Header(name) if scheme.template.has_id() => Some(signed_id(headers, name)?),
            IdPlace::Header(name) => single(headers, name).ok(),
            IdPlace::Body(_) | IdPlace::Nowhere => None,
        };
        let entries = single(headers, &scheme.header)?;
        if entries.len() > SIGNATURE_HEADER_BYTES_MAX {
            return Err(malformed(&scheme.header, "is too long"));
        }
        let time = match &scheme.time {
            None => None,
            Some(time) => claimed_time(time, scheme, headers, entries)?,
        };
        Ok(Self { signatures: signatures(scheme, entries)?, id, time })
    }
}

/// The one value of a header, visible ASCII.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Refusal> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or_else(|| Refusal::MissingHeader(name.clone()))?;
    if values.next().is_some() {
        return Err(Refusal::RepeatedHeader(name.clone()));
    }
    value.to_str().map_err(|_| malformed(name, "is not visible ASCII"))
}

fn malformed(name: &HeaderName, fault: &'static str) -> Refusal {
    Refusal::MalformedHeader { name: name.clone(), fault }
}

fn signed_id<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Refusal> {
    let id = single(headers, name)?;
    match DeliveryId::new(id) {
        Some(_) => Ok(id),
        None => Err(malformed(name, "is not 1 to 256 visible ASCII characters")),
    }
}

fn claimed_time<'a>(
    time: &SignedTime,
    scheme: &Scheme,
    headers: &'a HeaderMap,
    entries: &'a str,
) -> Result<Option<ClaimedTime<'a>>, Refusal> {
    let (name, text) = match &time.place {
        TimePlace::Body(_) => return Ok(None),
        TimePlace::Header(name) => (name, single(headers, name)?),
        TimePlace::Pair(key) => {
            let mut values = pairs(entries).filter(|(name, _)| name == key).map(|(_, value)| value);
            match (values.next(), values.next()) {
                (Some(text), None) => (&scheme.header, text),
                (None, _) => return Err(malformed(&scheme.header, "holds no signed time")),
                (Some(_), Some(_)) => return Err(malformed(&scheme.header, "holds two signed times")),
            }
        }
    };
    match time.format.parse(text) {
        Some(at) => Ok(Some(ClaimedTime { text, at })),
        None => Err(malformed(name, "holds no time of the expected format")),
    }
}

fn pairs(entries: &str) -> impl Iterator<Item = (&str, &str)> {
    entries.split(',').filter_map(|entry| entry.trim_matches(' ').split_once('='))
}

/// Every entry that could be a signature of this scheme. Entries of other versions and malformed
/// ones are skipped: a sender may add new kinds beside the one that we know.
fn signatures(scheme: &Scheme, entries: &str) -> Result<Vec<Vec<u8>>, Refusal> {
    let texts: Vec<&str> = match &scheme.list {
        SignatureList::Single { prefix } => match entries.strip_prefix(prefix.as_str()) {
            Some(text) => vec![text],
            None => return Err(malformed(&scheme.header, "does not begin with the expected prefix")),
        },
        SignatureList::Spaced { version } => entries
            .split(' ')
            .filter_map(|entry| entry.split_once(','))
            .filter_map(|(tag, text)| (tag == version).then_some(text))
            .collect(),
        SignatureList::Pairs { version } => {
            pairs(entries).filter_map(|(tag, text)| (tag == version).then_some(text)).collect()
        }
    };
    let whole = |mac: &Vec<u8>| mac.len() == scheme.algorithm.mac_bytes();
    let decoded: Vec<Vec<u8>> =
        texts.into_iter().filter_map(|text| scheme.encoding.decode(text)).filter(whole).collect();
    if decoded.is_empty() {
        return Err(Refusal::NoUsableSignature(scheme.header.clone()));
    }
    Ok(decoded)
}

fn matching_secret(
    scheme: &Scheme,
    secrets: &[Secret],
    delivery: &Delivery<'_>,
    head: &Head<'_>,
) -> Option<usize> {
    let pieces = scheme.template.pieces(&Values {
        id: head.id.unwrap_or_default(),
        timestamp: head.time.as_ref().map_or("", |time| time.text),
        method: delivery.method,
        uri: delivery.uri,
        body: delivery.body,
    });
    secrets.iter().position(|secret| {
        let expected = scheme.algorithm.mac(secret.key(), &pieces);
        head.signatures.iter().any(|signature| bool::from(signature.as_slice().ct_eq(&expected)))
    })
}

fn time_in_body(time: &SignedTime, body: &[u8]) -> Result<DateTime<Utc>, Refusal> {
    let TimePlace::Body(pointer) = &time.place else {
        return Err(Refusal::NoSignedTime("header".to_owned()));
    };
    scalar_in(body, pointer)
        .and_then(|text| time.format.parse(&text))
        .ok_or_else(|| Refusal::NoSignedTime(pointer.to_string()))
}

fn scalar_in(body: &[u8], pointer: &Pointer) -> Option<String> {
    let text = readable(body).ok()?;
    Node::parse(&text).ok()?.at(pointer)?.scalar()
}

/// Both sides are bounded. The future side is kept short, because a delivery dated ahead stays
/// acceptable for the sum of both (camunda/connectors#8989).
fn check_time(time: &SignedTime, at: DateTime<Utc>, now: DateTime<Utc>) -> Result<DateTime<Utc>, Refusal> {
    let age = now - at;
    if age > time.past_max {
        return Err(Refusal::TooOld { age });
    }
    if -age > time.future_max {
        return Err(Refusal::TooNew { ahead: -age });
    }
    Ok(at)
}
