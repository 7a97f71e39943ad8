//! The paths of the console.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Methods and paths of all pages. `{app}` stands for the name of an app.
pub const ROUTES: [(&str, &str); 46] = [
    ("GET", "/"),
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("GET", "/welcome"),
    ("POST", "/welcome"),
    ("POST", "/sign-out"),
    ("GET", "/apps"),
    ("GET", "/installation"),
    ("GET", "/apps/{app}"),
    ("GET", "/apps/{app}/sends"),
    ("GET", "/apps/{app}/sends/{id}"),
    ("GET", "/apps/{app}/sends/{id}/explain"),
    ("GET", "/apps/{app}/sends/{id}/cancel"),
    ("POST", "/apps/{app}/sends/{id}/cancel"),
    ("GET", "/apps/{app}/people"),
    ("GET", "/apps/{app}/people/{id}"),
    ("GET", "/apps/{app}/people/number/{number}"),
    ("GET", "/apps/{app}/people/{id}/erase"),
    ("POST", "/apps/{app}/people/{id}/erase"),
    ("GET", "/apps/{app}/suppressions/lift"),
    ("POST", "/apps/{app}/suppressions/lift"),
    ("GET", "/apps/{app}/waiting"),
    ("GET", "/apps/{app}/waiting/release"),
    ("POST", "/apps/{app}/waiting/release"),
    ("GET", "/apps/{app}/parked"),
    ("GET", "/apps/{app}/parked/redrive"),
    ("POST", "/apps/{app}/parked/redrive"),
    ("GET", "/apps/{app}/parked/redrive.csv"),
    ("GET", "/apps/{app}/parked/runs/{number}"),
    ("POST", "/apps/{app}/parked/runs/{number}"),
    ("GET", "/apps/{app}/templates"),
    ("GET", "/apps/{app}/new-template"),
    ("GET", "/apps/{app}/templates/{id}"),
    ("GET", "/apps/{app}/templates/{id}/edit"),
    ("POST", "/apps/{app}/templates/{id}/edit"),
    ("POST", "/apps/{app}/templates/{id}/frame"),
    ("POST", "/apps/{app}/templates/{id}/review"),
    ("POST", "/apps/{app}/templates/{id}/publish"),
    ("POST", "/apps/{app}/templates/{id}/test"),
    ("GET", "/apps/{app}/templates/{id}/versions/{number}"),
    ("GET", "/apps/{app}/templates/{id}/versions/{number}/frame"),
    ("GET", "/apps/{app}/templates/{id}/versions/{number}/restore"),
    ("POST", "/apps/{app}/templates/{id}/versions/{number}/restore"),
    ("GET", "/apps/{app}/refused"),
    ("GET", "/apps/{app}/find"),
    ("GET", "/healthz"),
];

/// Characters that stay as they are in a segment of a path or a value of a query (RFC 3986, section 2.3).
const KEPT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a name for a segment of a path or a value of a query.
pub(crate) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, &KEPT).to_string()
}

/// Returns the decoded segments of a path below the base path; None if the path is not below it, or not UTF-8.
pub(crate) fn segments(path: &str, base: &str) -> Option<Vec<String>> {
    let below = path.strip_prefix(base)?;
    if below.is_empty() || below == "/" {
        return Some(Vec::new());
    }
    let segments = below.strip_prefix('/')?.split('/');
    segments.map(|segment| Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_path() {
        for name in ["shop", "a/b?c#d", "ünïcode", "50% & more", "a+b", "<script>"] {
            let path = format!("/console/apps/{}/sends", encoded(name));
            assert!(!path.contains(['?', '#', ' ', '<', '+']), "{path}");
            assert_eq!(segments(&path, "/console").unwrap(), ["apps", name, "sends"]);
        }
    }

    #[test]
    fn only_paths_below_the_base_path_have_segments() {
        assert_eq!(segments("/", "").unwrap(), Vec::<String>::new());
        assert_eq!(segments("/console", "/console").unwrap(), Vec::<String>::new());
        assert_eq!(segments("/console/", "/console").unwrap(), Vec::<String>::new());
        assert_eq!(segments("/consoles", "/console"), None);
        assert_eq!(segments("/apps", "/console"), None);
        assert_eq!(segments("/apps/%FF", ""), None);
    }
}
