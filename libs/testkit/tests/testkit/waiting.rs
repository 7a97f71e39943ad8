use std::time::Duration;

use testkit::eventually;

#[tokio::test]
async fn a_probe_is_called_until_it_returns_a_value() {
    let mut left = 3;
    let asked = eventually(Duration::from_secs(5), "the third call of the probe", async || {
        left -= 1;
        (left == 0).then_some("done")
    });
    assert_eq!(asked.await, "done");
}

#[tokio::test]
#[should_panic(expected = "not within 20ms: the impossible")]
async fn a_failed_wait_names_its_purpose_after_the_limit() {
    eventually(Duration::from_millis(20), "the impossible", async || None::<()>).await;
}

#[tokio::test]
#[should_panic(expected = "not within 20ms: an answer")]
async fn a_probe_that_hangs_does_not_outlast_the_limit() {
    eventually(Duration::from_millis(20), "an answer", async || std::future::pending::<Option<()>>().await)
        .await;
}
