use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use domain::Timestamp;
use domain::public_address::{check_host, is_public};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, Url};

pub use domain::public_address::ForbiddenHost;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);
/// Maximum of a requested wait. A longer one is shortened to this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Only public addresses may be called. Otherwise an app could configure a name that resolves to an address in Tidings' own network.
#[derive(Clone, Copy, Debug)]
pub struct Outbound {
    allow_private: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host has no address: {cause}")]
pub struct UnresolvedHost {
    pub cause: String,
}

impl UnresolvedHost {
    #[must_use]
    pub fn among<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a UnresolvedHost> {
        std::iter::successors(Some(error), |error| (**error).source()).find_map(|cause| cause.downcast_ref())
    }
}

impl Outbound {
    #[must_use]
    pub fn new(allow_private: bool) -> Outbound {
        Outbound { allow_private }
    }

    #[must_use]
    pub fn allows_private(self) -> bool {
        self.allow_private
    }

    /// Fails if the name has no address, or none that may be called.
    pub async fn resolve(self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        let allowed: Vec<_> = found.iter().copied().filter(|address| self.allows(address.ip())).collect();
        match (found.is_empty(), allowed.is_empty()) {
            (true, _) => Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address")),
            (false, true) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, ForbiddenHost { host: host.to_owned() }))
            }
            (false, false) => Ok(allowed),
        }
    }

    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        self.allow_private || is_public(address)
    }

    /// Checks an address. A name is checked when it is resolved.
    pub fn check(self, url: &Url) -> Result<(), ForbiddenHost> {
        if self.allow_private { Ok(()) } else { check_host(url) }
    }

    /// Builds a client that follows no redirects, ignores proxy settings in the environment, and resolves names only to addresses that may
    /// be called. The caller sets the time limit of the whole call and checks the URL.
    pub fn client(self) -> ClientBuilder {
        Client::builder()
            .dns_resolver(Arc::new(Resolver(self)))
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_LIMIT)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .user_agent(concat!("Tidings/", env!("CARGO_PKG_VERSION")))
    }
}

struct Resolver(Outbound);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let outbound = self.0;
        Box::pin(async move {
            match outbound.resolve(name.as_str(), 0).await {
                Ok(addresses) => Ok(Box::new(addresses.into_iter()) as Addrs),
                Err(error) if ForbiddenHost::among(&error).is_some() => Err(error.into()),
                Err(error) => Err(UnresolvedHost { cause: error.to_string() }.into()),
            }
        })
    }
}

pub async fn read_at_most(mut response: Response, most: usize) -> reqwest::Result<Bytes> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = most - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() >= most {
            break;
        }
    }
    Ok(body.into())
}

/// Wait in seconds or until a date (RFC 9110, section 10.2.3), at most 24 hours. None if the header is missing or invalid.
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(now.millis()).ok()?);
            httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_a_private_address_is_refused_unless_allowed() {
        for url in ["http://127.0.0.1/", "https://[::1]:8443/", "http://0x7f.1/", "http://2130706433/"] {
            let url = Url::parse(url).unwrap();
            assert!(Outbound::new(false).check(&url).is_err(), "{url}");
            assert!(Outbound::new(true).check(&url).is_ok(), "{url}");
        }
        assert!(Outbound::new(false).check(&Url::parse("https://example.com/").unwrap()).is_ok());
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_private_address_is_refused() {
        let refused = Outbound::new(false).resolve("localhost", 25).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let called = Outbound::new(false).client().build().unwrap().get("http://localhost:9/").send().await;
        for refused in [&refused as &(dyn Error + 'static), &called.unwrap_err()] {
            assert_eq!(ForbiddenHost::among(refused).map(|refused| refused.host.as_str()), Some("localhost"));
        }
        assert_eq!(ForbiddenHost::among(&io::Error::from(io::ErrorKind::PermissionDenied)), None);
        assert!(Outbound::new(true).resolve("localhost", 25).await.is_ok());
    }

    #[test]
    fn waits_are_read_in_seconds_and_as_dates() {
        let now = Timestamp::from_millis(784_111_770_000);
        let wait = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(wait("120"), Some(Duration::from_secs(120)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("99999999999"), Some(LONGEST_RETRY_AFTER));
        assert_eq!(wait("soon"), None);
    }
}
