//! The dispatcher publishes the outcomes of deliveries that end without a job, because no worker sees these deliveries.

use domain::event::{ChunkPlanned, DeliverySettled};
use domain::send::SendRequest;
use domain::{Actor, Channel, Event, Lane, Reason, Status, StreamName};
use serde_json::json;
use store::sends::plan::RenderFailure;

use crate::world::{World, person, send_to};

impl World {
    /// Creates a send to Bob by email. Its rendered subject is empty, so the email cannot be sent.
    async fn unwritable(&self) -> SendRequest {
        self.provider(Channel::Email).await;
        let template = self.template(json!({"email": {"subject": "{{ recipient.name }}"}})).await;
        SendRequest { template: Some(template), ..send_to(vec![person("bob@example.com")]) }
    }

    /// Returns all `DeliverySettled` events in the log. Checks that each has the id that every process derives for it.
    async fn settled_events(&self) -> Vec<DeliverySettled> {
        let mut reported = Vec::new();
        for envelope in self.events_in(StreamName::Outcome).await {
            if let Event::DeliverySettled(settled) = envelope.event {
                assert_eq!(envelope.id, settled.ids("settled").1);
                reported.push(settled);
            }
        }
        reported
    }

    async fn only_plan_event(&self) -> ChunkPlanned {
        let mut planned = self.events_in(StreamName::Outcome).await.into_iter().filter_map(|envelope| {
            if let Event::ChunkPlanned(planned) = envelope.event { Some(planned) } else { None }
        });
        let only = planned.next().expect("a SendPlanned event");
        assert_eq!(planned.next(), None);
        only
    }
}

/// Returns status, reason, attempt and provider of the only delivery.
fn ending(reported: &[DeliverySettled]) -> (Status, Option<Reason>, u32, Option<&str>) {
    let [DeliverySettled { status, reason, attempt, provider, channel: Channel::Email, .. }] = reported
    else {
        panic!("{reported:?}")
    };
    (*status, *reason, *attempt, provider.as_deref())
}

const FAILED: (Status, Option<Reason>, u32, Option<&str>) =
    (Status::Failed, Some(Reason::TemplateError), 1, None);

#[tokio::test]
async fn a_render_failure_is_published() {
    let world = World::start().await;
    let send = world.unwritable().await;
    world.accept(&send).await;
    world.dispatched(Lane::Transactional, 1).await;
    assert_eq!(ending(&world.settled_events().await), FAILED);
    assert!(world.jobs(Channel::Email).await.is_empty());
}

#[tokio::test]
async fn a_recorded_but_unpublished_render_failure_is_published_when_the_chunk_is_redelivered() {
    let world = World::with(|_| {}).await;
    let send = world.unwritable().await;
    let send_id = world.accept(&send).await;
    world.freeze(send_id, &send).await;
    let failure = RenderFailure { app: world.app, send_id, recipient_index: 0, channel: Channel::Email };
    assert_eq!(world.context.store.sends().record_render_failures(&[failure]).await.unwrap().len(), 1);

    world.serve();
    world.dispatched(Lane::Transactional, 1).await;
    assert_eq!(ending(&world.settled_events().await), FAILED);
    let decided = world.only_plan_event().await.decided.unwrap();
    assert!(decided.shapes[0].skips.contains(&(Channel::Email, Reason::TemplateError)), "{decided:?}");
}

#[tokio::test]
async fn a_cancelled_delivery_that_cannot_be_rendered_is_published_as_cancelled() {
    let world = World::with(|_| {}).await;
    let send = world.unwritable().await;
    let send_id = world.accept(&send).await;
    world.freeze(send_id, &send).await;
    assert_eq!(
        world.context.store.deliveries().cancel_request(world.app, send_id, &Actor::System).await.unwrap(),
        1
    );

    world.serve();
    world.dispatched(Lane::Transactional, 1).await;
    let cancelled = (Status::Cancelled, Some(Reason::RequestCancelled), 1, None);
    assert_eq!(ending(&world.settled_events().await), cancelled);
    assert!(world.jobs(Channel::Email).await.is_empty());
}

#[tokio::test]
async fn a_failed_delivery_stays_failed_even_if_it_can_be_rendered_later() {
    let world = World::with(|_| {}).await;
    world.provider(Channel::Email).await;
    let send = send_to(vec![person("ada@example.com")]);
    let send_id = world.accept(&send).await;
    world.freeze(send_id, &send).await;
    let failure = RenderFailure { app: world.app, send_id, recipient_index: 0, channel: Channel::Email };
    world.context.store.sends().record_render_failures(&[failure]).await.unwrap();

    world.serve();
    world.dispatched(Lane::Transactional, 1).await;
    // The worker that gets the job finds that the delivery has ended, and publishes the outcome.
    assert_eq!(world.jobs(Channel::Email).await.len(), 1);
    let failed = "SELECT count(*) FROM delivery WHERE status = 'failed' AND reason = 'template_error'";
    assert_eq!(world.count(failed).await, 1);
}
