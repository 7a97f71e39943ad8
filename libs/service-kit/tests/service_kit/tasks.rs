use std::time::Duration;

use service_kit::{ShutdownError, Tasks};

/// Only the test of the hung task reaches this limit, on a paused clock.
const LIMIT: Duration = Duration::from_secs(60);

async fn finish(tasks: &Tasks) -> Result<(), ShutdownError> {
    tokio::time::timeout(LIMIT, tasks.finish()).await.expect("the tasks end")
}

#[tokio::test]
async fn a_stop_ends_every_task() {
    let tasks = Tasks::new();
    let waiting = tasks.clone();
    tasks.spawn("waiting", async move {
        waiting.stopping().await;
        Ok(())
    });
    tasks.spawn("brief", async { Ok(()) });
    tasks.stop();
    assert_eq!(finish(&tasks).await, Ok(()));
}

#[tokio::test]
async fn an_error_stops_all_other_tasks() {
    let tasks = Tasks::new();
    let waiting = tasks.clone();
    tasks.spawn("waiting", async move {
        waiting.stopping().await;
        Ok(())
    });
    tasks.spawn("failing", async { anyhow::bail!("broken") });
    assert_eq!(finish(&tasks).await, Err(ShutdownError::Failed("failing")));
}

#[tokio::test]
async fn a_panic_stops_all_other_tasks() {
    let tasks = Tasks::new();
    tasks.spawn("panicking", async { panic!("on purpose") });
    assert_eq!(finish(&tasks).await, Err(ShutdownError::Failed("panicking")));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_stop_is_named() {
    let tasks = Tasks::new();
    tasks.spawn("deaf", std::future::pending());
    tasks.spawn("brief", async { Ok(()) });
    tasks.stop();
    assert_eq!(finish(&tasks).await, Err(ShutdownError::Hung(vec!["deaf"])));
}
