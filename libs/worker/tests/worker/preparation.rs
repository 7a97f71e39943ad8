//! Preparations of calls that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, Outcome, Status, UserNumber};
use worker::ChannelSender;

use crate::world::World;

const PANICS: UserNumber = UserNumber(1);
const REFUSED: UserNumber = UserNumber(2);
const HANGS: UserNumber = UserNumber(3);
const PREPARED: UserNumber = UserNumber(4);

/// A channel whose preparation depends on the user. It counts its calls.
#[derive(Clone, Default)]
struct UnpreparedChannel {
    calls: Arc<AtomicUsize>,
}

impl ChannelSender for UnpreparedChannel {
    const CHANNEL: Channel = Channel::Email;

    type Prepared = UserNumber;

    async fn prepare(&self, _app: AppId, job: &DeliveryJob) -> Result<UserNumber, Answer> {
        match job.user {
            PANICS => panic!("on purpose"),
            REFUSED => Err(Answer::new(Outcome::Failed, "unsubscribed", "")),
            HANGS => std::future::pending().await,
            user => Ok(user),
        }
    }

    async fn probe(&self, _probe: &worker::Probe<'_>) -> Result<String, Answer> {
        Ok("nothing is tested".to_owned())
    }

    async fn send(&self, _call: &worker::Call<'_>, prepared: UserNumber) -> Answer {
        assert_eq!(prepared, PREPARED);
        self.calls.fetch_add(1, Ordering::Relaxed);
        Answer::new(Outcome::Sent { provider_id: None }, "ok", "")
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_prepared_is_not_made_and_its_attempt_ends() {
    let world = World::start().await;
    let channel = UnpreparedChannel::default();
    let served = channel.clone();
    world.context.serve("worker", move |context| worker::run(context, served));
    let ends = [Status::Retrying, Status::Failed, Status::Retrying, Status::Sent];
    let mut orders = Vec::new();
    for number in 1..=4 {
        orders.push(world.delivery(number).await);
    }
    world.order_together(&orders).await;
    world.acknowledged(1).await;
    for (order, end) in orders.iter().zip(ends) {
        world.reaches(order.delivery_id, end).await;
    }
    assert_eq!(channel.calls.load(Ordering::Relaxed), 1);
    for (code, outcome) in
        [("panic", "retry"), ("unsubscribed", "failed"), ("not_prepared", "retry"), ("ok", "sent")]
    {
        let attempts: i64 =
            sqlx::query_scalar("SELECT count(*) FROM attempt WHERE provider_code = $1 AND outcome = $2")
                .bind(code)
                .bind(outcome)
                .fetch_one(&world.pool)
                .await
                .unwrap();
        assert_eq!(attempts, 1, "{code}");
    }
}
