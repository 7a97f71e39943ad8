//! Users and sends. Of ten sends, one goes to all users over the bulk lane in two chunks, and another is scheduled.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use service_kit::clock;
use stand_ins::providers::Providers;
use stand_ins::push_service::Browser;
use suite::retrying_client::{Call, RetryingClient};
use suite::{Person, numbered_send};

/// Number of users with a target on every channel.
pub(crate) const PEOPLE: usize = 20;
/// Number of all users, including those that have only an inbox. A chunk cannot hold all of them.
const EVERYONE: usize = 510;
const LATER: Duration = Duration::from_secs(2);

/// All users, with their browsers.
pub(crate) struct Audience {
    browsers: Vec<Arc<Browser>>,
}

/// A message that a provider must accept: channel, target and title.
pub(crate) type Message = (String, String, String);

impl Audience {
    pub(crate) async fn create(client: &RetryingClient, providers: &Providers) -> Audience {
        let users = (0..EVERYONE).map(|number| match number {
            ..PEOPLE => Person(number).user(),
            _ => json!({"identifier": Person(number).identifier()}),
        });
        let users = json!(users.collect::<Vec<_>>());
        post(client, "/v3/users/bulk", None, &users).await;
        let mut browsers = Vec::new();
        for number in 0..PEOPLE {
            let user = Person(number).identifier();
            let browser = providers.push_service.subscribe(None).unwrap();
            let path = format!("/v3/devices/{user}/webPushSubscription");
            post(client, &path, Some(&user), &browser.subscription()).await;
            browsers.push(browser);
        }
        Audience { browsers }
    }

    /// Messages of a send. A provider must accept each of them exactly once.
    pub(crate) fn messages(&self, send: usize) -> Vec<Message> {
        let reached = recipients(send).into_iter().filter(|person| person.0 < PEOPLE);
        reached.flat_map(|person| self.messages_to(person, send)).collect()
    }

    fn messages_to(&self, person: Person, send: usize) -> Vec<Message> {
        let targets = channels(send).iter().flat_map(|channel| match *channel {
            "email" => vec![(channel, person.email())],
            "sms" => vec![(channel, person.phone())],
            "mobilePush" => {
                let tokens = [("apns", person.apns_token()), ("fcm", person.fcm_token())];
                tokens.map(|(service, token)| (channel, format!("{service}:{token}"))).into()
            }
            "webPush" => vec![(channel, self.browsers[person.0].endpoint().to_owned())],
            _ => Vec::new(),
        });
        targets.map(|(channel, target)| ((*channel).to_owned(), target, numbered_send::title(send))).collect()
    }
}

pub(crate) fn recipients(send: usize) -> Vec<Person> {
    match send % 10 {
        3 => (0..EVERYONE).map(Person).collect(),
        _ => [0, 19].map(|apart| Person((send * 7 + apart) % PEOPLE)).into(),
    }
}

/// Body of the request. `sendAt` of a scheduled send is in the future.
pub(crate) fn body(send: usize) -> Value {
    let people: Vec<String> = recipients(send).into_iter().map(Person::identifier).collect();
    let lane = if send % 10 == 3 { "bulk" } else { "transactional" };
    let mut body = numbered_send::body(send, &people, channels(send), lane);
    if send % 10 == 7 {
        body["sendAt"] = json!(clock::now() + LATER);
    }
    body
}

fn channels(send: usize) -> &'static [&'static str] {
    match send % 10 {
        3 => &["inApp", "email"],
        0 | 2 | 4 | 6 | 8 => &["inApp", "email", "webPush"],
        _ => &["inApp", "sms", "mobilePush"],
    }
}

async fn post(client: &RetryingClient, path: &str, user: Option<&str>, body: &Value) {
    let call = Call { method: "POST", path, user, idempotency_key: None, body: Some(body) };
    let (status, answer) = client.call(0, call).await;
    assert_eq!(status, 200, "{answer}");
}
