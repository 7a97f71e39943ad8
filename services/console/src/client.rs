//! The client of a request: its address and its browser.

use actix_web::HttpRequest;
use actix_web::http::header::USER_AGENT;
use operations::operators::Client;
use web::peer;

use crate::console::Console;

/// Browsers by a part of their `User-Agent`. Many name other browsers too, so the first match counts.
const BROWSERS: [(&str, &str); 8] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
];
const SYSTEMS: [(&str, &str); 7] = [
    ("Windows", "Windows"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Mac OS X", "macOS"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
];

pub(crate) fn client(console: &Console, request: &HttpRequest) -> Client {
    let address = peer::behind(&console.proxies, request.peer_addr(), request.headers());
    let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    Client { address, browser: browser(agent.unwrap_or_default()) }
}

/// Describes a browser by its `User-Agent`, such as `Firefox on Linux`.
fn browser(agent: &str) -> String {
    let name = |known: &[(&str, &'static str)]| {
        known.iter().find(|(part, _)| agent.contains(part)).map(|(_, name)| *name)
    };
    match (name(&BROWSERS), name(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, Some(system)) => format!("A browser on {system}"),
        (None, None) => "An unknown browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::browser;

    #[test]
    fn browsers_are_described_in_words() {
        for (agent, words) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1",
                "Safari on iPhone",
            ),
            ("Mozilla/5.0 (Linux; Android 10; K) Chrome/140.0.0.0 Mobile Safari/537.36", "Chrome on Android"),
            ("<script>alert(1)</script>", "An unknown browser"),
            ("", "An unknown browser"),
        ] {
            assert_eq!(browser(agent), words, "{agent}");
        }
    }
}
