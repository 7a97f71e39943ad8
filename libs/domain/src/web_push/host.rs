//! Where push services are.

use std::str::FromStr;

/// The push services of today's browsers.
const KNOWN: [(&str, bool); 4] = [
    // Chrome, and most that are built on it.
    ("fcm.googleapis.com", false),
    // Firefox.
    ("push.services.mozilla.com", true),
    // Edge.
    ("notify.windows.com", true),
    // Safari.
    ("push.apple.com", true),
];
/// Longest name in DNS, and longest label of one (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A host of a push service, or with `*.` before it every host below that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushHost {
    name: String,
    below: bool,
}

impl PushHost {
    /// The push services of today's browsers.
    #[must_use]
    pub fn known() -> Vec<PushHost> {
        KNOWN.map(|(name, below)| PushHost { name: name.to_owned(), below }).into()
    }

    /// Whether this is the host or, as the case may be, one above it. `host` is in lower case.
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        match host.strip_suffix(&self.name) {
            Some(rest) if self.below => rest.ends_with('.') && is_name(host),
            Some(rest) => rest.is_empty(),
            None => false,
        }
    }
}

/// Not the name of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a host")]
pub struct NotAHost;

impl FromStr for PushHost {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<Self, NotAHost> {
        let text = text.to_ascii_lowercase();
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, &*text),
        };
        if !is_name(name) || is_address(name) {
            return Err(NotAHost);
        }
        Ok(PushHost { name: name.to_owned(), below })
    }
}

/// Whether it is a name in lower case (RFC 1123, section 2.1), or an address that looks like one.
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

/// Whether it is an IP address, or is read as one by what URLs are read with: a last label that is a number makes any
/// host an IPv4 address.
pub(super) fn is_address(host: &str) -> bool {
    let last = host.strip_suffix('.').unwrap_or(host).rsplit('.').next().unwrap_or_default();
    host.starts_with('[') || last.starts_with(|first: char| first.is_ascii_digit())
}
