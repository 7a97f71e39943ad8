use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Push services of current browsers. With true, every host below the name is allowed, but not the name itself; with false, only the name.
const KNOWN: [(&str, bool); 7] = [
    // Chrome and most browsers based on it.
    ("fcm.googleapis.com", false),
    // Other names of the same service, which subscriptions of Chrome have too.
    ("jmt17.google.com", false),
    ("fcm.google.com", false),
    ("android.googleapis.com", false),
    // Firefox.
    ("push.services.mozilla.com", true),
    // Edge.
    ("notify.windows.com", true),
    // Safari.
    ("push.apple.com", true),
];
/// Length in bytes (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
/// Length in bytes (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// An allowed location of push services: one host (`push.example`), every host below a name (`*.push.example`), or exactly one
/// origin (`https://push.example:8443`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushHost(Place);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Host { name: String, below: bool },
    Origin(String),
}

impl PushHost {
    #[must_use]
    pub fn known() -> Vec<PushHost> {
        KNOWN.map(|(name, below)| PushHost(Place::Host { name: name.to_owned(), below })).into()
    }

    /// `host` must be in lower case.
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        let Place::Host { name, below } = &self.0 else {
            return false;
        };
        match host.strip_suffix(name.as_str()) {
            Some(rest) if *below => rest.ends_with('.') && is_name(host),
            Some(rest) => rest.is_empty(),
            None => false,
        }
    }

    /// `origin` must be in lower case and without a default port.
    pub(super) fn is_origin(&self, origin: &str) -> bool {
        matches!(&self.0, Place::Origin(known) if known == origin)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither a host name nor an origin")]
pub struct InvalidHost;

impl FromStr for PushHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let text = text.to_ascii_lowercase();
        if let Some((scheme, authority)) = text.split_once("://") {
            return origin(scheme, authority)
                .map(|origin| PushHost(Place::Origin(origin)))
                .ok_or(InvalidHost);
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, &*text),
        };
        if !is_name(name) || is_address(name) {
            return Err(InvalidHost);
        }
        Ok(PushHost(Place::Host { name: name.to_owned(), below }))
    }
}

/// Returns the canonical form (RFC 6454, section 6.2), which omits a default port. Both arguments must be in lower case.
pub(super) fn origin(scheme: &str, authority: &str) -> Option<String> {
    let implied = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let (host, port) = split_port(authority);
    let is_sound = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == address),
        None if is_address(host) => host.parse::<Ipv4Addr>().is_ok(),
        None => is_name(host),
    };
    let port = match port {
        Some(text) => text.parse::<u16>().ok().filter(|port| *port > 0 && port.to_string() == text)?,
        None => implied,
    };
    let shown = if port == implied { String::new() } else { format!(":{port}") };
    is_sound.then(|| format!("{scheme}://{host}{shown}"))
}

/// Splits an authority, which must not contain user information.
pub(super) fn split_port(text: &str) -> (&str, Option<&str>) {
    let end = text.rfind(']').map_or(0, |end| end + 1);
    let (_, rest) = text.split_at(end);
    match rest.find(':') {
        Some(colon) => {
            let (host, port) = text.split_at(end + colon);
            (host, port.strip_prefix(':'))
        }
        None => (text, None),
    }
}

/// Checks the form of a host name in lower case (RFC 1123, section 2.1). An IPv4 address has this form too.
pub(super) fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.len() <= MAX_NAME && host.split('.').all(is_label)
}

/// Returns true for an IP address, and for a name whose last label starts with a digit: URL parsers read a numeric last label as an IPv4
/// address.
pub(super) fn is_address(host: &str) -> bool {
    let last = host.strip_suffix('.').unwrap_or(host).rsplit('.').next().unwrap_or_default();
    host.starts_with('[') || last.starts_with(|first: char| first.is_ascii_digit())
}
