//! A destination: a name, an address and a secret to sign with.

use std::net::IpAddr;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;
use url::{Host, Url};

use super::guard::{PublicResolver, is_public};
use crate::domain::DestinationName;
use crate::ingest::signature::{KeyEncoding, Secret, SecretProblem};

/// Longest a delivery may take.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(20);
/// Longest a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// What the configuration says of a destination.
#[derive(Clone, Debug)]
pub struct DestinationSettings {
    /// Its name, which rules use.
    pub name: DestinationName,
    /// Where to send.
    pub url: String,
    /// The Standard Webhooks secret, `whsec_…`.
    pub secret: Option<SecretString>,
    /// Whether the address may be inside the network, and plain http.
    pub allow_private: bool,
}

/// Why a destination cannot be used.
#[derive(Debug, Error)]
pub enum DestinationFault {
    /// The URL is none.
    #[error("its url is no URL ({0}); write https://host/path")]
    NoUrl(url::ParseError),
    /// Only HTTP is spoken.
    #[error("its url has the scheme {0:?}; use https, or http with allow_private = true")]
    Scheme(String),
    /// The address is inside the network.
    #[error("its url points inside the network; set allow_private = true if that is intended")]
    Private,
    /// Credentials do not belong into a URL.
    #[error("its url carries a user or password; the signature proves who we are, leave them out")]
    Credentials,
    /// There is nothing to sign with.
    #[error("it has no secret; put one into {variable}, made by `echo whsec_$(openssl rand -base64 32)`")]
    NoSecret {
        /// Where the secret belongs.
        variable: String,
    },
    /// The secret cannot be used.
    #[error("its secret cannot be used: {0}")]
    Secret(#[source] SecretProblem),
    /// The HTTP client could not be built.
    #[error("its HTTP client could not be built")]
    Client(#[source] reqwest::Error),
}

/// A destination that can be sent to.
#[derive(Debug)]
pub struct Destination {
    /// Its name.
    pub name: DestinationName,
    pub(super) url: Url,
    pub(super) secret: Secret,
    pub(super) client: reqwest::Client,
}

impl Destination {
    /// The variable that holds the secret of a destination.
    #[must_use]
    pub fn secret_variable(name: &DestinationName) -> String {
        format!("HOOKTRIAGE_DESTINATION_SECRET_{}", name.as_str().to_ascii_uppercase().replace('-', "_"))
    }

    /// Checks the settings and builds the client.
    ///
    /// # Errors
    /// Every fault found, not only the first.
    pub fn build(settings: &DestinationSettings) -> Result<Self, Vec<DestinationFault>> {
        let mut faults = Vec::new();
        let url = Url::parse(&settings.url).map_err(|fault| faults.push(DestinationFault::NoUrl(fault))).ok();
        faults.extend(url.as_ref().into_iter().flat_map(|url| url_faults(url, settings.allow_private)));
        let secret = read_secret(settings).map_err(|fault| faults.push(fault)).ok();
        let client =
            client(settings.allow_private).map_err(|fault| faults.push(DestinationFault::Client(fault))).ok();
        match (url, secret, client) {
            (Some(url), Some(secret), Some(client)) if faults.is_empty() => {
                Ok(Self { name: settings.name.clone(), url, secret, client })
            }
            _ => Err(faults),
        }
    }
}

fn read_secret(settings: &DestinationSettings) -> Result<Secret, DestinationFault> {
    let Some(secret) = &settings.secret else {
        return Err(DestinationFault::NoSecret { variable: Destination::secret_variable(&settings.name) });
    };
    Secret::parse(secret.expose_secret(), KeyEncoding::Whsec).map_err(DestinationFault::Secret)
}

fn url_faults(url: &Url, allow_private: bool) -> Vec<DestinationFault> {
    let mut faults = Vec::new();
    let scheme_fits = url.scheme() == "https" || (url.scheme() == "http" && allow_private);
    if !scheme_fits {
        faults.push(DestinationFault::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        faults.push(DestinationFault::Credentials);
    }
    // A literal address is never resolved, so the resolver does not see it.
    let literal = match url.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(_)) | None => None,
    };
    if !allow_private && literal.is_some_and(|address| !is_public(address)) {
        faults.push(DestinationFault::Private);
    }
    faults
}

fn client(allow_private: bool) -> Result<reqwest::Client, reqwest::Error> {
    // A second installation is refused, which is as good as the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("hooktriage/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIME_MAX)
        .timeout(DELIVERY_TIME_MAX);
    if allow_private {
        return builder.no_proxy().build();
    }
    // A proxy would connect on our behalf, past the resolver.
    builder.no_proxy().dns_resolver(PublicResolver).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, allow_private: bool) -> DestinationSettings {
        DestinationSettings {
            name: DestinationName::parse("team").expect("a name"),
            url: url.to_owned(),
            secret: Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()),
            allow_private,
        }
    }

    #[test]
    fn an_address_inside_is_refused_unless_it_is_allowed() {
        for inside in
            ["https://127.0.0.1/x", "https://[::1]/x", "https://169.254.169.254/x", "https://2130706433/x"]
        {
            let faults = Destination::build(&settings(inside, false)).err().unwrap_or_default();
            assert!(matches!(faults[..], [DestinationFault::Private]), "{inside}: {faults:?}");
        }
        assert!(Destination::build(&settings("http://127.0.0.1:9000/x", true)).is_ok());
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let wrong = DestinationSettings { secret: None, ..settings("ftp://user@10.0.0.1/", false) };
        let faults = Destination::build(&wrong).err().unwrap_or_default();
        // Scheme, credentials, address inside, and no secret.
        assert_eq!(faults.len(), 4, "{faults:?}");
    }

    #[test]
    fn the_variable_of_the_secret_is_named_after_the_destination() {
        let name = DestinationName::parse("on-call_eu").expect("a name");
        assert_eq!(Destination::secret_variable(&name), "HOOKTRIAGE_DESTINATION_SECRET_ON_CALL_EU");
    }
}
