//! Durable changes to inboxes. A request waits until the inbox shows its change.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use domain::id::partition;
use domain::{AppId, Envelope, Event, StreamName, UserNumber};
use service_kit::{clock, trace};
use web::database::database;
use web::failure::Failure;
use web::status_body::status_body;

use crate::gateway::Gateway;

/// Maximum time for which a request waits until the inbox shows its change.
const VISIBLE_WITHIN: Duration = Duration::from_millis(1500);

/// Result of waiting for the inbox to show a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Every list now shows the change.
    Yes,
    /// The change is durable, but the inbox does not show it yet.
    NotYet,
}

impl Gateway {
    /// Changes a user's inbox for a caller of the API. Like every other write with a proof, the change first ends what callers
    /// without a proof registered for the user.
    pub(crate) async fn change_inbox_as(
        &self,
        has_proof: bool,
        app: AppId,
        user: UserNumber,
        event: Event,
    ) -> Result<Visibility, Failure> {
        if has_proof {
            database(self.store.directory().end_unproven_of(app, user)).await?;
        }
        self.change_inbox(app, user, event).await
    }

    /// Publishes a change of a user's inbox, then waits up to 1.5 s until the inbox shows it. Fails if the log does not confirm
    /// the change.
    pub(crate) async fn change_inbox(
        &self,
        app: AppId,
        user: UserNumber,
        event: Event,
    ) -> Result<Visibility, Failure> {
        let partition = partition(app, user, self.partitions);
        let event = Envelope {
            id: clock::new_id(),
            app,
            at: clock::now(),
            send_id: None,
            caused_by: None,
            trace: trace::current_traceparent(),
            event,
        };
        let seq = self.publisher.append(StreamName::Inbox(partition), &event).await?;
        let reached = self.positions.reach(partition, seq, VISIBLE_WITHIN).await;
        Ok(if reached { Visibility::Yes } else { Visibility::NotYet })
    }
}

/// Creates the 202 for a change that the inbox did not show in time.
pub(crate) fn not_shown_yet() -> HttpResponse {
    status_body(StatusCode::ACCEPTED, "the change is stored and will soon be visible")
}
