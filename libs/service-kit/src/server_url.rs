use std::fmt;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// One URL, or several separated by commas (a NATS cluster). `Debug` and `Display` show only scheme, host and port, never the user, the
/// password or options.
#[derive(Clone)]
pub struct ServerUrl {
    url: SecretString,
    scheme: String,
    endpoint: String,
}

/// The message does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a URL such as scheme://user:password@host:port (characters like @ : / # in a password are written %40 %3A %2F %23)"
)]
pub struct ServerUrlError;

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        // Passwords may contain an unescaped comma, so a text that is one valid URL is never split.
        let urls = match Url::parse(text) {
            Ok(url) => vec![url],
            Err(_) => text
                .split(',')
                .map(|part| Url::parse(part.trim()))
                .collect::<Result<_, _>>()
                .map_err(|_| ServerUrlError)?,
        };
        let scheme = urls.first().ok_or(ServerUrlError)?.scheme().to_owned();
        let endpoints = urls.iter().map(|url| endpoint(url, &scheme)).collect::<Option<Vec<_>>>();
        Ok(Self {
            url: SecretString::from(text),
            endpoint: endpoints.ok_or(ServerUrlError)?.join(","),
            scheme,
        })
    }
}

fn endpoint(url: &Url, scheme: &str) -> Option<String> {
    let host = url.host_str().filter(|host| !host.is_empty() && url.scheme() == scheme)?;
    let port = url.port_or_known_default().or_else(|| default_port(scheme));
    Some(match port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "postgres" | "postgresql" => Some(5432),
        "nats" | "tls" => Some(4222),
        _ => None,
    }
}

impl ServerUrl {
    /// Contains the credentials; pass it only to the client library.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.url.expose_secret()
    }

    /// `host:port` for logs and errors, separated by commas.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.endpoint)
    }
}
