//! All answers from Apple's push service.

use std::time::Duration;

use domain::content::{Content, PushContent};
use domain::{AppId, Channel, Timestamp, UserNumber};
use serde_json::json;
use service_kit::clock;
use stand_ins::apns::{ApnsSettings, ApnsStandIn, refusal};
use stand_ins::http::Rule;
use stand_ins::outbox::Outbox;

use crate::state::{State, check_row};
use crate::table::{Class, Note, Provider, row_of};
use crate::world::World;

/// Name of an answer in the table, and the status and reason in the stand-in's response.
#[rustfmt::skip]
pub(crate) const CASES: &[(&str, u16, &str)] = &[
    ("200", 200, ""),
    ("400 BadDeviceToken", 400, "BadDeviceToken"),
    ("400 DeviceTokenNotForTopic", 400, "DeviceTokenNotForTopic"),
    ("410 Unregistered", 410, "Unregistered"),
    ("410 ExpiredToken", 410, "ExpiredToken"),
    ("400 *", 400, "BadTopic"),
    ("404 *", 404, "BadPath"),
    ("405 *", 405, "MethodNotAllowed"),
    ("413 *", 413, "PayloadTooLarge"),
    ("403 ExpiredProviderToken", 403, "ExpiredProviderToken"),
    ("403 InvalidProviderToken", 403, "InvalidProviderToken"),
    ("403 BadCertificate", 403, "BadCertificate"),
    ("403 BadCertificateEnvironment", 403, "BadCertificateEnvironment"),
    ("403 Forbidden", 403, "Forbidden"),
    ("429 TooManyProviderTokenUpdates", 429, "TooManyProviderTokenUpdates"),
    ("429 TooManyRequests", 429, "TooManyRequests"),
    ("500 *", 500, "InternalServerError"),
    ("503 *", 503, "ServiceUnavailable"),
];
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn every_answer_of_apns_has_the_effect_in_the_table() {
    let phones = Phones::start().await;
    for (number, (answer, status, reason)) in CASES.iter().enumerate() {
        println!("{answer}");
        let row = row_of(Provider::Apns, answer);
        let (token, app) = (format!("a{number:063x}"), phones.app().await);
        let code = format!("{status} {reason}");
        let since = (row.note == Note::Since).then(|| clock::now() + HOUR);
        let user = phones.register(app, &token).await;
        if row.class != Class::Sent {
            phones.first.script(phones.refuses(&token, *status, reason, since).times(row.times()));
        }
        let subject = phones.world.deliver(app, user, &format!("apns:{token}"), push()).await;
        check_row(&phones.world, &subject, row, code.trim_end(), "200").await;
        assert_eq!(phones.first.rules_left(), 0);
        let is_taken_over = row.class == Class::Pause || row.note == Note::HereOnly;
        assert_eq!(phones.taken_by_second(&token), usize::from(is_taken_over), "{answer}");
    }
}

#[tokio::test]
async fn a_token_that_is_dead_for_the_only_provider_counts_as_dead() {
    let phones = Phones::start().await;
    for (number, reason) in ["BadDeviceToken", "DeviceTokenNotForTopic"].iter().enumerate() {
        let (token, app) = (format!("a{number:063x}"), phones.app().await);
        phones.world.remove_second_provider(app).await;
        phones.first.script(phones.refuses(&token, 400, reason, None));
        let subject = phones.world.deliver(app, UserNumber(1), &format!("apns:{token}"), push()).await;
        let code = format!("400 {reason}");
        phones.world.state_after(&subject, 1).await.assert_ended("failed", Some("target_gone"), Some(&code));
    }
}

#[tokio::test]
async fn a_token_registered_after_its_death_is_used_again() {
    let phones = Phones::start().await;
    for (number, reason) in ["Unregistered", "ExpiredToken"].iter().enumerate() {
        let (token, app) = (format!("a{number:063x}"), phones.app().await);
        let user = phones.register(app, &token).await;
        let long_ago = Timestamp::from_millis(1_454_948_015_990);
        phones.first.script(phones.refuses(&token, 410, reason, Some(long_ago)));
        let subject = phones.world.deliver(app, user, &format!("apns:{token}"), push()).await;
        let state: State = phones.world.state_after(&subject, 1).await;
        state.assert_ended("failed", Some("target_gone"), None);
    }
}

struct Phones {
    world: World,
    first: ApnsStandIn,
    second: ApnsStandIn,
}

impl Phones {
    async fn start() -> Phones {
        let world = World::start(Channel::MobilePush, |_| {}).await;
        world.context.serve("mobile push", mobile_push::run);
        let [first, second] = [apple().await, apple().await];
        Phones { world, first, second }
    }

    async fn app(&self) -> AppId {
        let settings = [self.first.provider_settings(), self.second.provider_settings()];
        self.world.app("apns", &settings).await
    }

    async fn register(&self, app: AppId, token: &str) -> UserNumber {
        let pairs = json!({"apns": {"tokens": [token]}}).as_object().unwrap().clone();
        self.world.context.store.directory().create_user(app, "ada", pairs).await.unwrap().unwrap().number
    }

    fn refuses(&self, token: &str, status: u16, reason: &str, since: Option<Timestamp>) -> Rule {
        Rule::answer(refusal(status, reason, since)).to(token)
    }

    fn taken_by_second(&self, token: &str) -> usize {
        let captures = self.second.outbox().captures();
        captures.iter().filter(|capture| capture.to == [format!("apns:{token}")]).count()
    }
}

async fn apple() -> ApnsStandIn {
    ApnsStandIn::start(ApnsSettings::default(), Outbox::in_memory()).await.unwrap()
}

fn push() -> Content {
    Content::Push(PushContent { title: Some("Hello".to_owned()), ..PushContent::default() })
}
