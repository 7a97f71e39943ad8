//! All answers from a browser's push service.

use std::sync::Arc;

use credentials::vapid;
use domain::content::{Content, PushContent};
use domain::web_push::parse_subscription;
use domain::{AppId, Channel, UserNumber};
use serde_json::{Value, json};
use stand_ins::http::{HttpSettings, Rule, status};
use stand_ins::outbox::Outbox;
use stand_ins::push_service::{Browser, PushServiceStandIn};

use crate::fcm::waiting;
use crate::state::check_row;
use crate::table::{Class, Provider, row_of};
use crate::world::World;

/// Name of an answer in the table, and the status of the stand-in's response.
#[rustfmt::skip]
pub(crate) const CASES: &[(&str, u16)] = &[
    ("200", 200),
    ("201", 201),
    ("202", 202),
    ("404", 404),
    ("410", 410),
    ("400", 400),
    ("413", 413),
    ("401", 401),
    ("403", 403),
    ("429", 429),
    ("5xx", 500),
    ("5xx", 502),
    ("5xx", 503),
    ("3xx", 301),
    ("3xx", 307),
];
/// Number of messages that are refused first. The worker blames their subscriptions, so only these deliveries fail. After one
/// more refusal it assumes that the push service rejects the key, and pauses the provider.
const BEFORE: usize = 4;

#[tokio::test]
async fn every_answer_of_a_push_service_has_the_effect_in_the_table() {
    let browsers = Browsers::start().await;
    let world = &browsers.world;
    for (answer, code) in CASES {
        println!("{answer}: {code}");
        let row = row_of(Provider::WebPush, answer);
        let settings = json!({"subject": "mailto:push@example.com"});
        let app = world.app("vapid", &[settings.clone(), settings]).await;
        for _ in 0..if row.class == Class::Pause { BEFORE } else { 0 } {
            let (browser, user) = browsers.subscribe(app).await;
            browsers.service.script(Rule::answer(status(*code)).to(browser.endpoint()));
            let subject = world.deliver(app, user, browser.endpoint(), push()).await;
            world.state_after(&subject, 1).await.assert_ended("failed", Some("provider_refused"), None);
        }
        let (browser, user) = browsers.subscribe(app).await;
        let known = world.subscriptions(app).await;
        let rule = Rule::answer(waiting(status(*code), row.note)).to(browser.endpoint());
        browsers.service.script(rule.times(row.times()));
        let subject = world.deliver(app, user, browser.endpoint(), push()).await;
        check_row(world, &subject, row, &code.to_string(), "201").await;
        assert_eq!(browsers.service.rules_left(), 0);
        let dropped = i64::from(row.class == Class::Gone);
        assert_eq!(world.subscriptions(app).await, known - dropped, "{answer}");
    }
}

struct Browsers {
    world: World,
    service: PushServiceStandIn,
}

impl Browsers {
    async fn start() -> Browsers {
        let service = PushServiceStandIn::start(HttpSettings::default(), Outbox::in_memory()).await.unwrap();
        let host = service.url().parse().unwrap();
        let world = World::start(Channel::WebPush, |config| config.web_push.hosts.push(host)).await;
        world.context.serve("web push", web_push::run);
        Browsers { world, service }
    }

    /// Creates a user of the app with a subscribed browser.
    async fn subscribe(&self, app: AppId) -> (Arc<Browser>, UserNumber) {
        let browser = self.service.subscribe(None).unwrap();
        let (mut problems, hosts) = (Vec::new(), [self.service.url().parse().unwrap()]);
        let subscription: Value = browser.subscription();
        let subscription = parse_subscription(subscription, &hosts, vapid::is_on_curve, true, &mut problems);
        let subscription = subscription.unwrap_or_else(|| panic!("{problems:?}"));
        let (store, device) = (&self.world.context.store, browser.endpoint());
        let device = &device[device.len() - 8..];
        let owner = format!("owner of {device}");
        store.directory().subscribe(app, &owner, device, &subscription).await.unwrap();
        let user = store.directory().find_user(app, &owner).await.unwrap().unwrap();
        (browser, user.number)
    }
}

fn push() -> Content {
    Content::Push(PushContent { title: Some("Hello".to_owned()), ..PushContent::default() })
}
