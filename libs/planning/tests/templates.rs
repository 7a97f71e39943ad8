//! Tests of how templates are checked and rendered.
#![allow(clippy::unwrap_used, clippy::panic)]

use domain::Channel;
use domain::content::{EmailContent, InAppContent};
use domain::overrides::{EmailOverride, PushOverride};
use minijinja::{Value, context};
use planning::{Template, TemplateError, check, check_sample};
use serde_json::json;

fn email(channels: &serde_json::Value, variables: &Value) -> Result<EmailContent, TemplateError> {
    Template::compile(channels).unwrap().email(variables, &EmailOverride::default()).map(Option::unwrap)
}

fn title(title: &str, variables: &Value) -> Result<InAppContent, TemplateError> {
    let template = Template::compile(&json!({"inApp": {"title": title}})).unwrap();
    template.in_app(variables, InAppContent::default())
}

#[test]
fn every_syntax_error_is_reported_with_its_line() {
    let channels = json!({
        "inApp": {"title": "fine\n{{ name", "data": {"deep": [{"er": "{% if %}"}], "n": 7}},
        "email": {"subject": "{{ name }}", "html": "1\n2\n{% endfor %}"},
        "sms": {"text": "fine"},
    });
    let problems = check(&channels).unwrap_err();
    let found: Vec<_> = problems.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
    let fields = ["channels.inApp.title", "channels.email.html", "channels.inApp.data.deep.0.er"];
    assert_eq!(found, fields.map(|field| (field, "template_syntax")));
    for (problem, line) in problems.iter().zip(["line 2", "line 3", "line 1"]) {
        assert!(problem.message.contains(line), "{}", problem.message);
    }
}

#[test]
fn unknown_members_and_empty_templates_are_refused() {
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
    assert_eq!(template.offered_channels(), [Channel::InApp, Channel::MobilePush, Channel::Sms]);
    assert!(template.email(&Value::UNDEFINED, &EmailOverride::default()).unwrap().is_none());
}

#[test]
fn undefined_variables_render_as_empty() {
    let variables = context! { known => context! { name => "Ada" } };
    let text = "[{{ known.name }}{{ known.age }}{{ known.home.street }}{{ nobody.at.all | upper }}]";
    assert_eq!(title(text, &variables).unwrap().title.unwrap(), "[Ada]");
}

#[test]
fn only_html_is_escaped_and_a_subject_is_one_line() {
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
}

#[test]
fn a_text_whose_values_have_no_bound_is_refused_with_its_line() {
    for text in [
        "{% set x = 'a' %}{% for i in range(30) %}{% set x = x ~ x %}{% endfor %}{{ x }}",
        "{% set n = namespace(x='a') %}{% for i in items %}{% set n.x = n.x ~ i %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=big) %}{% for i in items %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
        "{% for i in items %}{% for j in items %}{% set y = y ~ i %}{% endfor %}{% endfor %}",
        "{% set x %}{% for i in range(9999) %}{{ big }}{% endfor %}{% endset %}{{ x }}",
        "{% filter upper %}{{ big }}{% endfilter %}",
        "{% for i in items recursive %}{{ loop(items) }}{% endfor %}",
        "{{ 'x' * 100000000 }}",
        "{{ big * count }}",
        "{{ (1, 2) * count }}",
        "{{ big | pprint }}",
        "{{ items | map('replace', 'a', big) | list }}",
        "{{ debug() }}",
    ] {
        let channels = json!({"inApp": {"title": format!("one\n{text}")}});
        let problems = check(&channels).unwrap_err();
        assert_eq!((problems.len(), problems[0].code), (1, "template_unbounded"), "{text}: {problems:?}");
        assert!(problems[0].message.contains("in line 2"), "{text}: {}", problems[0].message);
        // The database may hold such a text in a version that was stored before bounds were checked.
        let error = title(text, &context! { big => "x", count => 2, items => [1] }).unwrap_err();
        assert!(matches!(error, TemplateError::Unbounded { line: 1, .. }), "{text}: {error}");
    }
    for text in
        ["{% include 'inApp.title' %}", "{% macro m() %}{% endmacro %}", "{% block b %}{% endblock %}"]
    {
        let problems = check(&json!({"inApp": {"title": text}})).unwrap_err();
        assert_eq!(problems[0].code, "template_syntax", "{text}");
    }
}

/// Returns a template that doubles a text `times` times. The engine needs only a few instructions for this.
fn doubled(times: usize) -> String {
    let first = "{% set x0 = big ~ big %}".to_owned();
    let doublings = (1..times).map(|n| format!("{{% set x{n} = x{0} ~ x{0} %}}", n - 1));
    let last = format!("{{{{ x{} | length }}}}", times - 1);
    std::iter::once(first).chain(doublings).chain([last]).collect()
}

#[test]
fn values_are_bounded_before_they_are_created() {
    let small = context! { big => "x".repeat(1_000) };
    assert_eq!(title(&doubled(9), &small).unwrap().title.unwrap(), (512 * 1_000).to_string());
    let big = context! { big => "x".repeat(1_000_000) };
    assert_eq!(title(&doubled(4), &big).unwrap().title.unwrap(), 16_000_000.to_string());
    for times in [9, 30, 200] {
        let error = title(&doubled(times), &big).unwrap_err();
        let TemplateError::TooLarge { size, most } = error else { panic!("{times}: {error}") };
        assert!(size > most && most <= 64 * 1024 * 1024, "{times}: {size} of {most}");
    }
    for text in [
        "{{ big | replace('x', big) }}",
        "{{ big | list | join(big) }}",
        "{{ 'a\nb' | indent(100000) }}",
        "{{ '%100000000d' | format(1) }}",
        "{{ '%.100000000f' | format(1.5) }}",
        "{{ [1] | batch(100000000, big) }}",
        "{{ [1] | slice(100000000) }}",
        "{{ big | tojson(indent=100000000) }}",
    ] {
        assert!(title(text, &context! { big => "x".repeat(10_000) }).is_err(), "{text}");
    }
}

#[test]
fn common_template_features_have_a_bound() {
    let variables = context! {
        name => "Ada", price => 2.5, count => 4, tags => ["a", "b"],
        items => [context! { name => "Cup", price => "3.5" }, context! { name => "Pot", price => "4" }],
    };
    for (text, expected) in [
        ("{{ 'Hi ' ~ name ~ '!' }}", "Hi Ada!"),
        ("{{ price * 2 }} {{ (price|float) * (count|int) }} {{ price * 1.5 }}", "5.0 10.0 3.75"),
        ("{{ tags | join(', ') | upper }}", "A, B"),
        ("{{ name | replace('A', 'E') }} {{ '%05.1f' | format(price) }}", "Eda 002.5"),
        ("{% for i in items %}{{ loop.index }}:{{ i.name ~ '/' }}{% endfor %}", "1:Cup/2:Pot/"),
        (
            "{% set n = namespace(s=0) %}{% for i in items %}{% set n.s = n.s + i.price|float %}{% endfor %}{{ n.s }}",
            "7.5",
        ),
        ("{% set greeting = 'Dear ' ~ name %}{% if name %}{{ greeting }}{% else %}-{% endif %}", "Dear Ada"),
        ("{{ items | map(attribute='name') | join(' ') }}{{ tags | map('upper') | join }}", "Cup PotAB"),
        ("{{ tags | tojson }}{{ items | selectattr('name') | list | length }}", "[\"a\", \"b\"]2"),
        ("{% for t in tags | batch(1) %}{{ t | first }}{% endfor %}{{ missing | default('x') }}", "abx"),
    ] {
        check(&json!({"inApp": {"title": text}})).unwrap();
        assert_eq!(title(text, &variables).unwrap().title.unwrap(), expected, "{text}");
    }
}

#[test]
fn a_text_with_large_values_takes_fewer_instructions() {
    let text = "{% for i in range(60000) %}{% set y = big ~ i %}{% endfor %}{{ 'done' }}";
    let error = title(text, &context! { big => "x".repeat(1_000_000) }).unwrap_err();
    assert!(matches!(&error, TemplateError::Text(cause) if cause.to_string().contains("fuel")), "{error}");
}

#[test]
fn a_sample_reveals_render_errors_when_a_template_is_stored() {
    let channels =
        json!({"inApp": {"title": "{{ order.number | round }}"}, "sms": {"text": "{{ order.number }}"}});
    let sample = json!({"order": {"number": "seven"}});
    let problems = check_sample(&channels, sample.as_object()).unwrap_err();
    assert_eq!((problems.len(), problems[0].field.as_str()), (1, "channels.inApp.title"), "{problems:?}");
    check_sample(&channels, json!({"order": {"number": 7}}).as_object()).unwrap();
    check_sample(&channels, None).unwrap();
    let endless = "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}x";
    let problems = check_sample(&json!({"sms": {"text": endless}}), None).unwrap_err();
    assert_eq!(problems[0].code, "template_error");
}

#[test]
fn an_empty_title_or_subject_is_an_error() {
    assert!(matches!(title("{{ nothing }} ", &Value::UNDEFINED), Err(TemplateError::Empty(_))));
    let channels = json!({"email": {"subject": "{{ nothing }}\n"}});
    assert!(matches!(email(&channels, &Value::UNDEFINED), Err(TemplateError::Empty(_))));
}

#[test]
fn a_rendered_link_that_clients_must_not_open_is_an_error() {
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

/// Half of the stack of the services' threads. Without optimisation, the engine needs about twice as much stack.
const SMALL: usize = 1 << 20;

fn on_a_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(SMALL).spawn(work).unwrap().join().unwrap()
}

/// Writes a text that nests `levels` times, in one of the ways that the language has.
fn nested(way: usize, levels: usize) -> String {
    let around = |before: &str, middle: &str, after: &str| {
        format!("{}{middle}{}", before.repeat(levels), after.repeat(levels))
    };
    match way {
        0 => format!("{{{{ 1{} }}}}", "+1".repeat(levels)),
        1 => format!("{{{{ a{} }}}}", "~a".repeat(levels)),
        2 => format!("{{{{ a{} }}}}", " and a".repeat(levels)),
        3 => format!("{{{{ {}a }}}}", "not ".repeat(levels)),
        4 => format!("{{{{ {}1 }}}}", "-".repeat(levels)),
        5 => format!("{{{{ 1{} }}}}", "|int".repeat(levels)),
        6 => format!("{{{{ a{} }}}}", ".a".repeat(levels)),
        7 => format!("{{{{ a{} }}}}", "[0]".repeat(levels)),
        8 => format!("{{{{ 1{} }}}}", " if a else 1".repeat(levels)),
        9 => format!("{{{{ 1{} }}}}", "**1".repeat(levels)),
        10 => format!("{{{{ a{} }}}}", " is defined".repeat(levels)),
        11 => format!("{{{{ 1{} }}}}", "<1".repeat(levels)),
        12 => format!("{{{{ {} }}}}", around("(", "1", ")")),
        13 => format!("{{{{ {} }}}}", around("[", "1", "]")),
        14 => format!("{{{{ {} }}}}", around("{'a':", "1", "}")),
        15 => format!("{{{{ {} }}}}", around("a[", "1", "]")),
        16 => format!("{{{{ {} }}}}", around("dict(a=", "1", ")")),
        17 => around("{% if a %}", "x", "{% endif %}"),
        18 => around("{% with b=1 %}", "x", "{% endwith %}"),
        19 => around("{% autoescape true %}", "x", "{% endautoescape %}"),
        20 => format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}x".repeat(levels)),
        21 => format!("{{% if a %}}{}{{% endif %}}", "{% else %}{% if a %}x".repeat(levels)),
        22 => format!("{{% set x = 1 %}}{}{{{{ x }}}}", "{% set x = [x] %}".repeat(levels)),
        23 => format!("{{% set x = [1] %}}{}{{{{ x }}}}", "{% set x = x[:] %}".repeat(levels)),
        24 => format!("{{% set x = [1] %}}{}{{{{ x|list }}}}", "{% set x = x|select %}".repeat(levels)),
        25 => format!("{{% set x = [1] %}}{}{{{{ x|list }}}}", "{% set x = x + [1] %}".repeat(levels)),
        26 => format!("{{{{ {}1 }}}}", "-1|int+".repeat(levels)),
        27 => format!("{}x", "{% set x | replace(a='b') %}".repeat(levels)),
        28 => {
            format!("{{% set n = namespace(x=1) %}}{}{{{{ n.x }}}}", "{% set n.x = [n.x] %}".repeat(levels))
        }
        29 => format!("{{% for i in a %}}{}{{% endfor %}}", "{% filter upper %}".repeat(levels)),
        30 => format!("{{{{ a{} }}}}", "(1)".repeat(levels)),
        32 => {
            let [ifs, choices, ands] = [31, 99, 150].map(|most| levels.min(most));
            let deepest = format!("{}1{}{}", "(".repeat(15), ")".repeat(15), "+1".repeat(ands.min(130)));
            let choices = "{% elif a %}y".repeat(choices);
            let (before, after) = ("{% if a %}".repeat(ifs), "{% endif %}".repeat(ifs));
            format!("{before}{{% if b %}}{choices}{{% elif {deepest} %}}z{{% endif %}}{after}")
        }
        31 => around("{% for i in [1] %}", "x", "{% endfor %}"),
        _ => String::new(),
    }
}

const WAYS: usize = 33;

#[test]
fn no_text_overflows_the_stack_however_it_nests() {
    for way in 0..WAYS {
        for levels in [1, 3, 15, 16, 31, 32, 64, 99, 100, 149, 150, 1_000, 3_200, 10_000] {
            let channels = json!({"inApp": {"title": format!("t{}", nested(way, levels))}});
            let (found, stored) = on_a_small_stack(move || {
                let found = check(&channels).and_then(|()| check_sample(&channels, None));
                // A stored version that an older release accepted.
                let stored = Template::compile(&channels).map(|template| {
                    template.in_app(&context! { a => vec![1] }, InAppContent::default()).map(drop)
                });
                (found, stored)
            });
            let where_ = format!("way {way}, {levels} levels: {found:?}, {stored:?}");
            // The ways 21, 27, 29 and 30 are not valid at any depth, and way 24 grows too much. They must not overflow the stack either.
            assert!(levels > 3 || matches!(way, 21 | 24 | 27 | 29 | 30) || found.is_ok(), "{where_}");
            assert!(levels < 1_000 || way == 32 || found.is_err(), "{where_}");
            assert!(levels < 1_000 || way == 32 || !matches!(stored, Ok(Ok(()))), "{where_}");
        }
    }
}

#[test]
fn a_namespace_cannot_contain_itself() {
    for text in [
        "{% set n = namespace() %}{% set n.x = n %}{{ n }}",
        "{% set n = namespace() %}{% set n.x = [n] %}{{ n }}",
        "{% set n = namespace() %}{% set l = [{'a': n}] %}{% set n.x = l[0].a %}{{ n }}",
        "{% set n = namespace() %}{% set m = namespace(x=n) %}{% set n.x = m %}{{ n }}",
        "{% set n = namespace() %}{% for m in [n] %}{% set n.x = m %}{% endfor %}{{ n }}",
        "{% set n = namespace() %}{% set n.x = (n if true else 1) %}{{ n }}",
        "{% set n = namespace() %}{% set n.x = [n]|first %}{{ n }}",
    ] {
        let problems = check(&json!({"inApp": {"title": text}})).unwrap_err();
        assert_eq!(problems[0].code, "template_unbounded", "{text}");
        assert!(problems[0].message.contains("namespace"), "{}", problems[0].message);
    }
    let text = "{% set n = namespace(sum=0, seen='', last='', all=[]) %}{% for i in items %}\
        {% set n.sum = n.sum + i|float %}{% set n.seen = n.last %}{% set n.last = i %}{% endfor %}{{ n.sum }}{{ n.seen }}";
    assert_eq!(title(text, &context! { items => [1, 2] }).unwrap().title.unwrap(), "3.01");
}

#[test]
fn an_ordinary_long_template_is_accepted() {
    let colours: Vec<_> = (0..1_000).map(|number| format!("'colour {number}'")).collect();
    let choice: String = (0..95).map(|number| format!("{{% elif n == {number} %}}{number}")).collect();
    let all = (0..40).map(|number| format!("n == {number}")).collect::<Vec<_>>().join(" or ");
    let text = format!(
        "{{% set colours = [{}] %}}{{% if n == 1000 %}}{choice}{{% endif %}}{{% if {all} %}}x{{% endif %}}{{{{ colours[7] }}}}",
        colours.join(", ")
    );
    assert_eq!(title(&text, &context! { n => 33 }).unwrap().title.unwrap(), "33xcolour 7");
}
