//! Operator of a request: by the session in its cookie, or by the header of a trusted proxy.

use std::net::IpAddr;

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{COOKIE, HOST, HeaderMap, ORIGIN};
use operations::operators::{SESSION_LIFETIME, SignedIn};

use crate::answer::Refusal;
use crate::console::Console;

/// Names of the cookies of a session and of a sign-in by a provider.
const SECURE: [&str; 2] = ["__Host-tidings", "__Host-tidings-oidc"];
/// Names on http, which browsers allow for this machine only.
const PLAIN: [&str; 2] = ["tidings-console", "tidings-console-oidc"];

/// Returns the operator who asks.
pub(crate) async fn operator(console: &Console, request: &HttpRequest) -> Result<SignedIn, Refusal> {
    if let Some(email) = console.named_by_proxy(request) {
        let found = console.sign_ins.of_proxy(&email).await?;
        return found.ok_or(Refusal::NoOperator(email));
    }
    let token = console.cookies(request).token().ok_or(Refusal::SignIn)?;
    console.sign_ins.of_session(&token).await?.ok_or(Refusal::SignIn)
}

/// The cookies of a request and of its answer.
#[derive(Clone, Copy)]
pub(crate) struct Cookies<'a> {
    headers: &'a HeaderMap,
    is_secure: bool,
}

impl<'a> Cookies<'a> {
    /// With a public URL of https, the cookies need TLS under every name of the console, because a proxy may pass on any `Host`. Otherwise they
    /// need it unless the request names this machine.
    pub(crate) fn of(request: &'a HttpRequest, has_tls: bool) -> Cookies<'a> {
        let headers = request.headers();
        Cookies { headers, is_secure: has_tls || !is_on_this_machine(headers) }
    }

    /// Returns the token of the session.
    pub(crate) fn token(&self) -> Option<String> {
        let [name, _] = self.names();
        self.read(name)
    }

    /// Returns the state of a sign-in by a provider.
    pub(crate) fn flow(&self) -> Option<String> {
        let [_, name] = self.names();
        self.read(name)
    }

    /// Returns the value of `Set-Cookie` for a new session.
    pub(crate) fn begin(&self, token: &str) -> String {
        let [name, _] = self.names();
        self.set(name, token, SESSION_LIFETIME.as_secs())
    }

    /// Returns the value of `Set-Cookie` that ends a session.
    pub(crate) fn end(&self) -> String {
        let [name, _] = self.names();
        self.set(name, "", 0)
    }

    /// Returns the value of `Set-Cookie` for a sign-in by a provider. 0 seconds remove the cookie.
    pub(crate) fn set_flow(&self, value: &str, seconds: u64) -> String {
        let [_, name] = self.names();
        self.set(name, value, seconds)
    }

    fn names(&self) -> [&'static str; 2] {
        if self.is_secure { SECURE } else { PLAIN }
    }

    fn read(&self, name: &str) -> Option<String> {
        let cookies = self.headers.get_all(COOKIE).filter_map(|header| header.to_str().ok());
        let mut pairs =
            cookies.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    }

    fn set(&self, name: &str, value: &str, seconds: u64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}")
    }
}

/// Returns true if the browser reaches the console by a name of its own machine.
fn is_on_this_machine(headers: &HeaderMap) -> bool {
    let host = host(headers);
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// Returns true if a page of another site opened the address, or loads it as a part of itself.
pub(crate) fn is_of_other_site(request: &HttpRequest) -> bool {
    request.headers().get("sec-fetch-site").is_some_and(|site| site == "cross-site")
}

/// Refuses forms that another site sent. Browsers name the site in `Sec-Fetch-Site`; older ones name its origin.
pub(crate) fn check_site(request: &HttpRequest, public_origin: Option<&str>) -> Result<(), Refusal> {
    if [Method::GET, Method::HEAD].contains(request.method()) {
        return Ok(());
    }
    let headers = request.headers();
    let is_own = match headers.get("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()).is_some_and(|origin| {
            let scheme = if is_on_this_machine(headers) { "http" } else { "https" };
            let own = format!("{scheme}://{}", host(headers));
            origin == public_origin.unwrap_or(&own)
        }),
    };
    if is_own { Ok(()) } else { Err(Refusal::ForeignForm) }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn of_host(host: &str) -> HttpRequest {
        TestRequest::default().insert_header((HOST, host)).to_http_request()
    }

    #[test]
    fn cookies_are_secure_unless_the_console_runs_on_this_machine() {
        for host in ["localhost:8090", "127.0.0.1:8090", "[::1]:8090", "localhost"] {
            let cookie = Cookies::of(&of_host(host), false).begin("t0ken");
            assert!(
                cookie.starts_with("tidings-console=t0ken; Path=/; HttpOnly") && !cookie.contains("Secure"),
                "{cookie}"
            );
        }
        for host in
            ["ops.example.com", "localhost.example.com", "10.0.0.1:8090", "", "127.0.0.1.example.com:80"]
        {
            let cookie = Cookies::of(&of_host(host), false).begin("t0ken");
            assert!(
                cookie.starts_with("__Host-tidings=t0ken; Path=/;") && cookie.ends_with("; Secure"),
                "{cookie}"
            );
        }
    }

    #[test]
    fn a_public_url_with_https_makes_cookies_secure_for_every_host() {
        for host in ["localhost", "127.0.0.1:8090", "ops.example.com", ""] {
            let request = TestRequest::default()
                .insert_header((HOST, host))
                .insert_header((
                    COOKIE,
                    "tidings-console=chosen; __Host-tidings=t0ken; __Host-tidings-oidc=flow",
                ))
                .to_http_request();
            let cookies = Cookies::of(&request, true);
            assert_eq!(
                (cookies.token().as_deref(), cookies.flow().as_deref()),
                (Some("t0ken"), Some("flow"))
            );
            for (cookie, name) in [
                (cookies.begin("t0ken"), "__Host-tidings=t0ken;"),
                (cookies.end(), "__Host-tidings=;"),
                (cookies.set_flow("x", 600), "__Host-tidings-oidc=x;"),
            ] {
                assert!(cookie.starts_with(name) && cookie.ends_with("; Secure"), "{host}: {cookie}");
            }
        }
    }

    #[test]
    fn only_forms_of_the_own_site_are_accepted() {
        let post = |headers: &[(&'static str, &'static str)]| {
            let mut request = TestRequest::post().insert_header((HOST, "ops.example.com"));
            for header in headers {
                request = request.insert_header(*header);
            }
            let own = check_site(&request.to_http_request(), None).is_ok();
            let mut request = TestRequest::post().insert_header((HOST, "inner:8090"));
            for header in headers {
                request = request.insert_header(*header);
            }
            (own, check_site(&request.to_http_request(), Some("https://ops.example.com")).is_ok())
        };
        assert_eq!(post(&[("sec-fetch-site", "same-origin")]), (true, true));
        assert_eq!(post(&[("origin", "https://ops.example.com")]), (true, true));
        for foreign in ["same-site", "cross-site", "none"] {
            assert_eq!(
                post(&[("sec-fetch-site", foreign), ("origin", "https://ops.example.com")]),
                (false, false)
            );
        }
        for foreign in ["http://ops.example.com", "https://evil.example.com", "null"] {
            assert_eq!(post(&[("origin", foreign)]), (false, false), "{foreign}");
        }
        assert_eq!(post(&[]), (false, false));
    }

    #[test]
    fn the_token_is_read_from_its_cookie_only() {
        let request = TestRequest::default()
            .insert_header((HOST, "localhost"))
            .insert_header((COOKIE, "a=b; tidings-console=t0ken; __Host-tidings=other"))
            .to_http_request();
        assert_eq!(Cookies::of(&request, false).token().as_deref(), Some("t0ken"));
    }
}
