//! Rate limits of requests.

use service_kit::Config;

use crate::client::Answer;
use crate::service::{App, Backing, Service, plain_send};

const LIST: &str = "GET /v3/notifications";

/// Returns the headers `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`.
fn rate_limit_headers(answer: &Answer) -> Option<[u32; 3]> {
    let number = |name| answer.header(name).map(|value| value.parse::<u32>().unwrap());
    Some([number("ratelimit-limit")?, number("ratelimit-remaining")?, number("ratelimit-reset")?])
}

/// Creates an app, and runs the SQL statement `limit`, which sets its rate limit.
async fn limited(service: &Service, name: &str, limit: &'static str) -> App {
    let app = service.app(name).await;
    service.run(limit).await;
    app
}

#[tokio::test]
async fn every_answer_after_the_check_of_credentials_has_rate_limit_headers() {
    let defaults = |config: &mut Config| config.gateway = Config::default().gateway;
    let service = Service::start_configured(defaults).await;
    let shop = service.app("shop").await;
    let wrong = App { secret: "wrong".to_owned(), ..shop.clone() };
    // Calls, their expected status, and the rate limit that they use up. A user may make 100 calls per second, a backend
    // 10,000. A call that is refused with 401 counts towards the limit of its IP address, which is 100.
    let counted = [
        (service.of(&shop, "ada", LIST), 200, 100),
        (service.of(&shop, "ada", "GET /v3/notifications/7"), 404, 100),
        (service.of(&shop, "ada", "GET /v3/notifications?limit=0"), 400, 100),
        (service.by(&shop, "POST /v3/notifications").json(&plain_send(&["ada"])), 202, 10_000),
        (service.by(&wrong, "GET /v3/categories"), 401, 100),
        (service.of(&shop, "ada", "POST /v3/notifications"), 401, 100),
        (service.call(LIST), 401, 100),
        (service.call(LIST).header("X-SERVICE-API-KEY", "unknown"), 401, 100),
        // Calls that reach no handler count towards the limit for all callers of an IP address, which is 1,000.
        (service.by(&shop, "GET /v3/nowhere"), 404, 1_000),
        (service.by(&shop, "PUT /v3/notifications"), 405, 1_000),
    ];
    for (call, status, expected) in counted {
        let answer = call.send().await;
        assert_eq!(answer.status, status, "{answer:?}");
        let [limit, remaining, reset] = rate_limit_headers(&answer).unwrap();
        assert_eq!((limit, reset), (expected, 1), "{answer:?}");
        assert!((expected * 9 / 10..expected).contains(&remaining), "{answer:?}");
    }
    let answer = service.call("GET /healthz").send().await;
    assert_eq!(rate_limit_headers(&answer), None, "{answer:?}");
}

#[tokio::test]
async fn an_app_beyond_its_limit_gets_a_429_and_others_do_not() {
    let service = Service::start_with(Backing::Nothing).await;
    let busy = limited(&service, "busy", "UPDATE app SET rate_limit = 4 WHERE name = 'busy'").await;
    let other = service.app("other").await;
    let refused = testkit::eventually(crate::service::SOON, "a request exceeds the limit", async || {
        let answer = service.of(&busy, "ada", LIST).send().await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    refused.fails(429, "rate_limited");
    assert_eq!(rate_limit_headers(&refused), Some([2, 0, 1]));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("access-control-allow-origin"), None);
    service.of(&other, "ada", LIST).send().await.is(200);

    let taken = testkit::eventually(crate::service::SOON, "a request is accepted again", async || {
        let answer = service.of(&busy, "ada", LIST).send().await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(rate_limit_headers(&taken).unwrap()[0], 2);
}

#[tokio::test]
async fn guessing_a_secret_is_limited_by_peer() {
    let service = Service::start_configured(|config| config.gateway.refusal_rate_limit = 1).await;
    let app = service.app("guarded").await;
    let mut statuses = Vec::new();
    for guess in 0..10 {
        let guessing = App { secret: format!("guess {guess}"), ..app.clone() };
        statuses.push(service.by(&guessing, "GET /v3/categories").send().await.status);
    }
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
}
