use domain::Role;
use reqwest::StatusCode;

use crate::fixture::{TestConsole, encoded};

const NAME: &str = "a/b?c#d<script>alert(1)</script>";
const PERSON: &str = "\"><script>alert(2)</script>/..%2F";
const TITLE: &str = "<img src=x onerror=alert(3)>";
const ANSWER: &str = "550 <b onmouseover=alert(4)>no such user</b> {{ 7*7 }}";
const SEND: &str = "0197b5a2-0000-7000-8000-000000000001";
const OPERATOR: &str = "<script>alert(5)</script>/?#@x";
const DELIVERY: &str = "0197b5a2-0000-7000-8000-000000000002";

async fn hostile(base_path: &str) -> (TestConsole, String) {
    let console = TestConsole::start(|config| config.console.base_path = base_path.to_owned()).await;
    let app = console.installation.app(NAME).await;
    let fill = [
        "INSERT INTO app_user (app_id, identifier, profile) VALUES ($1, $2, '{\"email\": \"victim@example.com\", \"<i>\": 1}')",
        "INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients)
         SELECT $1, send_id_at(now()), now(), 'bulk', $3, 1 WHERE $2 <> '' AND $4 <> ''",
        "INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
         SELECT $1, send_id, 0, 0, $2, (SELECT number FROM app_user WHERE app_id = $1), true, '{}' FROM request
         WHERE app_id = $1 AND $3 <> '' AND $4 <> ''",
        "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, provider, settled_at)
         SELECT $1, '0197b5a2-0000-7000-8000-000000000002', send_id, 0, (SELECT number FROM app_user WHERE app_id = $1),
           'email', 'victim@example.com', 'parked', $4, now() FROM request WHERE app_id = $1 AND $2 <> '' AND $3 <> ''",
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code, provider_message)
         SELECT $1, id, 1, now(), now(), $3, 'failed', '550', $4 FROM delivery WHERE app_id = $1 AND $2 <> ''",
        "INSERT INTO redrive_run (app_id, id, cause, provider, parked_before, selected, expected, per_second, state, pause, pause_detail, created_by)
         OVERRIDING SYSTEM VALUE SELECT $1, 7, $4, $3, now(), 1, 1, 50, 'paused', 'breaker_open', $3, $2",
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT $1, 'email', 'victim@example.com', '0197b5a2-0000-7000-8000-000000000002', $4 WHERE $2 <> '' AND $3 <> ''",
        "INSERT INTO template (app_id, identifier, version) SELECT $1, $2, 2",
        "INSERT INTO template_version (app_id, template_id, version, name, category, channels)
         SELECT $1, t.id, n, $3, $4, jsonb_build_object('email', jsonb_build_object('subject', $3::text, 'html', $2::text || n || $4::text))
         FROM template t, generate_series(1, 2) AS n WHERE t.app_id = $1",
        "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
         SELECT $1, $2, 'email', 'pigeon', place, true, jsonb_build_object('host', $3::text, '<i>', $4::text)
         FROM generate_series(1, 1) AS place",
        "INSERT INTO audit (app_id, actor, action, subject, after)
         SELECT $1, $4, 'provider.disable', $2, jsonb_build_object('reason', $3::text)",
        "INSERT INTO category (app_id, id, identifier, name) OVERRIDING SYSTEM VALUE VALUES ($1, 7, $2, $3 || left($4, 0))",
        "INSERT INTO topic (app_id, id, identifier, name) OVERRIDING SYSTEM VALUE VALUES ($1, 7, $2, $3 || left($4, 0))",
        "INSERT INTO signing_key (app_id, kid, algorithm, public_key) VALUES ($1, $2, 'RS256', 'pem')",
        "INSERT INTO webhook_endpoint (app_id, id, url, events, disabled_at, disabled_reason) OVERRIDING SYSTEM VALUE
         VALUES ($1, 7, 'https://x/' || $2::text, ARRAY['delivery.sent'], now(), $3 || left($4, 0))",
        "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, status, last_answer, settled_at)
         SELECT $1, 7, gen_random_uuid(), gen_random_uuid(), 'delivery.sent', '', 'failed', $4, now() WHERE $2 <> '' AND $3 <> ''",
        "UPDATE app SET brand_name = $3, brand_address = $4 WHERE id = $1 AND $2 <> ''",
        "INSERT INTO parked (id, app_id, send_id, delivery_id, stream, message, cause)
         SELECT gen_random_uuid(), $1, send_id, id, 'JOB_email_bulk', '', $4 FROM delivery WHERE app_id = $1 AND $2 <> '' AND $3 <> ''",
    ];
    for statement in fill {
        // Parameters that a statement does not use have no type, so each statement gets those that it names.
        let mut query = sqlx::query(statement).bind(app.0).bind(PERSON);
        if statement.contains("$3") || statement.contains("$4") {
            query = query.bind(TITLE).bind(ANSWER);
        }
        query.execute(&console.installation.pool).await.unwrap();
    }
    let beside = [
        "INSERT INTO operator (email) VALUES ($1)",
        "INSERT INTO operator_grant (operator_id, role) SELECT id, 'viewer' FROM operator WHERE email = $1",
        "INSERT INTO operator_identity (issuer, subject, operator_id) SELECT email, 'x', id FROM operator WHERE email = $1",
        "INSERT INTO admin_token (id, digest, name, role, created_by, expires_at) OVERRIDING SYSTEM VALUE
         VALUES (7, '', $1, 'viewer', 'cli:' || $1, now() + interval '1 day')",
        "INSERT INTO audit (actor, action, subject, after) VALUES ('cli:' || $1, 'app.set', $1, jsonb_build_object($1, $1))",
    ];
    for statement in beside {
        sqlx::query(statement).bind(OPERATOR).execute(&console.installation.pool).await.unwrap();
    }
    let admin = console.operator(Role::Admin, None).await;
    (console, admin)
}

/// Pages about how the app is set up.
const OF_SETTINGS: [&str; 19] = [
    "/settings",
    "/credentials",
    "/credentials/secret",
    "/credentials/link-key",
    "/credentials/signing-key",
    "/webhooks",
    "/webhooks/new",
    "/webhook/7",
    "/webhook/7/edit",
    "/webhook/7/secret",
    "/webhook/7/remove",
    "/categories",
    "/categories/new",
    "/category/7",
    "/category/7/delete",
    "/topics",
    "/topics/new",
    "/topic/7",
    "/topic/7/delete",
];

fn pages(send: &str) -> Vec<String> {
    let app = format!("/apps/{}", encoded(NAME));
    let person = encoded(PERSON);
    let below = [
        "".to_owned(),
        "/sends".to_owned(),
        format!("/sends/{send}"),
        format!("/sends/{send}/explain?recipient=0"),
        format!("/sends/{send}/explain?person={person}"),
        "/waiting".to_owned(),
        "/people".to_owned(),
        format!("/people/{person}"),
        format!("/people?q={person}"),
        "/parked".to_owned(),
        "/parked/redrive".to_owned(),
        format!("/parked/redrive?cause={}", encoded(ANSWER)),
        "/parked/runs/7".to_owned(),
        format!("/sends/{send}/cancel"),
        format!("/people/{person}/erase"),
        format!("/suppressions/lift?channel=email&delivery={DELIVERY}"),
        "/setup".to_owned(),
        "/providers".to_owned(),
        "/providers/new".to_owned(),
        "/providers/new?channel=email&kind=pigeon".to_owned(),
        format!("/provider/{person}"),
        format!("/provider/{person}/edit"),
        format!("/provider/{person}/switch"),
        format!("/provider/{person}/remove"),
        "/refused".to_owned(),
        format!("/people/{person}/reveal?place=0"),
        "/audit".to_owned(),
        "/templates".to_owned(),
        "/new-template?from=%3Cscript%3Ealert(5)%3C%2Fscript%3E".to_owned(),
        format!("/templates/{person}"),
        format!("/templates/{person}/edit"),
        format!("/templates/{person}/versions/1"),
        format!("/templates/{person}/versions/1/restore"),
        format!("/sends?q={}", encoded("<u>:x \"'><script>")),
    ];
    let key = format!("/credentials/signing-key/{person}");
    let below = below.into_iter().chain(OF_SETTINGS.map(str::to_owned)).chain([key]);
    let pages = below.map(|below| format!("{app}{below}"));
    let beside = [
        "/apps",
        "/setup",
        "/operators",
        "/operators/new",
        "/tokens",
        "/tokens/new",
        "/tokens/7/revoke",
        "/account",
        "/audit",
    ]
    .map(str::to_owned);
    let operator = format!("/operators/{}", encoded(OPERATOR));
    let steps =
        ["", "/grant", "/grant?scope=all", "/revoke?scope=all", "/disable", "/enable", "/link", "/unlink"];
    pages.chain(beside).chain(steps.map(|step| format!("{operator}{step}"))).collect()
}

async fn send(console: &TestConsole) -> String {
    let id = sqlx::query_scalar("SELECT send_id::text FROM request");
    id.fetch_one(&console.installation.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_answers_stay_text_on_every_page() {
    let (console, admin) = hostile("").await;
    let mut shown = 0;
    for path in pages(&send(&console).await) {
        let page = console.page(&path, &admin).await;
        let lower = page.to_lowercase();
        for raw in ["<script>alert", "<img src=x", "<b onmouseover", "<i>", "<u>", " style=", " onclick="] {
            assert!(!lower.contains(raw), "{path} contains {raw}");
        }
        let own =
            ["console", "editor"].map(|name| lower.matches(&format!("<script src=\"/{name}.js?")).count());
        assert_eq!(
            lower.matches("<script").count(),
            own[0] + own[1],
            "{path} has scripts of the console only"
        );
        assert!(own[0] == 1 && own[1] <= 1, "{path}: {own:?}");
        assert!(!page.contains("victim@example.com"), "{path} shows a target");
        shown += ["&#60;script&#62;", "&#60;img src=x", "&#60;b onmouseover"]
            .iter()
            .filter(|text| page.contains(**text))
            .count();
    }
    assert!(shown >= 12, "the hostile texts are shown as text {shown} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_of_a_page_stays_below_the_base_path_and_leads_to_a_page() {
    let (console, admin) = hostile("/ops/console").await;
    let mut followed = std::collections::BTreeSet::new();
    for path in pages(&send(&console).await) {
        let page = console.page(&path, &admin).await;
        for part in [" href=\"", " action=\"", " src=\""].iter().flat_map(|name| page.split(name).skip(1)) {
            let link = part.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
            let link = link.split('#').next().unwrap();
            if link.is_empty() {
                continue;
            }
            let below = link.strip_prefix("/ops/console").unwrap_or_else(|| panic!("{path} links to {link}"));
            if followed.insert(below.to_owned()) && below != "/sign-out" {
                let status = console.get(below, &admin).await.status();
                assert!(
                    [StatusCode::OK, StatusCode::SEE_OTHER].contains(&status),
                    "{path} links to {link}: {status}"
                );
            }
        }
    }
    println!("{} links were followed", followed.len());
    assert!(followed.len() >= 15, "{followed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_search_field_finds_people_sends_and_deliveries() {
    let (console, admin) = hostile("").await;
    let app = format!("/apps/{}", encoded(NAME));
    let send = send(&console).await;
    for (text, found) in [
        (PERSON, "/people/"),
        (&send, "/sends/"),
        (DELIVERY, "/sends/"),
        (SEND, "/people?q="),
        ("nobody", "/people?q="),
    ] {
        let answer = console.get(&format!("{app}/find?q={}", encoded(text)), &admin).await;
        let location = answer.headers()["location"].to_str().unwrap();
        assert!(location.contains(found), "{text} leads to {location}");
    }
}
