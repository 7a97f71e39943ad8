use std::net::SocketAddr;

use super::settings::Settings;
use super::{Network, Oidc, local};
use crate::ServerUrl;

#[derive(Clone, Debug)]
pub struct Console {
    pub listen: SocketAddr,
    /// Empty, or a path that begins with a slash and does not end with one.
    pub base_path: String,
    pub public_url: Option<ServerUrl>,
    /// Header in which a proxy names the email of the operator who signed in there.
    pub proxy_header: Option<String>,
    /// Proxies whose headers are trusted.
    pub proxy_from: Vec<Network>,
    /// False if operators do not sign in with a password.
    pub passwords: bool,
    pub oidc: Option<Oidc>,
}

impl Console {
    pub(super) fn read(settings: &mut Settings) -> Console {
        let console = Console {
            listen: settings.address("console.listen", local(8090)),
            base_path: settings.one(
                "console.base_path",
                String::new(),
                base_path,
                "a path such as /console, of letters, digits, hyphens and slashes",
            ),
            public_url: settings.url("console.public_url", &["http", "https"]),
            proxy_header: settings.one(
                "console.proxy.header",
                None,
                |text| {
                    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                    (is_name && !text.is_empty()).then(|| Some(text.to_owned()))
                },
                "the name of a header, such as X-Forwarded-Email",
            ),
            proxy_from: settings.list_or_none(
                "console.proxy.from",
                |text| text.parse().ok(),
                "addresses or networks of proxies, such as 10.0.0.0/8",
            ),
            passwords: settings.flag("console.passwords", true),
            oidc: Oidc::read(settings),
        };
        if !console.passwords && console.oidc.is_none() && console.proxy_header.is_none() {
            let advice = "turns passwords off, so it needs console.oidc.issuer or console.proxy.header";
            settings.refuse("console.passwords", Some("false".to_owned()), advice);
        }
        if let Some(header) = console.proxy_header.as_ref().filter(|_| console.proxy_from.is_empty()) {
            let advice = "needs console.proxy.from: the addresses of the proxies that set this header";
            settings.refuse("console.proxy.header", Some(header.clone()), advice);
        }
        console
    }
}

fn base_path(text: &str) -> Option<String> {
    let path = text.trim_end_matches('/');
    let is_segment = |segment: &str| {
        !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_path = path.is_empty() || path.strip_prefix('/')?.split('/').all(is_segment);
    is_path.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::base_path;

    #[test]
    fn base_paths_lose_their_last_slash_and_have_plain_segments() {
        for (text, path) in [("", ""), ("/", ""), ("/console", "/console"), ("/ops/console/", "/ops/console")]
        {
            assert_eq!(base_path(text).as_deref(), Some(path), "{text}");
        }
        for text in ["console", "//console", "/a b", "/../x", "/a?b", "/a%2Fb"] {
            assert_eq!(base_path(text), None, "{text}");
        }
    }
}
