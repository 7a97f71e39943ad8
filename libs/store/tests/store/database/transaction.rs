//! Calls that are cancelled before they end, for instance because of a timeout.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use domain::{Actor, Lane, SendId};
use store::control::app::NewApp;
use store::sends::idempotency::{Reservation, ReservedSend};
use store::{Settings, Store};
use uuid::Uuid;

use crate::fixture;

/// Maximum number of polls; every tested call needs fewer.
const STEPS: usize = 50;

/// A future that polls the call at most `steps` times. Resolves to true if the call has completed.
struct LimitedSteps<F> {
    call: Pin<Box<F>>,
    steps: usize,
}

impl<F: Future> Future for LimitedSteps<F> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        self.steps -= 1;
        if self.steps == 0 {
            return Poll::Ready(self.call.as_mut().poll(context).is_ready());
        }
        ready!(self.call.as_mut().poll(context));
        Poll::Ready(true)
    }
}

#[tokio::test]
async fn a_cancelled_call_leaves_no_open_transaction_on_its_connection() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    // The pool has one connection, so that the next call uses the connection of the cancelled call.
    let settings = Settings { url: fixture.database.url().to_owned(), max_connections: 1 };
    let store = Store::connect(&settings).await.unwrap();
    for steps in 1..=STEPS {
        let name = format!("after {steps} steps");
        let new = NewApp { name: &name, api_key: &name, development: false };
        let is_done =
            LimitedSteps { call: Box::pin(store.control().create_app(new, &Actor::System)), steps }.await;
        let send = ReservedSend { send_id: SendId(Uuid::from_u128(1)), body_hash: [7; 32], lane: Lane::Bulk };
        store.sends().reserve_keys(&[Reservation { app, key: name.clone(), send }]).await.unwrap();
        let seen = fixture.store.sends().reserved_key(app, &name).await.unwrap();
        assert_eq!(seen, Some(send), "{name}: the write of the next call was not committed");
        if is_done {
            return;
        }
    }
    panic!("the call did not complete within {STEPS} polls");
}
