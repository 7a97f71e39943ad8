//! Emails of plain sends, compared with the files of the folder `email_layout`. `TIDINGS_TEST_WRITE_EMAILS=1` writes these files; look at
//! the pages before you commit them.

use std::path::Path;
use std::{env, fs};

use domain::content::{EmailContent, UNSUBSCRIBE_SLOT};
use domain::email_layout::{Brand, EmailLayout};

const LINK: &str = "https://notify.example.com/v3/unsubscribe/eyJhbGciOiJIUzI1NiJ9.abc?a=1&b=2";

fn brand(name: &str) -> Brand {
    Brand { name: name.to_owned(), ..Brand::default() }
}

fn branded() -> Brand {
    Brand {
        logo: Some("https://cdn.example.com/logo.png".to_owned()),
        color: Some("#635bff".parse().unwrap()),
        address: Some("Harbor Goods Ltd, 1 Main Street, Springfield".to_owned()),
        ..brand("Harbor")
    }
}

fn email(title: &str, message: &str, url: Option<&str>, brand: Brand) -> EmailContent {
    let layout = EmailLayout { title: Some(title.to_owned()), url: url.map(str::to_owned), brand };
    EmailContent {
        subject: title.to_owned(),
        text: Some(message.to_owned()),
        layout: Some(Box::new(layout)),
        ..EmailContent::default()
    }
}

fn cases() -> Vec<(&'static str, EmailContent, Option<&'static str>)> {
    let message = "Hi Ada,\n\nOrder 4711 left our warehouse this morning. DHL delivers it on Tuesday between 9 and 12.\n\n\
                   You can change the time or the place until Monday evening.";
    let url = Some("https://harbor.example/orders/4711?from=email");
    let long = "Pneumonoultramicroscopicsilicovolcanoconiosis".repeat(4);
    let german = Brand {
        button: Some("Bestellung ansehen".to_owned()),
        unsubscribe: Some("Abmelden".to_owned()),
        color: Some("#facc15".parse().unwrap()),
        ..brand("Hafenladen")
    };
    let arabic = "طلبك في الطريق";
    vec![
        ("order", email("Your order is on its way", message, url, branded().without_logo()), Some(LINK)),
        ("logo", email("Your order is on its way", message, url, branded()), Some(LINK)),
        ("plain", email("Your code is 482913", "Your code is 482913", None, brand("shop")), None),
        (
            "long",
            email(
                &format!("A title that is much longer than titles should be, and that ends with {long}"),
                &format!("{long}\n{long}"),
                Some(&format!("https://harbor.example/{long}")),
                brand(&long),
            ),
            Some(LINK),
        ),
        (
            "german",
            email("Deine Bestellung ist unterwegs", "Hallo Ada,\ndein Paket kommt am Dienstag.", url, german),
            Some(LINK),
        ),
        (
            "arabic",
            email(
                arabic,
                "مرحبا آدا،\n\nغادر طلبك 4711 مستودعنا هذا الصباح.",
                url,
                Brand {
                    button: Some("عرض الطلب".to_owned()),
                    unsubscribe: Some("إلغاء الاشتراك".to_owned()),
                    ..brand("متجر")
                },
            ),
            Some(LINK),
        ),
        (
            "hostile",
            email(
                "</title></style><script>alert(1)</script>{title}",
                "<img src=x onerror=alert(1)>\r\n\r\n<!-- \"a\" & 'b' -->",
                Some("https://harbor.example/\"><script>alert(1)</script>?`'"),
                Brand {
                    logo: Some("https://cdn.example.com/\"onerror=\"alert(1)".to_owned()),
                    address: Some("<b>1 Main Street</b>".to_owned()),
                    ..brand("\"><script>alert(1)</script>")
                },
            ),
            Some("https://notify.example.com/\"><script>alert(1)</script>"),
        ),
    ]
}

trait WithoutLogo {
    fn without_logo(self) -> Self;
}

impl WithoutLogo for Brand {
    fn without_logo(self) -> Brand {
        Brand { logo: None, ..self }
    }
}

#[test]
fn emails_of_plain_sends_are_the_golden_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/domain/email_layout");
    for (name, content, unsubscribe) in cases() {
        let (text, html) = content.parts(unsubscribe);
        for (extension, part) in [("txt", text.unwrap()), ("html", html.unwrap())] {
            let file = folder.join(format!("{name}.{extension}"));
            if env::var_os("TIDINGS_TEST_WRITE_EMAILS").is_some() {
                fs::write(&file, part.as_bytes()).unwrap();
            }
            let golden = fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(part, golden, "{} differs; see the top of this file", file.display());
        }
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let (_, content, unsubscribe) = cases().pop().unwrap();
    let (_, html) = content.parts(unsubscribe);
    let html = html.unwrap();
    assert!(!html.contains("<script") && !html.contains("<img src=x") && !html.contains("<b>"), "{html}");
    let opened = |name: &str| html.matches(&format!("<{name}")).count();
    assert_eq!((opened("style>"), opened("img "), opened("a ")), (1, 1, 2));
    assert!(!html.contains("\"onerror"), "{html}");
}

#[test]
fn only_web_links_become_buttons() {
    for url in [
        "javascript:alert(1)",
        "/orders/7",
        "shop://orders/7",
        "mailto:a@example.com",
        "https:",
        "http://",
        "file:///x",
        "data:text/html,x",
    ] {
        let (text, html) = email("Title", "Message", Some(url), brand("shop")).parts_owned();
        assert!(!html.contains("href") && !text.contains(url), "{url}: {text}");
    }
    for (url, shown) in [
        ("http://a.example", "http://a.example"),
        (" https://a.example/b?c=d#e ", "https://a.example/b?c=d#e"),
        ("HTTPS://A.example/B", "HTTPS://A.example/B"),
        ("https://bücher.example/ü x", "https://xn--bcher-kva.example/%C3%BC%20x"),
        ("https://a.example/`?'", "https://a.example/%60?%27"),
    ] {
        let (text, html) = email("Title", "Message", Some(url), brand("shop")).parts_owned();
        assert!(text.contains(&format!("\n\n{shown}\n\n")), "{url}: {text}");
        assert!(html.contains(&format!("href=\"{shown}\"")), "{url}: {html}");
    }
}

#[test]
fn a_link_that_the_message_has_is_not_repeated_in_the_text() {
    let url = "https://a.example/7";
    let (text, html) = email("Title", &format!("See {url}"), Some(url), brand("shop")).parts_owned();
    assert_eq!(text.matches(url).count(), 1);
    assert!(html.contains(&format!("href=\"{url}\"")));
}

#[test]
fn slots_become_the_unsubscribe_link_or_nothing_and_other_emails_stay_as_they_are() {
    let part = || Some(format!("<a href=\"{UNSUBSCRIBE_SLOT}\">"));
    let own = EmailContent { text: part(), html: part(), ..EmailContent::default() };
    assert_eq!(own.clone().complete(Some(LINK)), own);
    let with_slots = EmailContent { unsubscribe_slot: true, ..own };
    let filled = with_slots.clone().complete(Some(LINK));
    assert_eq!(filled.text, Some(format!("<a href=\"{LINK}\">")));
    assert_eq!(filled.html, Some(format!("<a href=\"{}\">", LINK.replace('&', "&amp;"))));
    assert_eq!(with_slots.complete(None).html.as_deref(), Some("<a href=\"\">"));
}

trait Parts {
    fn parts_owned(self) -> (String, String);
}

impl Parts for EmailContent {
    fn parts_owned(self) -> (String, String) {
        let complete = self.complete(None);
        (complete.text.unwrap(), complete.html.unwrap())
    }
}
