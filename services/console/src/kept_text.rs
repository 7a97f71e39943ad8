//! The text of a template in a form that was refused. The answer contains it, because the console stores no unpublished text.

use actix_web::HttpRequest;
use actix_web::http::Method;

use crate::query::Pairs;
use crate::route::{encoded, segments};

/// Maximum number of fields. The editor has about 40.
const MOST_FIELDS: usize = 64;
/// Forms with the text of a template that a browser shows as a page.
const FORMS: [&str; 4] = ["edit", "review", "publish", "test"];

/// A text that the page of a refusal contains.
pub(crate) struct KeptText {
    /// Path of the editor, which shows the text again.
    pub(crate) editor: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl KeptText {
    /// Returns the text of a form; None if the request has none.
    pub(crate) fn of(request: &HttpRequest, base: &str, body: &[u8]) -> Option<KeptText> {
        let path = segments(request.uri().path(), base)?;
        let [apps, app, templates, identifier, form] = path.as_slice() else { return None };
        let is_text = apps == "apps" && templates == "templates" && FORMS.contains(&form.as_str());
        if !is_text || request.method() != Method::POST {
            return None;
        }
        let fields = Pairs::parse(&String::from_utf8_lossy(body)).into_first(MOST_FIELDS);
        let editor = format!("{base}/apps/{}/templates/{}/edit", encoded(app), encoded(identifier));
        (!fields.is_empty()).then_some(KeptText { editor, fields })
    }

    /// Returns the fields that a person has written.
    pub(crate) fn written(&self) -> impl Iterator<Item = &(String, String)> {
        self.fields
            .iter()
            .filter(|(name, value)| name.contains('.') && name != "email.markup" && !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_forms_with_texts_are_kept() {
        let kept = |method: Method, path: &str, body: &str| {
            let request = TestRequest::with_uri(path).method(method).to_http_request();
            KeptText::of(&request, "/c", body.as_bytes())
        };
        let path = "/c/apps/a%2Fb/templates/x%3Fy/review";
        let text =
            kept(Method::POST, path, "base=1&sms.text=a+%3Cb%3E&email.markup=html&email.html=").unwrap();
        assert_eq!(text.editor, "/c/apps/a%2Fb/templates/x%3Fy/edit");
        assert_eq!(text.fields.len(), 4);
        let written: Vec<_> = text.written().map(|(_, value)| value.as_str()).collect();
        assert_eq!(written, ["a <b>"]);
        assert!(kept(Method::GET, path, "base=1").is_none());
        assert!(kept(Method::POST, path, "").is_none());
        assert!(kept(Method::POST, "/c/apps/a/templates/x/frame", "base=1").is_none());
        assert!(kept(Method::POST, "/c/apps/a/provider/x/edit", "password=1").is_none());
        assert!(kept(Method::POST, "/apps/a/templates/x/edit", "base=1").is_none());
    }
}
