//! Writing templates: previews store nothing, and stale forms change nothing.

use domain::Role;
use reqwest::{Method, Response, StatusCode};

use crate::fixture::{TestConsole, encoded};

const PATH: &str = "/apps/shop/templates/welcome";

/// An app `shop` whose template `welcome` has two versions, and the session of an editor.
async fn shop() -> (TestConsole, String) {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    for statement in [
        "INSERT INTO template (app_id, identifier, version) SELECT id, 'welcome', 2 FROM app",
        "INSERT INTO template_version (app_id, template_id, version, name, category, channels)
         SELECT app_id, id, number, 'Welcome', 'orders', jsonb_build_object(
           'inApp', '{\"title\": \"Hi\", \"data\": {\"a\": 1}}'::jsonb, 'sms', jsonb_build_object('text', E'Hi {{ name }}\\nversion ' || number))
         FROM template, generate_series(1, 2) AS number",
        "INSERT INTO app_user (app_id, identifier, profile) SELECT id, 'ada', '{\"app\": {\"name\": \"Ada <b>\"}}' FROM app",
    ] {
        console.installation.run(statement).await;
    }
    let editor = console.operator(Role::Editor, None).await;
    (console, editor)
}

impl TestConsole {
    async fn versions(&self) -> i64 {
        self.installation.count("SELECT count(*) FROM template_version").await
    }

    async fn newest(&self) -> serde_json::Value {
        let statement =
            "SELECT channels FROM template_version ORDER BY template_id DESC, version DESC LIMIT 1";
        sqlx::query_scalar(statement).fetch_one(&self.installation.pool).await.unwrap()
    }
}

async fn text(answer: Response, expected: StatusCode) -> String {
    assert_eq!(answer.status(), expected);
    answer.text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_shows_the_unpublished_text_and_stores_nothing() {
    let (console, editor) = shop().await;
    let form = [
        ("base", "2"),
        ("email.subject", "For {{ recipient.app.name }}"),
        ("email.html", "<h1>{{ x }}</h1><img src=\"http://a.example/b.png\">"),
        ("sms.text", "Straße {{ x }} – {{ missing }}"),
        ("sample", "{\"x\": \"<script>alert(1)</script>\"}"),
        ("person", "ada"),
    ];
    let page = text(console.change(&format!("{PATH}/edit"), &editor, &form).await, StatusCode::OK).await;
    for shown in [
        "For Ada &#60;b&#62;",
        "Straße &#60;script&#62;alert(1)&#60;/script&#62; – ",
        "1 segment, 35 characters in UCS-2",
        "the sample has no missing",
        "channels.email.html line 1: the image has no alt text",
        "channels.email.html line 1: the link is not https",
        "For {{ recipient.app.name }}</textarea>",
        "Edit welcome",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert_eq!(page.to_lowercase().matches("<script src=\"/").count(), 2, "{page}");
    assert_eq!(page.to_lowercase().matches("<script").count(), 2, "{page}");

    let call = console.call(Method::POST, &format!("{PATH}/edit")).header("x-part", "preview");
    let call = call.header("cookie", format!("tidings-console={editor}"));
    let body: Vec<_> = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let part = text(call.body(body.join("&")).send().await.unwrap(), StatusCode::OK).await;
    assert!(part.contains("1 segment, 35") && !part.contains("<html") && !part.contains("<main"), "{part}");
    assert!(part.len() < page.len() / 2);

    let frame = console.change(&format!("{PATH}/frame"), &editor, &form).await;
    let policy = frame.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(
        policy.starts_with("sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:;"),
        "{policy}"
    );
    let html = text(frame, StatusCode::OK).await;
    assert_eq!(
        html,
        "<h1>&lt;script&gt;alert(1)&lt;&#x2f;script&gt;</h1><img src=\"http://a.example/b.png\">"
    );
    assert_eq!(console.versions().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_of_a_text_are_listed_next_to_it() {
    let (console, editor) = shop().await;
    let path = format!("{PATH}/edit");
    for (name, value, problem) in [
        ("sms.text", "one\r\ntwo {{ name", "channels.sms.text has an error in line 2"),
        ("email.html", "<p>Hi</p>", "channels.email.subject is required"),
        ("inApp.data", "{", "channels.inApp.data is not valid JSON"),
        ("sample", "[1]", "The sample must be a JSON object"),
        ("sample", "{", "The sample is not valid JSON"),
        ("person", "bob", "There is no person bob in this app"),
        ("inApp.title", "", "channels must have content for at least one of"),
    ] {
        let form = [("base", "2"), (name, value), ("inApp.title", "Hi")];
        let form = if value.is_empty() { &form[..2] } else { &form };
        let page = text(console.change(&path, &editor, form).await, StatusCode::OK).await;
        assert!(page.contains(problem), "{problem} is missing in {page}");
    }
    let unpublishable = [("base", "2"), ("sms.text", "{{ name")];
    for action in ["review", "publish"] {
        let answer = console.change(&format!("{PATH}/{action}"), &editor, &unpublishable).await;
        let page = text(answer, StatusCode::BAD_REQUEST).await;
        assert!(page.contains("has an error in line 1") && page.contains("Back to the text"), "{page}");
    }
    assert_eq!(console.versions().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_published_after_its_difference_was_shown() {
    let (console, editor) = shop().await;
    let form = [
        ("base", "2"),
        ("name", "Welcome"),
        ("category", "orders"),
        ("inApp.title", "Hi"),
        ("inApp.data", "{\r\n  \"a\": 1\r\n}"),
        ("sms.text", "Hi {{ name }}\r\nversion 3"),
    ];
    let page = text(console.change(&format!("{PATH}/review"), &editor, &form).await, StatusCode::OK).await;
    for shown in
        ["<del>version 2</del>", "<ins>version 3</ins>", "Publish version 3", "<span>Hi {{ name }}</span>"]
    {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert!(!page.contains("<ins>Hi"), "{page}");
    let answer = console.change(&format!("{PATH}/publish"), &editor, &form).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(answer.headers()["location"], format!("{PATH}?done=published"));
    let expected = serde_json::json!({"inApp": {"title": "Hi", "data": {"a": 1}}, "sms": {"text": "Hi {{ name }}\nversion 3"}});
    assert_eq!(console.newest().await, expected);
    let unchanged = [&[("base", "3")], &form[1..]].concat();
    let page =
        text(console.change(&format!("{PATH}/review"), &editor, &unchanged).await, StatusCode::OK).await;
    assert!(page.contains("there is nothing to publish") && !page.contains("Publish version"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_form_overwrites_nothing_and_keeps_its_text() {
    let (console, editor) = shop().await;
    let publish = format!("{PATH}/publish");
    let first = console.change(&publish, &editor, &[("base", "2"), ("sms.text", "of another editor")]).await;
    assert_eq!(first.status(), StatusCode::SEE_OTHER);
    let stale = console.change(&publish, &editor, &[("base", "2"), ("sms.text", "my text")]).await;
    let page = text(stale, StatusCode::CONFLICT).await;
    for shown in [
        "Version 3 was published since",
        "<del>of another editor</del>",
        "<ins>my text</ins>",
        "name=\"base\" value=\"3\"",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert_eq!(console.versions().await, 3);
    let restore = format!("{PATH}/versions/1/restore");
    assert_eq!(console.change(&restore, &editor, &[("base", "2")]).await.status(), StatusCode::CONFLICT);
    assert_eq!(console.versions().await, 3);

    let page = console.page(&restore, &editor).await;
    assert!(page.contains("becomes version 4") && page.contains("<ins>version 1</ins>"), "{page}");
    let answer = console.change(&restore, &editor, &[("base", "3")]).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(console.newest().await["sms"]["text"], "Hi {{ name }}\nversion 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_template_begins_with_an_example_and_exists_once() {
    let (console, editor) = shop().await;
    let page = console.page("/apps/shop/new-template", &editor).await;
    assert_eq!(page.matches("type=\"radio\"").count(), 4, "{page}");
    let answer =
        console.get("/apps/shop/new-template?identifier=a%2Fb%3Fc%23d&from=sign-in-code", &editor).await;
    let path = answer.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(path, "/apps/shop/templates/a%2Fb%3Fc%23d/edit?from=sign-in-code");
    let page = console.page(&path, &editor).await;
    assert!(
        page.contains("New template a/b?c#d") && page.contains("481 920 is your code for shop"),
        "{page}"
    );
    for (identifier, problem) in [("welcome", "There is a template welcome already"), ("..", "of dots only")]
    {
        let answer = console.get(&format!("/apps/shop/new-template?identifier={identifier}"), &editor).await;
        assert!(text(answer, StatusCode::BAD_REQUEST).await.contains(problem), "{identifier}");
    }
    let publish = path.replace("edit?from=sign-in-code", "publish");
    let form = [("base", "0"), ("sms.text", "Hi")];
    assert_eq!(console.change(&publish, &editor, &form).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(console.change(&publish, &editor, &form).await.status(), StatusCode::CONFLICT);
    assert_eq!(console.versions().await, 3);
    assert!(console.page("/apps/shop/templates?q=B%3FC", &editor).await.contains("a/b?c#d</a>"));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_texts_are_read_for_operators_only() {
    let (console, editor) = shop().await;
    let long = "<p>ö</p>\n".repeat(20_000);
    let form = [("base", "2"), ("email.subject", "Hi"), ("email.html", &long)];
    let frame = console.change(&format!("{PATH}/frame"), &editor, &form).await;
    assert!(text(frame, StatusCode::OK).await == long.trim_end());
    let stranger = console.change(&format!("{PATH}/frame"), "unknown", &form).await;
    assert_eq!(stranger.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let elsewhere = console.change("/apps/shop/people/ada/erase", &editor, &[("typed", &long)]).await;
    assert_eq!(elsewhere.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

const MJML: &str = "<mjml>\n<mj-body>\n<mj-section><mj-column>\n<mj-text>Hi {{ name | default(\"you\") }}</mj-text>\n\
    <mj-image src=\"http://a.example/b.png\" />\n</mj-column></mj-section>\n</mj-body>\n</mjml>";

#[tokio::test(flavor = "multi_thread")]
async fn an_email_in_mjml_is_previewed_and_published_with_its_html() {
    let (console, editor) = shop().await;
    let form = [
        ("base", "2"),
        ("name", "Welcome"),
        ("email.subject", "Hi"),
        ("email.markup", "mjml"),
        ("email.html", MJML),
        ("sample", "{\"name\": \"<b>\"}"),
    ];
    let page = text(console.change(&format!("{PATH}/edit"), &editor, &form).await, StatusCode::OK).await;
    for shown in [
        "value=\"mjml\" checked",
        "<a href=\"#email.html\" data-line=\"5\">channels.email.mjml line 5: the image has no alt text",
        "The HTML has 4 KB",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    let html = text(console.change(&format!("{PATH}/frame"), &editor, &form).await, StatusCode::OK).await;
    assert!(html.starts_with("<!doctype html>") && html.contains(">Hi &lt;b&gt;</div>"), "{html}");

    let review = text(console.change(&format!("{PATH}/review"), &editor, &form).await, StatusCode::OK).await;
    for shown in
        ["<ins>[email.mjml]</ins>", "<ins>&#60;mj-body&#62;</ins>", "name=\"email.markup\" value=\"mjml\""]
    {
        assert!(review.contains(shown), "{shown} is missing in {review}");
    }
    assert!(!review.contains("doctype html&#62;"), "the difference has no compiled HTML: {review}");
    let answer = console.change(&format!("{PATH}/publish"), &editor, &form).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    let stored = console.newest().await;
    assert!(stored["email"]["mjml"].is_null());
    assert!(stored["email"]["html"].as_str().unwrap().contains("{{ name | default(\"you\") }}"), "{stored}");

    let shown = console.page(PATH, &editor).await;
    assert!(shown.contains("&#60;mj-body&#62;") && !shown.contains("doctype html&#62;"), "{shown}");
    let opened = console.page(&format!("{PATH}/edit"), &editor).await;
    assert!(opened.contains("value=\"mjml\" checked") && opened.contains("&#60;mj-body&#62;"), "{opened}");
    let restored = console.change(&format!("{PATH}/versions/3/restore"), &editor, &[("base", "3")]).await;
    assert_eq!(restored.status(), StatusCode::SEE_OTHER);
    let same = console.installation.count(
        "SELECT count(*) FROM template_version one JOIN template_version two USING (app_id, template_id, mjml)
         WHERE (one.version, two.version) = (3, 4) AND one.channels::text = two.channels::text",
    );
    assert_eq!(same.await, 1);

    let wrong = [
        ("base", "4"),
        ("email.subject", "Hi"),
        ("email.markup", "mjml"),
        ("email.html", "<mjml>\r\n<mj-bod>"),
    ];
    let page = text(console.change(&format!("{PATH}/edit"), &editor, &wrong).await, StatusCode::OK).await;
    let problem = "data-line=\"2\">channels.email.mjml has an error in line 2: mj-bod is no element of MJML";
    assert!(page.contains(problem), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_form_contains_its_text() {
    let (console, editor) = shop().await;
    let viewer = console.operator(Role::Viewer, None).await;
    let form = [("base", "2"), ("sms.text", "<b>my text</b>")];
    let kept = [
        "name=\"sms.text\" value=\"&#60;b&#62;my text&#60;/b&#62;\"",
        "action=\"/apps/shop/templates/welcome/edit\"",
        "&#60;b&#62;my text&#60;/b&#62;</textarea>",
        "Back to the text",
    ];
    for step in ["edit", "review", "publish", "test"] {
        let path = format!("{PATH}/{step}");
        for (session, status) in
            [("ended", StatusCode::UNAUTHORIZED), (viewer.as_str(), StatusCode::FORBIDDEN)]
        {
            let page = text(console.change(&path, session, &form).await, status).await;
            for shown in kept {
                assert!(page.contains(shown), "{step}: {shown} is missing in {page}");
            }
            assert_eq!(
                page.contains("href=\"/sign-in\" target=\"_blank\""),
                status == StatusCode::UNAUTHORIZED
            );
        }
    }
    let incomplete = [("base", "x"), ("sms.text", "my text")];
    let page =
        text(console.change(&format!("{PATH}/publish"), &editor, &incomplete).await, StatusCode::BAD_REQUEST)
            .await;
    assert!(page.contains("value=\"my text\""), "{page}");

    let call = console.call(Method::POST, &format!("{PATH}/edit")).header("x-part", "preview");
    let part =
        call.header("cookie", "tidings-console=ended").body("base=2&sms.text=mine").send().await.unwrap();
    assert!(!text(part, StatusCode::UNAUTHORIZED).await.contains("mine"));
    let path = format!("{}{PATH}/edit", console.base);
    let foreign = reqwest::Client::new().post(path).header("sec-fetch-site", "cross-site");
    let foreign = foreign.body("base=2&sms.text=foreign").send().await.unwrap();
    assert!(!text(foreign, StatusCode::FORBIDDEN).await.contains("value=\"foreign\""));
    let other = console.change("/apps/shop/people/ada/erase", "ended", &[("typed", "ada")]).await;
    assert_eq!(other.status(), StatusCode::SEE_OTHER);
    assert_eq!(console.versions().await, 2);
}
