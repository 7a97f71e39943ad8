//! Comparison of the statements with the table of legal transitions: each step is tried on a delivery in each status.

use std::time::Duration;

use domain::content::{Content, EmailContent};
use domain::event::DeliveryJob;
use domain::receipt::{Receipt, ReceiptSubject};
use domain::retry::RetryPolicy;
use domain::transition::{Step, TRANSITIONS};
use domain::{
    Actor, Answer, AppId, Channel, DeliveryId, Envelope, Event, Lane, Outcome, Status, StreamName, UserNumber,
};
use store::deliveries::ledger::{ClaimRequest, HeldClaim};
use store::deliveries::redrive::ParkedFilter;
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::sends::plan::RenderFailure;
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, send_id};

const SYSTEM: Actor = Actor::System;
const STREAM: StreamName = StreamName::Job(Channel::Email, Lane::Transactional);
const TOKEN: Uuid = Uuid::from_u128(5);
const RECEIPT: Uuid = Uuid::from_u128(6);

fn job(app: AppId, delivery: DeliveryId) -> Vec<u8> {
    let content = Content::Email(EmailContent::default());
    let job =
        DeliveryJob::first(delivery, Channel::Email, UserNumber(1), "ada@example.com".to_owned(), content);
    let event = Event::DeliveryJob(Box::new(job));
    let (id, send_id) = (Uuid::from_u128(77), Some(send_id(1)));
    Envelope { id, app, at: NOW, send_id, caused_by: None, trace: None, event }.encode().unwrap()
}

impl Fixture {
    /// Sets the delivery to a status and prepares the other tables, so that each step that starts from this status can be
    /// tried: the lease has expired, and the attempt is not settled.
    async fn put_in_status(&self, app: AppId, delivery: DeliveryId, status: Status) {
        self.run("TRUNCATE attempt, awaiting_receipt, parked, request, timer, erased, early_receipt").await;
        sqlx::query(
            "UPDATE delivery SET status = $1, attempt = 1, token = $2, provider = 'main', reason = NULL, calling = $1 = 'unknown',
               lease_until = CASE WHEN $1 = 'sending' THEN now() END",
        )
        .bind(status.as_str())
        .bind(TOKEN)
        .execute(&self.pool)
        .await
        .unwrap();
        sqlx::query(
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients) VALUES ($1, $2, now(), 'bulk', 1)",
        )
        .bind(app.0)
        .bind(send_id(1).0)
        .execute(&self.pool)
        .await
        .unwrap();
        sqlx::query(
            "INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
             VALUES ($1, $2, $3, $1, 1, $4, $5, '450')",
        )
        .bind(delivery.0)
        .bind(app.0)
        .bind(send_id(1).0)
        .bind(STREAM.to_string())
        .bind(job(app, delivery))
        .execute(&self.pool)
        .await
        .unwrap();
    }

    async fn take_step(&self, step: Step, app: AppId, delivery: DeliveryId) {
        let store = &self.store;
        match step {
            Step::Claim | Step::Refuse => {
                if step == Step::Refuse {
                    self.run("UPDATE request SET cancelled_at = now()").await;
                }
                let request = ClaimRequest { app, delivery, attempt: 1, provider: None };
                store.deliveries().claim(&[request], Duration::from_secs(60)).await.unwrap();
            }
            Step::GiveBack => {
                let claim = HeldClaim { app, delivery, token: TOKEN, takes_over: false };
                store.deliveries().release(claim).await.unwrap();
            }
            Step::Settle | Step::Correct => {
                let settlement = Settlement {
                    app,
                    send_id: Some(send_id(1)),
                    delivery,
                    user: UserNumber(1),
                    token: TOKEN,
                    attempt: 1,
                    provider: None,
                    started_at: NOW,
                    ended_at: NOW,
                    answer: Answer::new(Outcome::Failed, "", ""),
                    next: RecordedStep::End(Status::Failed, None),
                    job: (STREAM, job(app, delivery).into()),
                    receipts: false,
                };
                store.deliveries().settle(&[settlement]).await.unwrap();
            }
            Step::Report => {
                let about = ReceiptSubject::Delivery(delivery, None);
                let answer = Answer::new(Outcome::Sent { provider_id: None }, "", "");
                let receipt = Receipt { id: RECEIPT, app, about, answer, at: NOW, random: 0.5 };
                let policy = RetryPolicy { schedule: Vec::new() };
                store.deliveries().record_receipts(&[receipt], &policy).await.unwrap();
            }
            Step::FailToRender => {
                let failure =
                    RenderFailure { app, send_id: send_id(1), recipient_index: 0, channel: Channel::Email };
                store.sends().record_render_failures(&[failure]).await.unwrap();
            }
            Step::Cancel => {
                store.deliveries().cancel_request(app, send_id(1), &SYSTEM).await.unwrap();
            }
            Step::Erase => {
                self.run(
                    "INSERT INTO erased (app_id, user_number, erased_at)
                     SELECT app_id, user_number, now() - interval '1 year' FROM delivery",
                )
                .await;
                self.pass().await;
            }
            Step::Redrive => {
                store.deliveries().redrive(&ParkedFilter::default(), None, 10, NOW, &SYSTEM).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn each_step_changes_exactly_the_statuses_that_the_table_names() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let delivery = fixture.deliveries(app, 1).await[0];
    let mut differences = Vec::new();
    for transition in &TRANSITIONS {
        for from in Status::STORED {
            fixture.put_in_status(app, delivery, from).await;
            fixture.take_step(transition.step, app, delivery).await;
            let to = fixture.store.deliveries().delivery_states(&[(app, delivery)]).await.unwrap()[0].status;
            // The same call performs the steps `Settle` and `Correct`.
            let steps = match transition.step {
                Step::Settle | Step::Correct => vec![Step::Settle, Step::Correct],
                step => vec![step],
            };
            let is_changed = steps.iter().any(|step| step.starts_from(from));
            let is_expected =
                if is_changed { steps.iter().any(|step| step.allows(from, to)) } else { to == from };
            if !is_expected {
                differences.push(format!("{:?} from {from} to {to}", transition.step));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
