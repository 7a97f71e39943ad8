//! The endpoint of a web push subscription. Clients choose endpoints, so Tidings accepts only known push services: otherwise a client could
//! make Tidings call any host.

use super::host::{PushHost, is_address, is_name, origin, split_port};
use crate::Problem;

/// Length in bytes.
pub const MAX_ENDPOINT: usize = 2048;

const SCHEME: &str = "https://";
const PORT: &str = "443";

/// Returns None for an endpoint that must not be called: too long, not in canonical form, or not at one of `hosts`.
#[must_use]
pub fn origin_of<'a>(endpoint: &'a str, hosts: &[PushHost]) -> Option<&'a str> {
    let is_known = endpoint.len() <= MAX_ENDPOINT
        && check(endpoint, hosts, &mut Vec::new()).is_some_and(|canonical| canonical == endpoint);
    let (scheme, rest) = endpoint.split_once("://").filter(|_| is_known)?;
    let authority = rest.find('/').unwrap_or(rest.len());
    endpoint.get(..scheme.len() + "://".len() + authority)
}

/// Returns the canonical form of an endpoint, or reports why it is invalid.
pub(super) fn check(text: &str, hosts: &[PushHost], problems: &mut Vec<Problem>) -> Option<String> {
    let before = problems.len();
    let mut problem =
        |code, message: &str| problems.push(Problem::new("endpoint", code, format!("endpoint {message}")));
    if !text.bytes().all(is_of_a_url) {
        problem("invalid_character", "must contain only characters of a URL");
        return None;
    }
    if let Some(endpoint) = at_an_origin(text, hosts) {
        return Some(endpoint);
    }
    let Some((scheme, rest)) = text.split_at_checked(SCHEME.len()) else {
        problem("invalid_scheme", "must begin with https://");
        return None;
    };
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        problem("invalid_scheme", "must begin with https://");
        return None;
    }
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if tail.contains('#') {
        problem("fragment", "must not have a fragment");
    }
    let host_and_port = match authority.rsplit_once('@') {
        Some((_, host_and_port)) => {
            problem("user_info", "must not contain a user or a password");
            host_and_port
        }
        None => authority,
    };
    let (host, port) = split_port(host_and_port);
    if port.is_some_and(|port| port != PORT) {
        problem("invalid_port", "must be on port 443");
    }
    let host = host.to_ascii_lowercase();
    if is_address(&host) {
        problem("ip_address", "must name a host, not an IP address");
    } else if !is_name(&host) {
        problem("invalid_host", "must name a host");
    } else if !hosts.iter().any(|known| known.covers(&host)) {
        let message = "must be at a push service that this installation knows; an operator can add the host to [web_push] hosts";
        problem("unknown_push_service", message);
    }
    let slash = if tail.starts_with('/') { "" } else { "/" };
    (problems.len() == before).then(|| format!("{SCHEME}{host}{slash}{tail}"))
}

/// Returns the canonical form if the endpoint's origin is exactly one of the origins in `hosts`.
fn at_an_origin(text: &str, hosts: &[PushHost]) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let origin = origin(&scheme.to_ascii_lowercase(), &authority.to_ascii_lowercase())?;
    let slash = if tail.starts_with('/') { "" } else { "/" };
    let is_named = !tail.contains('#') && hosts.iter().any(|host| host.is_origin(&origin));
    is_named.then(|| format!("{origin}{slash}{tail}"))
}

/// Characters of RFC 3986. A backslash is not one; some parsers treat it as a slash.
fn is_of_a_url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    fn checked(text: &str) -> Result<String, Vec<&'static str>> {
        let mut problems = Vec::new();
        let endpoint = check(text, &PushHost::known(), &mut problems);
        endpoint.ok_or_else(|| problems.into_iter().map(|problem| problem.code).collect())
    }

    #[test]
    fn endpoints_of_push_services_are_accepted_in_canonical_form() {
        let cases = [
            ("https://fcm.googleapis.com/fcm/send/a:b_c", "https://fcm.googleapis.com/fcm/send/a:b_c"),
            ("HTTPS://FCM.googleapis.COM:443/wp/A", "https://fcm.googleapis.com/wp/A"),
            (
                "https://updates.push.services.mozilla.com/wpush/v2/gAA=",
                "https://updates.push.services.mozilla.com/wpush/v2/gAA=",
            ),
            (
                "https://wns2-by3p.notify.windows.com/w/?token=B%3d",
                "https://wns2-by3p.notify.windows.com/w/?token=B%3d",
            ),
            ("https://jmt17.google.com/fcm/send/a:b", "https://jmt17.google.com/fcm/send/a:b"),
            ("https://fcm.google.com/preprod/wp/a", "https://fcm.google.com/preprod/wp/a"),
            ("https://android.googleapis.com/gcm/send/a", "https://android.googleapis.com/gcm/send/a"),
            (
                "https://updates-autopush.push.services.mozilla.com/a",
                "https://updates-autopush.push.services.mozilla.com/a",
            ),
            ("https://web.push.apple.com/QA", "https://web.push.apple.com/QA"),
            ("https://web.push.apple.com", "https://web.push.apple.com/"),
            ("https://web.push.apple.com?a", "https://web.push.apple.com/?a"),
        ];
        for (text, canonical) in cases {
            assert_eq!(checked(text).as_deref(), Ok(canonical), "{text}");
        }
    }

    #[test]
    fn every_other_endpoint_is_refused_with_its_reason() {
        let cases: [(&str, &[&str]); 33] = [
            ("", &["invalid_scheme"]),
            ("https:/", &["invalid_scheme"]),
            ("http://fcm.googleapis.com/a", &["invalid_scheme"]),
            ("//fcm.googleapis.com/a", &["invalid_scheme"]),
            ("https:fcm.googleapis.com/a", &["invalid_scheme"]),
            ("https:///fcm.googleapis.com/a", &["invalid_host"]),
            (" https://fcm.googleapis.com/a", &["invalid_character"]),
            ("https://fcm.googleapis.com/a b", &["invalid_character"]),
            ("https://fcm.googleapis.com/\r\nHost: x", &["invalid_character"]),
            ("https://fcm.googleapis.com/é", &["invalid_character"]),
            ("https://evil.example\\.fcm.googleapis.com/", &["invalid_character"]),
            ("https://fcm.googleapis.com:80/a", &["invalid_port"]),
            ("https://fcm.googleapis.com:/a", &["invalid_port"]),
            ("https://fcm.googleapis.com:0443/a", &["invalid_port"]),
            ("https://fcm.googleapis.com:443:443/a", &["invalid_port"]),
            ("https://fcm.googleapis.com/a#b", &["fragment"]),
            ("https://u@fcm.googleapis.com/a", &["user_info"]),
            ("https://fcm.googleapis.com@evil.example/a", &["user_info", "unknown_push_service"]),
            ("https://fcm.googleapis.com%2fevil.example/a", &["invalid_host"]),
            ("https://evil.example/fcm.googleapis.com", &["unknown_push_service"]),
            ("https://evil.example?.fcm.googleapis.com", &["unknown_push_service"]),
            ("https://evil.example#.push.apple.com/", &["fragment", "unknown_push_service"]),
            ("https://fcm.googleapis.com.evil.example/a", &["unknown_push_service"]),
            ("https://a.fcm.googleapis.com/a", &["unknown_push_service"]),
            ("https://push.apple.com/a", &["unknown_push_service"]),
            ("https://evilpush.apple.com/a", &["unknown_push_service"]),
            ("https://.push.apple.com/a", &["invalid_host"]),
            ("https://web.push.apple.com./a", &["invalid_host"]),
            ("https://localhost/a", &["unknown_push_service"]),
            ("https://127.0.0.1/a", &["ip_address"]),
            ("https://0x7f000001/a", &["ip_address"]),
            ("https://[::1]:8443/a", &["invalid_port", "ip_address"]),
            ("https://[::ffff:127.0.0.1/a", &["invalid_port", "ip_address"]),
        ];
        for (text, codes) in cases {
            assert_eq!(checked(text), Err(codes.to_vec()), "{text}");
        }
    }

    #[test]
    fn an_origin_allows_only_itself() {
        let hosts: Vec<PushHost> =
            ["http://127.0.0.1:9999", "https://localhost:8443", "https://push.example"]
                .map(|text| text.parse().unwrap())
                .into();
        let taken = |text: &str| check(text, &hosts, &mut Vec::new());
        for (text, origin) in [
            ("http://127.0.0.1:9999/push/a", "http://127.0.0.1:9999"),
            ("https://localhost:8443/?a", "https://localhost:8443"),
            ("https://push.example/a", "https://push.example"),
        ] {
            assert_eq!(taken(text).as_deref(), Some(text));
            assert_eq!(origin_of(text, &hosts), Some(origin));
        }
        assert_eq!(taken("HTTPS://Localhost:8443").as_deref(), Some("https://localhost:8443/"));
        assert_eq!(taken("https://push.example:443/a").as_deref(), Some("https://push.example/a"));
        for text in [
            "http://127.0.0.1:9998/push/a",
            "https://127.0.0.1:9999/push/a",
            "http://u@127.0.0.1:9999/push/a",
            "http://127.0.0.1:9999/push/a#b",
            "http://127.0.0.1:9999@evil.example/",
            "http://127.0.0.1:99990/",
            "http://0x7f.0.0.1:9999/",
            "http://localhost:8443/",
            "https://a.push.example/",
            "http://push.example/",
            "https://fcm.googleapis.com/a",
        ] {
            assert_eq!(taken(text), None, "{text}");
            assert_eq!(origin_of(text, &hosts), None, "{text}");
        }
        assert_eq!(origin_of("https://push.example:443/a", &hosts), None, "not the canonical form");
        let known = PushHost::known();
        assert_eq!(origin_of("https://web.push.apple.com/?a=/b", &known), Some("https://web.push.apple.com"));
        assert_eq!(origin_of("https://evil.example/", &known), None);
    }

    #[test]
    fn only_names_and_origins_parse_as_push_hosts() {
        for text in [
            "push.example",
            "*.push.example",
            "Push.Example",
            "localhost",
            "https://a",
            "HTTP://[::1]:80",
            "http://10.0.0.1:1",
        ] {
            assert!(text.parse::<PushHost>().is_ok(), "{text}");
        }
        for text in [
            "",
            "*",
            "*.",
            "**.a",
            "a..b",
            "-a.b",
            "a_b.c",
            "10.0.0.1",
            "a.1",
            "[::1]",
            "a.b:443",
            "http://",
            "ftp://a",
            "https://a/",
            "https://a:0",
            "https://a:08443",
            "https://u@a",
            "https://*.a",
            "https://0x7f.1",
            "https://[::01]",
        ] {
            assert!(text.parse::<PushHost>().is_err(), "{text}");
        }
    }

    proptest! {
        // The HTTP client parses URLs by the rules of browsers. It must find the same host in an endpoint as `check` does.
        #[test]
        fn accepted_endpoints_lead_to_a_push_service(
            head in "(https|HTTPS|http)://([a-z@:\\[\\].]{0,6}|fcm\\.googleapis\\.com)", rest in "[ -~]{0,24}", suffix in "(\\.push\\.apple\\.com)?[/?]?[!-~]{0,6}",
        ) {
            if let Ok(endpoint) = checked(&format!("{head}{rest}{suffix}")) {
                let url = Url::parse(&endpoint).unwrap();
                let host = url.host_str().unwrap();
                prop_assert!(host == "fcm.googleapis.com" || host.ends_with(".push.apple.com"), "{}", endpoint);
                prop_assert_eq!(url.scheme(), "https");
                prop_assert_eq!(url.port_or_known_default(), Some(443));
                prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
            }
        }
    }
}
