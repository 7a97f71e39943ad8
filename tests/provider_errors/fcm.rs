//! All answers from Firebase Cloud Messaging and Google's OAuth server.

use domain::content::{Content, PushContent};
use domain::{Channel, UserNumber};
use hyper::Response;
use hyper::body::Bytes;
use serde_json::json;
use stand_ins::fcm::{FcmStandIn, refusal};
use stand_ins::http::{Rule, json as answer_with};
use stand_ins::outbox::Outbox;

use crate::state::{ASKED, check_row};
use crate::table::{Class, Note, Provider, row_of};
use crate::world::World;

/// Name of an answer in the table; the status, error code and invalid members in the stand-in's response; and the code that the
/// ledger records.
#[rustfmt::skip]
pub(crate) const CASES: &[(&str, u16, &str, &[&str], &str)] = &[
    ("404 UNREGISTERED", 404, "UNREGISTERED", &[], "404 UNREGISTERED"),
    ("403 SENDER_ID_MISMATCH", 403, "SENDER_ID_MISMATCH", &[], "403 SENDER_ID_MISMATCH"),
    (OVER_A_FIFTH, 403, "SENDER_ID_MISMATCH", &[], "403 SENDER_ID_MISMATCH"),
    ("400 INVALID_ARGUMENT message.token", 400, "INVALID_ARGUMENT", &["message.token"], "400 INVALID_ARGUMENT message.token"),
    ("400 INVALID_ARGUMENT", 400, "INVALID_ARGUMENT", &["message.android.ttl"], "400 INVALID_ARGUMENT"),
    ("400 INVALID_ARGUMENT", 400, "INVALID_ARGUMENT", &[], "400 INVALID_ARGUMENT"),
    ("429 QUOTA_EXCEEDED", 429, "QUOTA_EXCEEDED", &[], "429 QUOTA_EXCEEDED"),
    ("503 UNAVAILABLE", 503, "UNAVAILABLE", &[], "503 UNAVAILABLE"),
    ("500 INTERNAL", 500, "INTERNAL", &[], "500 INTERNAL"),
    ("401 THIRD_PARTY_AUTH_ERROR", 401, "THIRD_PARTY_AUTH_ERROR", &[], "401 THIRD_PARTY_AUTH_ERROR"),
    ("oauth 401", 401, "invalid_client", &[], "oauth 401 invalid_client"),
    ("oauth 403", 403, "access_denied", &[], "oauth 403 access_denied"),
];
pub(crate) const OVER_A_FIFTH: &str = "403 SENDER_ID_MISMATCH of over 20 %";
/// Number of other users who get SENDER_ID_MISMATCH first. The provider is paused only when a fifth user gets it.
const BEFORE: i64 = 4;

#[tokio::test]
async fn every_answer_of_fcm_has_the_effect_in_the_table() {
    let world = World::start(Channel::MobilePush, |_| {}).await;
    world.context.serve("mobile push", mobile_push::run);
    let [first, second] = [google().await, google().await];
    let settings = [first.provider_settings(), second.provider_settings()];
    for (number, (answer, status, says, fields, code)) in CASES.iter().enumerate() {
        println!("{answer}");
        let row = row_of(Provider::Fcm, answer);
        let app = world.app("fcm", &settings).await;
        for earlier in 0..if *answer == OVER_A_FIFTH { BEFORE } else { 0 } {
            let token = format!("device-{number}-{earlier}");
            first.script(Rule::answer(refusal(*status, says, fields)).to(&token));
            let subject = world.deliver(app, UserNumber(2 + earlier), &format!("fcm:{token}"), push()).await;
            world.state_after(&subject, 1).await;
            world.make_next_attempt(&subject).await;
            world.state_after(&subject, 2).await;
        }
        let token = format!("device-{number}");
        if answer.starts_with("oauth") {
            first.script_oauth(Rule::answer(answer_with(*status, &json!({"error": says}))));
        } else {
            let refusal = waiting(refusal(*status, says, fields), row.note);
            first.script(Rule::answer(refusal).to(&token).times(row.times()));
        }
        let subject = world.deliver(app, UserNumber(1), &format!("fcm:{token}"), push()).await;
        check_row(&world, &subject, row, code, "200").await;
        assert_eq!(first.rules_left(), 0);
        let captures = second.outbox().captures();
        let taken = captures.iter().filter(|capture| capture.to[0] == subject.target).count();
        let is_taken_over = row.class == Class::Pause || row.note == Note::HereOnly;
        assert_eq!(taken, usize::from(is_taken_over), "{answer}");
    }
}

#[tokio::test]
async fn a_token_of_another_sender_counts_as_dead_if_there_is_no_other_provider() {
    let world = World::start(Channel::MobilePush, |_| {}).await;
    world.context.serve("mobile push", mobile_push::run);
    let first = google().await;
    let app = world.app("fcm", &[first.provider_settings(), first.provider_settings()]).await;
    world.remove_second_provider(app).await;
    first.script(Rule::answer(refusal(403, "SENDER_ID_MISMATCH", &[])));
    let subject = world.deliver(app, UserNumber(1), "fcm:device-of-another", push()).await;
    let state = world.state_after(&subject, 1).await;
    state.assert_ended("failed", Some("target_gone"), Some("403 SENDER_ID_MISMATCH"));
}

/// Adds the `Retry-After` that the note of a row requires to a response.
pub(crate) fn waiting(mut response: Response<Bytes>, note: Note) -> Response<Bytes> {
    if note == Note::AsAsked {
        response.headers_mut().insert("retry-after", ASKED.as_secs().into());
    }
    response
}

async fn google() -> FcmStandIn {
    FcmStandIn::start(0, Outbox::in_memory()).await.unwrap()
}

fn push() -> Content {
    Content::Push(PushContent { title: Some("Hello".to_owned()), ..PushContent::default() })
}
