//! Comparison of the ledger's statements with a model of the ledger: the same steps, in any order, must have the same effect
//! on both.

use std::time::Duration;

use crate::ledger_model::{ClaimResult, Ledger, NextStep, Token};
use domain::content::{Content, SmsContent};
use domain::event::DeliveryJob;
use domain::receipt::{Receipt, ReceiptSubject};
use domain::retry::RetryPolicy;
use domain::{
    Actor, Answer, AppId, Channel, DeliveryId, Envelope, Event, Lane, Outcome, Reason, SendId, Status,
    StreamName, UserNumber,
};
use store::deliveries::ledger::{Claim, ClaimRequest, HeldClaim};
use store::deliveries::receipt::ReceiptResult;
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::deliveries::timer::NewTimer;
use uuid::Uuid;

use crate::{Fixture, NOW, RandomNumbers, fixture};

const STREAM: StreamName = StreamName::Job(Channel::Sms, Lane::Transactional);
const LEASE: Duration = Duration::from_secs(3_600);
const HISTORIES: u128 = 80;
const STEPS: usize = 24;

/// A delivery in the database and its counterpart in the model.
struct Twin<'a> {
    fixture: &'a Fixture,
    app: AppId,
    send_id: SendId,
    delivery: DeliveryId,
    /// True if only the statements that handle every case are used, and not the fast path before them.
    is_in_full: bool,
    model: Ledger,
    tokens: Vec<Uuid>,
    /// All steps so far, printed if the database and the model differ.
    history: Vec<String>,
}

impl<'a> Twin<'a> {
    async fn new(fixture: &'a Fixture, app: AppId, number: u128, is_in_full: bool) -> Twin<'a> {
        let send_id = SendId(Uuid::from_u128(number));
        let delivery = DeliveryId(Uuid::from_u128(number));
        for statement in [
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
             VALUES ($1, $2, now(), 'transactional', 1)",
            "INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, in_app, skips)
             VALUES ($1, $2, 0, 0, 'ada', false, '{}')",
            "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
             VALUES ($1, $2, $2, 0, 1, 'sms', '+491511234567')",
        ] {
            sqlx::query(statement).bind(app.0).bind(send_id.0).execute(&fixture.pool).await.unwrap();
        }
        let model = Ledger::default();
        Twin { fixture, app, send_id, delivery, is_in_full, model, tokens: Vec::new(), history: Vec::new() }
    }

    async fn step(&mut self, seeded: &mut RandomNumbers) {
        let attempt = u32::try_from(1 + seeded.below(3)).unwrap();
        match seeded.below(10) {
            0 | 1 => self.claim(attempt).await,
            8 => self.release(seeded).await,
            9 => self.renew(seeded).await,
            2 => self.mark(seeded).await,
            3 | 4 => self.settle(seeded, attempt).await,
            5 => {
                self.model.lease_ends();
                self.history.push("the lease ends".to_owned());
                let over = "UPDATE delivery SET lease_until = now() WHERE id = $1 AND lease_until > now()";
                sqlx::query(over).bind(self.delivery.0).execute(&self.fixture.pool).await.unwrap();
            }
            6 => self.receipt(seeded, attempt).await,
            _ if seeded.below(4) == 0 => {
                self.model.cancel();
                self.history.push("cancelled".to_owned());
                self.fixture
                    .store
                    .deliveries()
                    .cancel_request(self.app, self.send_id, &Actor::System)
                    .await
                    .unwrap();
            }
            _ => {}
        }
        self.compare().await;
    }

    async fn claim(&mut self, attempt: u32) {
        let expected = self.model.claim(attempt, Token::try_from(self.tokens.len()).unwrap());
        self.history.push(format!("claim {attempt}: {expected:?}"));
        let request = ClaimRequest { app: self.app, delivery: self.delivery, attempt, provider: None };
        let deliveries = self.fixture.store.deliveries();
        let claims = if self.is_in_full {
            deliveries.claim_in_full(&[request], LEASE).await
        } else {
            deliveries.claim(&[request], LEASE).await
        };
        let found = match claims.unwrap().remove(0) {
            Claim::Granted { token, .. } => {
                self.tokens.push(token);
                ClaimResult::Granted
            }
            Claim::NotDue(_) => ClaimResult::NotDue,
            Claim::Leased(_) => ClaimResult::Leased,
            Claim::Missing => ClaimResult::Missing,
        };
        assert_eq!(found, expected, "{:#?}", self.history);
    }

    /// Chooses an earlier claim. Chooses the latest claim more often than the others.
    fn token(&self, seeded: &mut RandomNumbers) -> Option<(Token, Uuid)> {
        let back = seeded.below(4).saturating_sub(1);
        let place = self.tokens.len().checked_sub(1 + usize::try_from(back).unwrap())?;
        Some((Token::try_from(place).unwrap(), self.tokens[place]))
    }

    async fn mark(&mut self, seeded: &mut RandomNumbers) {
        let Some((number, token)) = self.token(seeded) else { return };
        let expected = self.model.mark(number);
        self.history.push(format!("mark by {number}: {expected}"));
        let mark = HeldClaim { app: self.app, delivery: self.delivery, token, takes_over: false };
        let found = self.fixture.store.deliveries().mark_calling(&[mark]).await.unwrap();
        assert_eq!(found, [expected], "{:#?}", self.history);
    }

    async fn renew(&mut self, seeded: &mut RandomNumbers) {
        let Some((number, token)) = self.token(seeded) else { return };
        let expected = self.model.renew(number);
        self.history.push(format!("renewed by {number}: {expected}"));
        let claim = HeldClaim { app: self.app, delivery: self.delivery, token, takes_over: false };
        let found = self.fixture.store.deliveries().renew(&[claim], LEASE).await.unwrap();
        assert_eq!(found, [expected], "{:#?}", self.history);
    }

    async fn release(&mut self, seeded: &mut RandomNumbers) {
        let Some((number, token)) = self.token(seeded) else { return };
        let takes_over = seeded.below(2) == 0;
        let expected = self.model.release(number, takes_over);
        self.history.push(format!("given back by {number}, takes over {takes_over}: {expected}"));
        let claim = HeldClaim { app: self.app, delivery: self.delivery, token, takes_over };
        let found = self.fixture.store.deliveries().release(claim).await.unwrap();
        assert_eq!(found, expected, "{:#?}", self.history);
    }

    async fn settle(&mut self, seeded: &mut RandomNumbers, attempt: u32) {
        let Some((number, token)) = self.token(seeded) else { return };
        let unknown = NextStep::End(Status::Unknown, Some(Reason::OutcomeUnknown));
        let failed = NextStep::End(Status::Failed, Some(Reason::ProviderRefused));
        let all = [
            NextStep::End(Status::Sent, None),
            failed,
            unknown,
            NextStep::Retry,
            NextStep::Retry,
            NextStep::Park,
        ];
        let after = all[usize::try_from(seeded.below(6)).unwrap()];
        let is_written = self.model.settle(number, attempt, after);
        // If a cancellation stops a retry, the attempt is recorded but no further attempt follows.
        let is_stopped =
            matches!(after, NextStep::Retry | NextStep::Park) && self.model.status == Status::Cancelled;
        let expected = is_written && !is_stopped;
        self.history.push(format!("settle {attempt} by {number} as {after:?}: {expected}"));
        let (outcome, next) = match after {
            NextStep::End(Status::Sent, _) => {
                (Outcome::Sent { provider_id: None }, RecordedStep::End(Status::Sent, None))
            }
            NextStep::End(status, reason) => (Outcome::Failed, RecordedStep::End(status, reason)),
            NextStep::Retry => (Outcome::RETRY, RecordedStep::Retry(self.timer(seeded))),
            NextStep::Park => (Outcome::RETRY, RecordedStep::Park(STREAM, b"later".to_vec())),
        };
        let settlement = Settlement {
            app: self.app,
            send_id: Some(self.send_id),
            delivery: self.delivery,
            user: UserNumber(1),
            token,
            attempt,
            provider: None,
            started_at: NOW,
            ended_at: NOW,
            answer: Answer::new(outcome, "", ""),
            next,
            job: (STREAM, self.job().into()),
            receipts: true,
        };
        let deliveries = self.fixture.store.deliveries();
        let found = if self.is_in_full {
            deliveries.settle_in_full(&[settlement]).await.unwrap()
        } else {
            deliveries.settle(&[settlement]).await.unwrap()
        };
        assert_eq!(found, [expected], "{:#?}", self.history);
    }

    fn timer(&self, seeded: &mut RandomNumbers) -> NewTimer {
        // The histories without the fast path repeat the random numbers, but need their own timers.
        let id =
            Uuid::from_u64_pair(seeded.below(u64::MAX) ^ u64::from(self.is_in_full), seeded.below(u64::MAX));
        let (app, send_id, message) = (self.app, Some(self.send_id), b"again".to_vec());
        NewTimer {
            id,
            due_at: NOW,
            stream: STREAM,
            message,
            app,
            send_id,
            user: Some(UserNumber(1)),
            wait: None,
        }
    }

    fn job(&self) -> Vec<u8> {
        let content = Content::Sms(SmsContent { text: "Hello".to_owned(), from: None });
        let target = "+491511234567".to_owned();
        let order = DeliveryJob::first(self.delivery, Channel::Sms, UserNumber(1), target, content);
        let event = Event::DeliveryJob(Box::new(order));
        let (id, app, send_id) = (Uuid::from_u128(77), self.app, Some(self.send_id));
        Envelope { id, app, at: NOW, send_id, caused_by: None, trace: None, event }.encode().unwrap()
    }

    async fn receipt(&mut self, seeded: &mut RandomNumbers, attempt: u32) {
        let failed = NextStep::End(Status::Failed, Some(Reason::ProviderRefused));
        let (after, outcome) = match seeded.below(3) {
            0 => (NextStep::End(Status::Delivered, None), Outcome::Sent { provider_id: None }),
            // Another attempt needs the stored job, which exists only if the first attempt was settled.
            1 if self.model.made => (NextStep::Retry, Outcome::RETRY),
            _ => (failed, Outcome::Failed),
        };
        let expected = self.model.receipt(attempt, after);
        self.history.push(format!("receipt for {attempt} as {after:?}: {expected}"));
        let receipt = Receipt {
            id: Uuid::from_u64_pair(
                seeded.below(u64::MAX) ^ u64::from(self.is_in_full),
                seeded.below(u64::MAX),
            ),
            app: self.app,
            about: ReceiptSubject::Delivery(self.delivery, Some(attempt)),
            answer: Answer::new(outcome, "", ""),
            at: NOW,
            random: 0.5,
        };
        let policy = RetryPolicy { schedule: vec![Duration::ZERO; 9] };
        let found =
            self.fixture.store.deliveries().record_receipts(&[receipt], &policy).await.unwrap().remove(0);
        assert_eq!(matches!(found, ReceiptResult::Settled(_)), expected, "{found:?} {:#?}", self.history);
    }

    async fn compare(&self) {
        let row: (String, Option<String>, i32, bool) =
            sqlx::query_as("SELECT status, reason, attempt, calling FROM delivery WHERE id = $1")
                .bind(self.delivery.0)
                .fetch_one(&self.fixture.pool)
                .await
                .unwrap();
        let Ledger { status, reason, attempt, calling, .. } = &self.model;
        let expected = (
            status.to_string(),
            reason.map(|reason| reason.to_string()),
            i32::try_from(*attempt).unwrap(),
            *calling,
        );
        assert_eq!(row, expected, "{:#?}", self.history);
    }
}

#[tokio::test]
async fn the_statements_agree_with_the_state_machine() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut ends = std::collections::BTreeSet::new();
    for number in 1..=2 * HISTORIES {
        let is_in_full = number > HISTORIES;
        // The same histories again, without the fast path.
        let mut seeded = RandomNumbers(u64::try_from((number - 1) % HISTORIES + 1).unwrap());
        let mut twin = Twin::new(&fixture, app, number, is_in_full).await;
        for _ in 0..STEPS {
            twin.step(&mut seeded).await;
            ends.insert(twin.model.status);
        }
    }
    let reached = [Status::Sending, Status::Retrying, Status::Sent, Status::Delivered, Status::Unknown];
    assert!(reached.iter().all(|status| ends.contains(status)), "{ends:?}");
    assert!(ends.contains(&Status::Cancelled) && ends.contains(&Status::Parked), "{ends:?}");
}
