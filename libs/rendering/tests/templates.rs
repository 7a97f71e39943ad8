//! Checking and rendering templates.
#![allow(clippy::unwrap_used, missing_docs)]

use domain::Channel;
use domain::content::{EmailContent, InAppContent};
use domain::overrides::{EmailOverride, PushOverride};
use minijinja::{Value, context};
use rendering::{Template, TemplateError, check};
use serde_json::json;

fn email(channels: &serde_json::Value, variables: &Value) -> Result<EmailContent, TemplateError> {
    Template::compile(channels).unwrap().email(variables, &EmailOverride::default()).map(Option::unwrap)
}

fn title(title: &str, variables: &Value) -> Result<InAppContent, TemplateError> {
    let template = Template::compile(&json!({"inApp": {"title": title}})).unwrap();
    template.in_app(variables, InAppContent::default())
}

#[test]
fn every_fault_is_told_with_its_line() {
    let channels = json!({
        "inApp": {"title": "fine\n{{ name", "data": {"deep": [{"er": "{% if %}"}], "n": 7}},
        "email": {"subject": "{{ name }}", "html": "1\n2\n{% endfor %}"},
        "sms": {"text": "fine"},
    });
    let problems = check(&channels).unwrap_err();
    let told: Vec<_> = problems.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
    let fields = ["channels.inApp.title", "channels.email.html", "channels.inApp.data.deep.0.er"];
    assert_eq!(told, fields.map(|field| (field, "template_syntax")));
    for (problem, line) in problems.iter().zip(["line 2", "line 3", "line 1"]) {
        assert!(problem.message.contains(line), "{}", problem.message);
    }
}

#[test]
fn unknown_members_and_nothing_at_all_are_faults() {
    for (channels, word) in [
        (json!({"inApp": {"titel": "x"}}), "titel"),
        (json!({"inapp": {"title": "x"}}), "inapp"),
        (json!({"email": {"text": "x"}}), "subject"),
        (json!({"sms": {"text": 7}}), "string"),
    ] {
        let problems = check(&channels).unwrap_err();
        assert_eq!(problems[0].code, "invalid");
        assert!(problems[0].message.contains(word), "{}", problems[0].message);
        assert!(Template::compile(&channels).is_err());
    }
    let problems = check(&json!({})).unwrap_err();
    assert_eq!((problems.len(), problems[0].code), (1, "required"));
    check(&json!({"sms": {"text": ""}})).unwrap();
}

#[test]
fn the_channels_with_content_are_offered() {
    let channels = json!({"inApp": {"title": "x"}, "mobilePush": {}, "sms": {"text": "x"}});
    let template = Template::compile(&channels).unwrap();
    assert_eq!(template.offered(), [Channel::InApp, Channel::MobilePush, Channel::Sms]);
    assert!(template.email(&Value::UNDEFINED, &EmailOverride::default()).unwrap().is_none());
}

#[test]
fn what_is_undefined_is_empty() {
    let variables = context! { known => context! { name => "Ada" } };
    let text = "[{{ known.name }}{{ known.age }}{{ known.home.street }}{{ nobody.at.all | upper }}]";
    assert_eq!(title(text, &variables).unwrap().title.unwrap(), "[Ada]");
}

#[test]
fn html_alone_is_escaped_and_a_subject_is_one_line() {
    let all = "{{ words }}";
    let channels = json!({"email": {"subject": all, "text": all, "html": all}});
    let words = "<b>\r\nBcc: eve@example.com\t&\u{2028}\u{0}end";
    let content = email(&channels, &context! { words }).unwrap();
    assert_eq!(content.subject, "<b> Bcc: eve@example.com & end");
    assert_eq!(content.text.as_deref(), Some(words));
    let html = content.html.unwrap();
    assert!(html.starts_with("&lt;b&gt;") && html.contains("&amp;") && !html.contains('<'), "{html}");
}

#[test]
fn every_text_of_an_item_is_rendered() {
    let channels = json!({"inApp": {
        "title": "{{ n }}", "url": "https://example.com/{{ n }}",
        "data": {"own": ["{{ n }}", 5], "shared": "template"}, "blocks": [{"text": "{{ n }}"}],
    }});
    let template = Template::compile(&channels).unwrap();
    let plain = InAppContent {
        title: Some("plain".to_owned()),
        message: Some("kept".to_owned()),
        data: json!({"shared": "send"}).as_object().cloned().unwrap(),
        ..InAppContent::default()
    };
    let content = template.in_app(&context! { n => 1 }, plain).unwrap();
    assert_eq!(
        serde_json::to_value(content).unwrap(),
        json!({
            "title": "1", "message": "kept", "icon": null, "url": "https://example.com/1",
            "data": {"own": ["1", 5], "shared": "send"}, "blocks": [{"text": "1"}],
        })
    );
}

#[test]
fn work_and_length_are_bounded() {
    let endless = "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}x";
    let error = title(endless, &Value::UNDEFINED).unwrap_err();
    assert!(matches!(&error, TemplateError::Text(cause) if cause.to_string().contains("fuel")), "{error}");

    let big = context! { big => "x".repeat(100 * 1024) };
    let text = title("{{ big }}{{ big }}", &big).unwrap().title.unwrap();
    assert_eq!(text.len(), 200 * 1024);
    assert!(matches!(title("{{ big }}{{ big }}{{ big }}", &big), Err(TemplateError::Text(_))));
    assert!(title("{% include 'inApp.title' %}", &Value::UNDEFINED).is_err(), "itself in itself");
}

#[test]
fn an_empty_title_or_subject_is_an_error() {
    assert!(matches!(title("{{ nothing }} ", &Value::UNDEFINED), Err(TemplateError::Empty(_))));
    let channels = json!({"email": {"subject": "{{ nothing }}\n"}});
    assert!(matches!(email(&channels, &Value::UNDEFINED), Err(TemplateError::Empty(_))));
}

#[test]
fn a_link_that_comes_out_as_none_is_an_error() {
    let texts = json!({"title": "t", "icon": "{{ icon }}", "url": "{{ url }}"});
    let channels = json!({"inApp": texts, "webPush": texts, "mobilePush": texts});
    let template = Template::compile(&channels).unwrap();
    let rendered = |icon: &str, url: &str| {
        let variables = context! { icon, url };
        let mut errors = vec![template.in_app(&variables, InAppContent::default()).err()];
        for channel in [Channel::WebPush, Channel::MobilePush] {
            errors.push(template.push(channel, &variables, &PushOverride::default()).err());
        }
        errors.into_iter().map(|error| error.map(|error| error.to_string())).collect::<Vec<_>>()
    };
    for (icon, url) in [("", ""), ("bell", "/7"), ("data:image/png;base64,AA", "shop://7")] {
        assert_eq!(rendered(icon, url), [None, None, None], "{icon} {url}");
    }
    for (icon, url, what) in [
        ("bell", "java\nscript:alert(1)", "the url"),
        ("bell", "data:image/png;base64,AA", "the url"),
        ("javascript:alert(1)", "/7", "the icon"),
    ] {
        for error in rendered(icon, url) {
            let error = error.unwrap();
            assert!(error.starts_with(what) && !error.contains("alert"), "{error}");
        }
    }
}
