//! The paths of the console.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Methods and paths of all pages. `{app}` stands for the name of an app.
pub const ROUTES: [(&str, &str); 130] = [
    ("GET", "/"),
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("GET", "/sign-in/oidc"),
    ("GET", "/sign-in/oidc/callback"),
    ("GET", "/welcome"),
    ("POST", "/welcome"),
    ("POST", "/sign-out"),
    ("GET", "/apps"),
    ("GET", "/installation"),
    ("GET", "/operators"),
    ("GET", "/operators/new"),
    ("POST", "/operators/new"),
    ("GET", "/operators/{email}"),
    ("GET", "/operators/{email}/grant"),
    ("POST", "/operators/{email}/grant"),
    ("GET", "/operators/{email}/revoke"),
    ("POST", "/operators/{email}/revoke"),
    ("GET", "/operators/{email}/disable"),
    ("POST", "/operators/{email}/disable"),
    ("GET", "/operators/{email}/enable"),
    ("POST", "/operators/{email}/enable"),
    ("GET", "/operators/{email}/link"),
    ("POST", "/operators/{email}/link"),
    ("GET", "/operators/{email}/unlink"),
    ("POST", "/operators/{email}/unlink"),
    ("GET", "/tokens"),
    ("GET", "/tokens/new"),
    ("POST", "/tokens/new"),
    ("GET", "/tokens/{number}/revoke"),
    ("POST", "/tokens/{number}/revoke"),
    ("GET", "/account"),
    ("GET", "/account/password"),
    ("POST", "/account/password"),
    ("GET", "/account/sessions"),
    ("POST", "/account/sessions"),
    ("GET", "/audit"),
    ("GET", "/setup"),
    ("POST", "/setup"),
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
    ("GET", "/apps/{app}/people/{id}/reveal"),
    ("POST", "/apps/{app}/people/{id}/reveal"),
    ("GET", "/apps/{app}/audit"),
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
    ("GET", "/apps/{app}/setup"),
    ("POST", "/apps/{app}/setup"),
    ("GET", "/apps/{app}/providers"),
    ("GET", "/apps/{app}/providers/new"),
    ("POST", "/apps/{app}/providers/new"),
    ("GET", "/apps/{app}/provider/{id}"),
    ("GET", "/apps/{app}/provider/{id}/edit"),
    ("POST", "/apps/{app}/provider/{id}/edit"),
    ("POST", "/apps/{app}/provider/{id}/test"),
    ("GET", "/apps/{app}/provider/{id}/switch"),
    ("POST", "/apps/{app}/provider/{id}/switch"),
    ("POST", "/apps/{app}/provider/{id}/move"),
    ("GET", "/apps/{app}/provider/{id}/remove"),
    ("POST", "/apps/{app}/provider/{id}/remove"),
    ("GET", "/apps/{app}/settings"),
    ("POST", "/apps/{app}/settings"),
    ("GET", "/apps/{app}/credentials"),
    ("GET", "/apps/{app}/credentials/secret"),
    ("POST", "/apps/{app}/credentials/secret"),
    ("GET", "/apps/{app}/credentials/link-key"),
    ("POST", "/apps/{app}/credentials/link-key"),
    ("GET", "/apps/{app}/credentials/signing-key"),
    ("POST", "/apps/{app}/credentials/signing-key"),
    ("GET", "/apps/{app}/credentials/signing-key/{kid}"),
    ("POST", "/apps/{app}/credentials/signing-key/{kid}"),
    ("GET", "/apps/{app}/webhooks"),
    ("GET", "/apps/{app}/webhooks/new"),
    ("POST", "/apps/{app}/webhooks/new"),
    ("GET", "/apps/{app}/webhook/{number}"),
    ("GET", "/apps/{app}/webhook/{number}/edit"),
    ("POST", "/apps/{app}/webhook/{number}/edit"),
    ("GET", "/apps/{app}/webhook/{number}/secret"),
    ("POST", "/apps/{app}/webhook/{number}/secret"),
    ("GET", "/apps/{app}/webhook/{number}/remove"),
    ("POST", "/apps/{app}/webhook/{number}/remove"),
    ("POST", "/apps/{app}/webhook/{number}/redeliver"),
    ("GET", "/apps/{app}/categories"),
    ("GET", "/apps/{app}/categories/new"),
    ("POST", "/apps/{app}/categories/new"),
    ("GET", "/apps/{app}/category/{number}"),
    ("POST", "/apps/{app}/category/{number}"),
    ("GET", "/apps/{app}/category/{number}/delete"),
    ("POST", "/apps/{app}/category/{number}/delete"),
    ("GET", "/apps/{app}/topics"),
    ("GET", "/apps/{app}/topics/new"),
    ("POST", "/apps/{app}/topics/new"),
    ("GET", "/apps/{app}/topic/{number}"),
    ("POST", "/apps/{app}/topic/{number}"),
    ("GET", "/apps/{app}/topic/{number}/delete"),
    ("POST", "/apps/{app}/topic/{number}/delete"),
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

/// Forms of the segments that browsers and proxies remove from paths: `.` and `..`. They encode the encoded name once more.
const DOTS: [(&str, &str); 2] = [(".", "%252E"), ("..", "%252E%252E")];

/// Encodes a name for a segment of a path.
pub(crate) fn segment(name: &str) -> String {
    if let Some((_, form)) = DOTS.iter().find(|(dots, _)| *dots == name) {
        return (*form).to_owned();
    }
    let text = encoded(name);
    if DOTS.iter().any(|(_, form)| *form == text) {
        // This name would be read as dots.
        return name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    }
    text
}

/// Returns the decoded segments of a path below the base path; None if the path is not below it, or not UTF-8.
pub(crate) fn segments(path: &str, base: &str) -> Option<Vec<String>> {
    let below = path.strip_prefix(base)?;
    if below.is_empty() || below == "/" {
        return Some(Vec::new());
    }
    let segments = below.strip_prefix('/')?.split('/');
    let decode = |segment: &str| match DOTS.iter().find(|(_, form)| *form == segment) {
        Some((dots, _)) => Some((*dots).to_owned()),
        None => Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned()),
    };
    segments.map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_path() {
        for name in
            ["shop", "a/b?c#d", "ünïcode", "50% & more", "a+b", "<script>", ".", "..", "%2E", "%2E%2E", "..."]
        {
            let path = format!("/console/apps/{}/sends", segment(name));
            assert!(!path.contains(['?', '#', ' ', '<', '+']), "{path}");
            let url = reqwest::Url::parse(&format!("http://localhost{path}")).unwrap();
            assert_eq!(url.path(), path, "browsers keep the path");
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
