use url::Url;

use crate::Status;
use crate::public_address::{ForbiddenHost, check_host};
use crate::text_enum::text_enum;

text_enum! {
    WebhookEvent {
        DeliverySent = "delivery.sent",
        DeliveryDelivered = "delivery.delivered",
        /// Ended without being sent. The status of the delivery shows the cause.
        DeliveryFailed = "delivery.failed",
        /// A target is dead and is no longer used.
        DeliverySuppressed = "delivery.suppressed",
        NotificationRead = "notification.read",
    }
}

impl WebhookEvent {
    /// None if the delivery is still in progress. Every delivery that ended without being sent counts as failed, as does a parked one,
    /// although a redrive may still send it.
    #[must_use]
    pub fn of_status(status: Status) -> Option<WebhookEvent> {
        match status {
            Status::Queued | Status::Sending | Status::Retrying | Status::Waiting => None,
            Status::Sent => Some(WebhookEvent::DeliverySent),
            Status::Delivered => Some(WebhookEvent::DeliveryDelivered),
            Status::Failed
            | Status::Unknown
            | Status::Skipped
            | Status::Parked
            | Status::Cancelled
            | Status::Expired => Some(WebhookEvent::DeliveryFailed),
        }
    }
}

/// Reason why a URL cannot be the URL of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// The text is not a URL with a host.
    #[error("{0:?} is not a URL such as https://example.com/webhooks")]
    Malformed(String),
    /// Plain HTTP, which an eavesdropper could read.
    #[error(
        "the URL must begin with https:// (http:// is for private networks, with outbound.allow_private)"
    )]
    NotHttps,
    /// The URL has a user name or a password. Lists of endpoints would show it.
    #[error("the URL must have no user name and no password; signatures authenticate calls")]
    Credentials,
    /// The host is a private address.
    #[error(transparent)]
    NotPublic(#[from] ForbiddenHost),
}

impl InvalidUrl {
    /// Stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            InvalidUrl::Malformed(_) => "malformed_url",
            InvalidUrl::NotHttps => "not_https",
            InvalidUrl::Credentials => "credentials_in_url",
            InvalidUrl::NotPublic(_) => "not_public",
        }
    }
}

/// Parses and checks the URL of an endpoint. If `allow_private` is true (`outbound.allow_private`), the URL may name a private
/// address, and may use plain HTTP.
///
/// # Errors
/// Returns an error if the URL cannot or must not be called.
pub fn parse_url(text: &str, allow_private: bool) -> Result<Url, InvalidUrl> {
    let malformed = || InvalidUrl::Malformed(text.to_owned());
    let url = Url::parse(text).map_err(|_| malformed())?;
    if !["http", "https"].contains(&url.scheme()) || url.host().is_none() {
        return Err(malformed());
    }
    if url.scheme() != "https" && !allow_private {
        return Err(InvalidUrl::NotHttps);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(InvalidUrl::Credentials);
    }
    if !allow_private {
        check_host(&url)?;
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_delivery_is_an_event_and_no_earlier_status_is() {
        for &status in Status::ALL {
            assert_eq!(WebhookEvent::of_status(status).is_some(), status.is_terminal(), "{status}");
        }
    }

    #[test]
    fn only_public_https_endpoints_are_usable_unless_private_ones_are_allowed() {
        let (public, private) = (false, true);
        assert!(parse_url("https://example.com/hooks?a=1", public).is_ok());
        assert_eq!(parse_url("http://example.com/", public), Err(InvalidUrl::NotHttps));
        for address in
            ["https://127.0.0.1/", "https://10.1.2.3:8443/", "https://[::1]/", "https://169.254.169.254/"]
        {
            assert!(matches!(parse_url(address, public), Err(InvalidUrl::NotPublic(_))), "{address}");
            assert!(parse_url(address, private).is_ok());
        }
        assert!(parse_url("http://localhost:3000/", private).is_ok());
        assert_eq!(parse_url("https://me:secret@example.com/", public), Err(InvalidUrl::Credentials));
        for malformed in ["example.com", "ftp://example.com/", "mailto:a@example.com", ""] {
            assert!(matches!(parse_url(malformed, private), Err(InvalidUrl::Malformed(_))), "{malformed}");
        }
    }
}
