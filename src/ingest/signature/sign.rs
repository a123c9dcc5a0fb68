//! Making the signature that [`verify`](super::verify()) checks.
//!
//! For `hooktriage send`, the demo, the signed outbound webhook's tests and ours: a scheme that
//! cannot be signed from the same description has been described wrongly.

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use thiserror::Error;

use super::scheme::{IdPlace, Scheme, SignatureList, TimePlace};
use super::template::Values;
use super::{DeliveryId, Secret};

/// A request that waits for its signature.
#[derive(Clone, Copy, Debug)]
pub struct Unsigned<'a> {
    /// The sender's id for it; sent when the scheme has a header for one.
    pub id: &'a DeliveryId,
    /// The request's method.
    pub method: &'a Method,
    /// The request's target; only path and query are signed, after the configured public URL.
    pub uri: &'a Uri,
    /// The exact bytes of its body.
    pub body: &'a [u8],
}

/// Why a signature could not be put into headers.
#[derive(Debug, Error)]
#[error("the value for header `{name}` cannot be sent; use visible ASCII")]
pub struct SignFault {
    name: HeaderName,
    source: http::header::InvalidHeaderValue,
}

/// The headers that make the request believable: signature, and time and id where the scheme has
/// headers for them. A time that stands in the body is the caller's to write.
///
/// # Errors
///
/// When a prefix or version of the scheme is not fit for a header.
pub fn sign(
    scheme: &Scheme,
    secret: &Secret,
    unsigned: &Unsigned<'_>,
    now: DateTime<Utc>,
) -> Result<HeaderMap, SignFault> {
    let timestamp = scheme.time.as_ref().map(|time| time.format.render(now)).unwrap_or_default();
    let pieces = scheme.template.pieces(&Values {
        id: unsigned.id.as_str(),
        timestamp: &timestamp,
        method: unsigned.method,
        uri: unsigned.uri,
        body: unsigned.body,
    });
    let signature = scheme.encoding.encode(&scheme.algorithm.mac(secret.key(), &pieces));
    let mut headers = HeaderMap::new();
    if let IdPlace::Header(name) = &scheme.id {
        put(&mut headers, name, unsigned.id.as_str())?;
    }
    if let Some(TimePlace::Header(name)) = scheme.time.as_ref().map(|time| &time.place) {
        put(&mut headers, name, &timestamp)?;
    }
    put(&mut headers, &scheme.header, &entry(scheme, &signature, &timestamp))?;
    Ok(headers)
}

fn entry(scheme: &Scheme, signature: &str, timestamp: &str) -> String {
    let entry = match &scheme.list {
        SignatureList::Single { prefix } => format!("{prefix}{signature}"),
        SignatureList::Spaced { version } => format!("{version},{signature}"),
        SignatureList::Pairs { version } => format!("{version}={signature}"),
    };
    match scheme.time.as_ref().map(|time| &time.place) {
        Some(TimePlace::Pair(key)) => format!("{key}={timestamp},{entry}"),
        _ => entry,
    }
}

fn put(headers: &mut HeaderMap, name: &HeaderName, value: &str) -> Result<(), SignFault> {
    let value = HeaderValue::from_str(value).map_err(|source| SignFault { name: name.clone(), source })?;
    headers.insert(name, value);
    Ok(())
}
