use std::time::Duration;

use service_kit::{Context, metrics, server};

use crate::connect::Installation;

async fn get(origin: &str, path: &str) -> (u16, String) {
    let response = reqwest::get(format!("{origin}{path}")).await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn metrics_and_health_are_served_until_the_stop() {
    let installation = Installation::start().await;
    let context = Context::connect(installation.config.clone()).await.unwrap();
    let origin = format!("http://{}", server::start(&context).await.unwrap());

    assert_eq!(get(&origin, "/healthz").await, (200, r#"{"status":"ok"}"#.into()));
    assert_eq!(get(&origin, "/readyz").await, (200, r#"{"ready":true,"notReady":[]}"#.into()));
    assert_eq!(get(&origin, "/other").await.0, 404);
    let client = reqwest::Client::new();
    let posted = client.post(format!("{origin}/metrics")).send().await.unwrap();
    assert_eq!(posted.status().as_u16(), 405);

    ::metrics::counter!(metrics::ACCEPTED, "lane" => "bulk").increment(3);
    ::metrics::histogram!(metrics::PROVIDER_CALL_SECONDS, "channel" => "email").record(0.02);
    let (status, text) = get(&origin, "/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "# TYPE tidings_accepted_total counter",
        "tidings_accepted_total{lane=\"bulk\"} 3",
        "tidings_provider_call_seconds_bucket{channel=\"email\",le=\"0.01\"} 0",
        "tidings_provider_call_seconds_bucket{channel=\"email\",le=\"0.025\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }

    context.tasks.stop();
    context.tasks.finish().await.unwrap();
    assert!(reqwest::get(format!("{origin}/healthz")).await.is_err());
}

#[tokio::test]
async fn readiness_names_an_unavailable_server_and_recovers() {
    let mut installation = Installation::start().await;
    let context = Context::connect(installation.config.clone()).await.unwrap();
    let origin = format!("http://{}", server::start(&context).await.unwrap());
    assert_eq!(get(&origin, "/readyz").await.0, 200);

    let limit = Duration::from_secs(30);
    installation.servers.nats.kill();
    let away = async || {
        let (status, text) = get(&origin, "/readyz").await;
        (status == 503).then_some(text)
    };
    let text = testkit::eventually(limit, "not ready", away).await;
    assert!(text.contains(r#""name":"log""#) && !text.contains("database"), "{text}");

    installation.servers.nats.restart().await.unwrap();
    let back = async || (get(&origin, "/readyz").await.0 == 200).then_some(());
    testkit::eventually(limit, "ready again", back).await;

    context.tasks.stop();
    let report = context.readiness.check().await;
    assert!(!report.ready && report.not_ready[0].name == "process", "{report:?}");
    context.tasks.finish().await.unwrap();
}

#[tokio::test]
async fn a_taken_address_is_an_error_that_names_it() {
    let installation = Installation::start().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = installation.config.clone();
    config.metrics.listen = taken.local_addr().unwrap();
    let context = Context::connect(config).await.unwrap();
    let error = server::start(&context).await.unwrap_err().to_string();
    assert!(error.contains(&taken.local_addr().unwrap().to_string()), "{error}");
}
