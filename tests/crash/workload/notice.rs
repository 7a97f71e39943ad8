//! Sends of the workload. Each is derived from its number and the seed, so that every check can derive it again.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{Channel, Timestamp};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::workload::people::{People, identifier};

/// Share of sends of the largest app, in percent.
pub(super) const LARGE: usize = 60;
/// Share of sends to a topic, in percent.
const TO_TOPIC: usize = 15;
/// Share of scheduled sends, in percent.
const SCHEDULED: usize = 5;
/// Share of sends that the client repeats after their 202, in percent.
const AGAIN: usize = 10;
/// Minimum time from the first try of a scheduled send to its scheduled time.
const SOONEST: Duration = Duration::from_secs(2);
/// Maximum number of recipients of a send.
const RECIPIENTS: usize = 5;
/// Maximum number of subscribers of a topic.
const SUBSCRIBERS: usize = 4;
/// Average number of recipients of a send.
pub(crate) const AVERAGE: usize = RECIPIENTS.div_ceil(2);
/// Share of sends that name each channel, in percent. A send for which no channel is drawn uses the inbox.
const CHANNELS: [(Channel, usize); 5] = [
    (Channel::InApp, 70),
    (Channel::Email, 50),
    (Channel::WebPush, 30),
    (Channel::MobilePush, 40),
    (Channel::Sms, 30),
];

#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) number: usize,
    /// Index of the app that makes the send.
    pub(crate) app: usize,
    /// Numbers of users, all different.
    pub(crate) recipients: Vec<usize>,
    /// The topic to which the recipients subscribe, if the send names it instead of them.
    pub(crate) topic: Option<String>,
    pub(crate) channels: Vec<Channel>,
    /// Time from the first try to the scheduled time; None if the send is not scheduled.
    pub(crate) delay: Option<Duration>,
    /// True if the client repeats the send after its 202.
    pub(crate) again: bool,
}

/// Index of the app that makes the send with this number.
pub(super) fn app(dice: Dice, people: People, number: usize) -> usize {
    if dice.percent(LARGE, ("large", number)) || people.apps == 1 {
        0
    } else {
        1 + dice.below(people.apps - 1, ("app", number))
    }
}

/// The topic to which a user of an app subscribes with the users of the same [`group`].
pub(super) fn topic(user: usize) -> String {
    format!("group-{user}")
}

/// Users of an app, from the one at index `first`, in the order of their numbers.
fn group(users: &[usize], first: usize, wanted: usize) -> Vec<usize> {
    let group = (0..wanted.min(users.len())).map(|index| users[(first + index * 7) % users.len()]);
    group.collect::<BTreeSet<usize>>().into_iter().collect()
}

/// The topics of an app, each with its subscribers.
pub(super) fn topics(users: &[usize]) -> impl Iterator<Item = (String, Vec<usize>)> {
    (0..users.len()).map(|first| (topic(users[first]), group(users, first, SUBSCRIBERS)))
}

impl Notice {
    pub(crate) fn new(dice: Dice, people: People, ahead: Duration, number: usize) -> Notice {
        let app = app(dice, people, number);
        let users: Vec<usize> = people.of_app(app).collect();
        let first = dice.below(users.len(), ("first", number));
        let topic = dice.percent(TO_TOPIC, ("topic", number)).then(|| topic(users[first]));
        let drawn = 1 + dice.below(RECIPIENTS, ("recipients", number));
        let recipients = group(&users, first, if topic.is_some() { SUBSCRIBERS } else { drawn });
        let taken = CHANNELS.iter().filter(|(channel, share)| dice.percent(*share, (number, channel)));
        let mut channels: Vec<Channel> = taken.map(|(channel, _)| *channel).collect();
        if channels.is_empty() {
            channels.push(Channel::InApp);
        }
        let further = usize::try_from((ahead - SOONEST).as_millis()).unwrap();
        let delay = || SOONEST + Duration::from_millis(dice.below(further, ("delay", number)) as u64);
        let delay = dice.percent(SCHEDULED, ("scheduled", number)).then(delay);
        let again = dice.percent(AGAIN, ("again", number));
        Notice { number, app, recipients, topic, channels, delay, again }
    }

    /// Title of the inbox item; also the subject of the email.
    pub(crate) fn title(&self) -> String {
        format!("notice-{:07}", self.number)
    }

    pub(crate) fn key(&self) -> String {
        format!("crash-{}", self.number)
    }

    pub(crate) fn body(&self, send_at: Option<Timestamp>) -> Value {
        let recipients: Vec<String> = self.recipients.iter().map(|user| identifier(*user)).collect();
        let send_to = match &self.topic {
            Some(topic) => json!({"topics": [topic]}),
            None => json!({"recipients": recipients}),
        };
        let title = self.title();
        let mut body = json!({
            "notification": {"title": title, "message": format!("{title} is on its way.")},
            "sendTo": send_to,
            "override": {"channels": self.channels},
        });
        if let Some(send_at) = send_at {
            body["sendAt"] = json!(send_at);
        }
        body
    }
}
