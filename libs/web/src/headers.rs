//! Headers that carry credentials. Their names begin with one of the configured prefixes.

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, InvalidHeaderName};

use crate::failure::Failure;

/// A credential header, named without its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    ApiKey,
    /// Sent as `API-SECRET` or `SECRET-KEY`; every call accepts both names.
    ApiSecret,
    UserId,
    DeviceId,
    /// Secret that the gateway issued to a device. It proves the device of a caller that has only the app's public key.
    DeviceSecret,
    UserSignature,
}

impl Credential {
    const ALL: [Credential; 6] = [
        Credential::ApiKey,
        Credential::ApiSecret,
        Credential::UserId,
        Credential::DeviceId,
        Credential::DeviceSecret,
        Credential::UserSignature,
    ];

    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Credential::ApiKey => &["api-key"],
            Credential::ApiSecret => &["api-secret", "secret-key"],
            Credential::UserId => &["user-id"],
            Credential::DeviceId => &["device-id"],
            Credential::DeviceSecret => &["device-secret"],
            Credential::UserSignature => &["user-signature"],
        }
    }
}

/// Accepted names of each credential header: each prefix combined with each suffix.
pub struct HeaderNames {
    names: [Vec<HeaderName>; Credential::ALL.len()],
    vary: HeaderValue,
}

impl HeaderNames {
    /// Builds the names. The prefixes have no hyphen at the end. Returns an error if a prefix contains a character that header
    /// names must not have.
    pub fn new(prefixes: &[String]) -> Result<HeaderNames, InvalidHeaderName> {
        let mut names: [Vec<HeaderName>; Credential::ALL.len()] = Default::default();
        for credential in Credential::ALL {
            for prefix in prefixes {
                for suffix in credential.suffixes() {
                    names[credential as usize].push(format!("{prefix}-{suffix}").parse()?);
                }
            }
        }
        let all = names.iter().flatten().map(HeaderName::as_str);
        let vary = [AUTHORIZATION.as_str()].into_iter().chain(all).collect::<Vec<_>>().join(", ");
        // Header names are valid header values, so the fallback is never used.
        let vary = HeaderValue::from_str(&vary).unwrap_or(HeaderValue::from_static("*"));
        Ok(HeaderNames { names, vary })
    }

    /// Returns the value of `Vary` for answers that depend on the caller: the names of all headers that may carry a credential.
    pub fn vary(&self) -> HeaderValue {
        self.vary.clone()
    }

    /// Returns the name of a header with the first prefix, in capitals, for error messages.
    pub fn name(&self, credential: Credential) -> String {
        let name = self.names[credential as usize].first();
        name.map(|name| name.as_str().to_ascii_uppercase()).unwrap_or_default()
    }

    /// Returns the value of a credential header; None if the header is missing or empty.
    ///
    /// 401 if the value is not UTF-8. Also 401 if the request has the header more than once, under any of its names, with
    /// different values.
    pub fn read<'a>(
        &self,
        headers: &'a HeaderMap,
        credential: Credential,
    ) -> Result<Option<&'a str>, Failure> {
        let mut found = None;
        for name in &self.names[credential as usize] {
            for value in headers.get_all(name).filter(|value| !value.is_empty()) {
                let value = std::str::from_utf8(value.as_bytes()).map_err(|_| {
                    Failure::unauthorized("malformed_credentials", format!("the header {name} is not UTF-8"))
                })?;
                if found.is_some_and(|earlier| earlier != value) {
                    let message = format!("the header {name} was sent with different values");
                    return Err(Failure::unauthorized("conflicting_credentials", message));
                }
                found = Some(value);
            }
        }
        Ok(found)
    }
}
