//! Rolling restart: every service is stopped in an orderly way and started again, one process after the other, under load.

use std::time::Duration;

use reqwest::Client;
use suite::retrying_client::RetryingClient;
use testkit::eventually;

use crate::audience::Audience;
use crate::completeness;
use crate::load::Load;
use crate::system::System;

const SOON: Duration = Duration::from_secs(240);
/// Number of sends between two restarts.
const SENDS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_fails_no_call_loses_nothing_and_sends_nothing_twice() {
    let mut system = System::start().await;
    let client = RetryingClient::new(&system.origins(), &system.app);
    let audience = Audience::create(&client, &system.providers).await;
    let mut load = Load::begin(&client);
    load.await_sends(SENDS).await;
    let client = system.client.clone();
    for number in 0..system.processes.len() {
        system.processes[number].restart_orderly(&client).await;
        load.await_sends(SENDS).await;
    }
    let journal = load.end().await;
    system.assert_running();
    completeness::check(&system, &audience, &journal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_gateway_reports_it_while_it_still_serves() {
    // All calls after the SIGTERM must be made within this time.
    let mut system = System::start_with(None, &[("TIDINGS_GATEWAY__DRAIN", "4s")]).await;
    let origin = system.origins().remove(0);
    // This client opens a new connection for each request, like a new client.
    let stranger = Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let customer = Client::new();
    let ask = |client: &Client, path: &str| client.get(format!("{origin}{path}")).send();
    let before = ask(&customer, "/healthz").await.unwrap();
    assert!(before.headers().get("connection").is_none(), "the gateway closes the connection: {before:?}");
    let gateway = &mut system.processes[0];
    gateway.service.terminate().unwrap();
    let reported = eventually(SOON, "the gateway reports that it is stopping", async || {
        let answer = ask(&stranger, "/readyz").await.expect("the gateway accepts connections");
        (answer.status() == 503).then_some(answer)
    })
    .await;
    assert_eq!(reported.headers()["connection"], "close");
    assert!(reported.text().await.unwrap().contains("stopping"));
    for client in [&stranger, &customer] {
        let answer = ask(client, "/healthz").await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["connection"].to_str().unwrap()),
            (200, &"close")
        );
    }
    assert!(gateway.stopped().await.success());
    assert!(ask(&stranger, "/healthz").await.unwrap_err().is_connect());
}
