//! The pages behind an email's unsubscribe link, in a language that the reader prefers.

use std::sync::LazyLock;

use actix_web::http::StatusCode;
use actix_web::http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponse};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use credentials::secrets;
use domain::Channel;
use domain::html::escaped;
use store::directory::preference::Subscription;

const STYLE: &str = include_str!("unsubscribe_page.css");

/// Content security policy of the page. It allows no content from other origins, no script and no framing. The form may post
/// only to the page's own origin.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(secrets::sha256(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
});

/// Content of the page, with the token of the link.
pub(crate) enum PageContent<'a> {
    /// Question to the reader: unsubscribe from emails of a category?
    Asked(&'a Subscription, &'a str),
    /// Confirmation that the reader gets no more emails of the category.
    Done(&'a Subscription, &'a str),
    /// Notice that the emails cannot be turned off, because their category is critical.
    Critical(&'a Subscription, &'a str),
    /// Notice that the link is not valid.
    Unknown,
}

/// Texts of the pages in one language; `{app}` and `{category}` are placeholders for names.
pub(super) struct PageTexts {
    pub(super) language: &'static str,
    heading: &'static str,
    asked: &'static str,
    button: &'static str,
    done: &'static str,
    critical: &'static str,
    unknown: &'static str,
    /// Text of the link to the preferences, and their heading.
    pub(super) preferences: &'static str,
    pub(super) choose: &'static str,
    pub(super) no_choice: &'static str,
    pub(super) save: &'static str,
    pub(super) saved: &'static str,
    /// Note at a critical category.
    pub(super) locked: &'static str,
    channels: [(Channel, &'static str); 5],
}

impl PageTexts {
    pub(super) fn channel(&self, channel: Channel) -> &'static str {
        let known = self.channels.iter().find(|(known, _)| *known == channel);
        known.map_or_else(|| channel.as_str(), |(_, name)| name)
    }
}

/// Available languages; the first is the default.
const WORDS: &[PageTexts] = &[
    PageTexts {
        language: "en",
        heading: "Email settings",
        asked: "Do you want to unsubscribe from emails of the kind “{category}” from {app}?",
        button: "Unsubscribe",
        done: "You will get no more emails of the kind “{category}” from {app}.",
        critical: "Emails of the kind “{category}” from {app} are necessary and cannot be turned off.",
        unknown: "This link is not valid, or is no longer valid.",
        preferences: "Notification settings",
        choose: "Choose how {app} reaches you.",
        no_choice: "There is nothing to choose yet.",
        save: "Save",
        saved: "Your choices are saved.",
        locked: "Always on",
        channels: [
            (Channel::InApp, "Inbox"),
            (Channel::Email, "Email"),
            (Channel::Sms, "SMS"),
            (Channel::MobilePush, "Mobile push"),
            (Channel::WebPush, "Browser push"),
        ],
    },
    PageTexts {
        language: "de",
        heading: "E-Mail-Einstellungen",
        asked: "Möchten Sie keine E-Mails der Art „{category}“ von {app} mehr erhalten?",
        button: "Abbestellen",
        done: "Sie erhalten keine E-Mails der Art „{category}“ von {app} mehr.",
        critical: "E-Mails der Art „{category}“ von {app} sind notwendig und lassen sich nicht abbestellen.",
        unknown: "Dieser Link ist nicht oder nicht mehr gültig.",
        preferences: "Benachrichtigungen einstellen",
        choose: "Wählen Sie, wie {app} Sie erreicht.",
        no_choice: "Es gibt noch nichts einzustellen.",
        save: "Speichern",
        saved: "Ihre Auswahl ist gespeichert.",
        locked: "Immer an",
        channels: [
            (Channel::InApp, "Eingang"),
            (Channel::Email, "E-Mail"),
            (Channel::Sms, "SMS"),
            (Channel::MobilePush, "Mobile Push"),
            (Channel::WebPush, "Browser-Push"),
        ],
    },
    PageTexts {
        language: "fr",
        heading: "Préférences d’e-mail",
        asked: "Ne souhaitez-vous plus recevoir d’e-mails « {category} » de {app} ?",
        button: "Se désabonner",
        done: "Vous ne recevrez plus d’e-mails « {category} » de {app}.",
        critical: "Les e-mails « {category} » de {app} sont nécessaires et ne peuvent pas être désactivés.",
        unknown: "Ce lien n’est pas valide, ou ne l’est plus.",
        preferences: "Réglages des notifications",
        choose: "Choisissez comment {app} vous contacte.",
        no_choice: "Il n’y a encore rien à régler.",
        save: "Enregistrer",
        saved: "Vos choix sont enregistrés.",
        locked: "Toujours actif",
        channels: [
            (Channel::InApp, "Liste"),
            (Channel::Email, "E-mail"),
            (Channel::Sms, "SMS"),
            (Channel::MobilePush, "Push mobile"),
            (Channel::WebPush, "Push web"),
        ],
    },
    PageTexts {
        language: "es",
        heading: "Preferencias de correo",
        asked: "¿No quiere recibir más correos «{category}» de {app}?",
        button: "Darse de baja",
        done: "No recibirá más correos «{category}» de {app}.",
        critical: "Los correos «{category}» de {app} son necesarios y no se pueden desactivar.",
        unknown: "Este enlace no es válido, o ya no lo es.",
        preferences: "Ajustes de notificaciones",
        choose: "Elija cómo le avisa {app}.",
        no_choice: "Todavía no hay nada que elegir.",
        save: "Guardar",
        saved: "Sus preferencias se han guardado.",
        locked: "Siempre activo",
        channels: [
            (Channel::InApp, "Bandeja"),
            (Channel::Email, "Correo"),
            (Channel::Sms, "SMS"),
            (Channel::MobilePush, "Push móvil"),
            (Channel::WebPush, "Push web"),
        ],
    },
];

pub(super) fn page(request: &HttpRequest, status: StatusCode, content: &PageContent<'_>) -> HttpResponse {
    let words = texts_for(request);
    answer(status, words, words.heading, &html(words, content))
}

/// Returns the texts in a language of the reader.
pub(super) fn texts_for(request: &HttpRequest) -> &'static PageTexts {
    let accepted = request.headers().get_all(ACCEPT_LANGUAGE).filter_map(|value| value.to_str().ok());
    page_texts(accepted.flat_map(|value| value.split(',')))
}

/// Returns a page with a heading above its content. The content is HTML.
pub(super) fn answer(status: StatusCode, words: &PageTexts, heading: &str, content: &str) -> HttpResponse {
    let language = words.language;
    HttpResponse::build(status)
        .insert_header((CONTENT_SECURITY_POLICY, POLICY.as_str()))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((X_FRAME_OPTIONS, "DENY"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header(("X-Robots-Tag", "noindex"))
        .insert_header((CONTENT_LANGUAGE, language))
        .content_type("text/html; charset=utf-8")
        .body(format!(
            "<!doctype html>\n<html lang=\"{language}\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{heading}</title>\n<style>{STYLE}</style>\n\
             <main><h1>{heading}</h1>\n{content}</main>\n</html>\n"
        ))
}

/// Returns the texts in the available language that the reader prefers most (`Accept-Language`, RFC 9110, section 12.5.4).
fn page_texts<'a>(accepted: impl Iterator<Item = &'a str>) -> &'static PageTexts {
    let mut best: (f32, &PageTexts) = (0.0, &WORDS[0]);
    for range in accepted {
        let (tag, parameters) = range.split_once(';').unwrap_or((range, ""));
        let primary = tag.trim().split('-').next().unwrap_or_default();
        let weight = parameters.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse).unwrap_or_default();
        let known = WORDS.iter().find(|words| words.language.eq_ignore_ascii_case(primary));
        if let Some(words) = known.filter(|_| weight > best.0) {
            best = (weight, words);
        }
    }
    best.1
}

fn html(words: &PageTexts, content: &PageContent<'_>) -> String {
    let PageTexts { asked, button, done, critical, unknown, preferences, .. } = words;
    let (text, subscription, token) = match content {
        PageContent::Asked(subscription, token) => (asked, Some(subscription), Some(token)),
        PageContent::Done(subscription, token) => (done, Some(subscription), Some(token)),
        PageContent::Critical(subscription, token) => (critical, Some(subscription), Some(token)),
        PageContent::Unknown => (unknown, None, None),
    };
    let text = subscription.map_or_else(
        || (*text).to_owned(),
        |Subscription { app, category, .. }| {
            // The names are inserted in one pass, because a name may itself contain a placeholder.
            let (before, after) = text.split_once("{category}").unwrap_or((text, ""));
            [before.replace("{app}", &escaped(app)), escaped(category), after.replace("{app}", &escaped(app))]
                .concat()
        },
    );
    // The form posts to the URL of the page.
    let form = match content {
        PageContent::Asked(..) => format!(
            "<form method=\"post\"><input type=\"hidden\" name=\"List-Unsubscribe\" value=\"One-Click\">\
             <button>{button}</button></form>\n"
        ),
        _ => String::new(),
    };
    let more = token.map_or_else(String::new, |token| {
        format!("<p><a href=\"{}/preferences\">{preferences}</a></p>\n", escaped(token))
    });
    format!("<p>{text}</p>\n{form}{more}")
}

#[cfg(test)]
mod tests {
    use super::{WORDS, page_texts};

    #[test]
    fn the_page_uses_the_available_language_that_the_reader_prefers() {
        let cases = [
            ("", "en"),
            ("de", "de"),
            ("DE-at, en;q=0.9", "de"),
            ("nl, fr;q=0.4, es;q=0.6", "es"),
            ("nl", "en"),
            ("fr;q=0", "en"),
            ("*;q=0.1", "en"),
            ("de;q=much", "en"),
        ];
        for (accepted, language) in cases {
            assert_eq!(page_texts(accepted.split(',')).language, language, "{accepted}");
        }
    }

    #[test]
    fn every_text_names_the_app_and_the_category_once() {
        for words in WORDS {
            for text in [words.asked, words.done, words.critical] {
                assert_eq!(text.matches("{category}").count(), 1, "{text}");
                assert_eq!(text.matches("{app}").count(), 1, "{text}");
            }
        }
    }
}
