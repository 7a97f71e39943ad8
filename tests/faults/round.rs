//! A round: users, sends to them, and the record of their deliveries.

use std::fmt;
use std::ops::Range;
use std::time::Instant;

use domain::Timestamp;
use service_kit::clock;
use suite::{Person, numbered_send};
use testkit::eventually;
use uuid::Uuid;

use crate::cost::{Cost, Meter};
use crate::gather::{self, AcceptedSend};
use crate::record::Record;
use crate::system::{HASTE, System};

/// Number of sends to each user. The second send addresses targets that the first one found dead.
const WAVES: usize = 2;
/// Number of recipients of a send; with more, every send would go to the bulk lane.
const RECIPIENTS: usize = 100;
/// Number of users in one call of `POST /v3/users/bulk`.
const USERS: usize = 500;
/// Identifier of the provider that is down for a part of the round. Deliveries can fail over to another one.
pub(crate) const UNSTEADY: &str = "smtp";
const DOWN: std::time::Duration = std::time::Duration::from_secs(30);

/// Kind of a round: `Foul` with faults, `Fair` without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    Foul,
    Fair,
}

pub(crate) struct Round {
    number: usize,
    weather: Weather,
    people: Range<usize>,
    targets: usize,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {}, {:?}, {} people", self.number + 1, self.weather, self.people.len())
    }
}

impl Round {
    /// Creates a round of about this number of deliveries. No other round has the same users.
    pub(crate) fn new(number: usize, weather: Weather, deliveries: usize, system: &System) -> Round {
        let targets = Person::targets(&system.channels());
        let first = 1 + number * 200_000 + if weather == Weather::Fair { 100_000 } else { 0 };
        let people = deliveries / WAVES / targets;
        Round { number, weather, people: first..first + people, targets }
    }

    pub(crate) async fn run(&self, system: &mut System) -> (Record, Cost) {
        for peer in &mut system.providers.peers {
            peer.begin(self.weather == Weather::Foul);
        }
        system.prioritize(self.number);
        self.create_users(system).await;
        let meter = Meter::start(system.measured());
        let mut sent = self.send(system, 0).await;
        let requests = ids(&sent);
        let first_wave = self.people.len() * self.targets;
        system.until_ended(&requests, first_wave / 4).await;
        let down = match self.weather {
            Weather::Foul => Some(take_down(system).await),
            Weather::Fair => None,
        };
        system.until_ended(&requests, first_wave / 2).await;
        sent.extend(self.send(system, 1).await);
        system.until_done(&ids(&sent), self.people.len() * WAVES).await;
        let cost = meter.read(first_wave * WAVES);
        (gather::record(system, &sent, down).await, cost)
    }

    async fn create_users(&self, system: &System) {
        let people: Vec<Person> = self.people.clone().map(Person).collect();
        for people in people.chunks(USERS) {
            let users: Vec<_> = people.iter().map(|person| person.user()).collect();
            system.api.create_users(&users).await;
        }
        system.subscribe(&people).await;
    }

    /// Makes the sends of a wave. The first wave uses the transactional lane, the second the bulk lane.
    async fn send(&self, system: &System, wave: usize) -> Vec<AcceptedSend> {
        let lane = ["transactional", "bulk"][wave % 2];
        let people: Vec<usize> = self.people.clone().collect();
        let mut sent = Vec::new();
        for people in people.chunks(RECIPIENTS) {
            let number = people[0] * WAVES + wave;
            let recipients: Vec<String> = people.iter().map(|person| Person(*person).identifier()).collect();
            let body = numbered_send::body(number, &recipients, &system.channels(), lane);
            let notice = numbered_send::title(number);
            let request = system.api.send(&notice, &body).await;
            sent.push(AcceptedSend { request, notice, recipients: recipients.len() });
        }
        sent
    }
}

fn ids(sent: &[AcceptedSend]) -> Vec<Uuid> {
    sent.iter().map(|sent| sent.request.parse().unwrap()).collect()
}

/// Keeps a provider down for a while. Returns the start and the end of this time.
async fn take_down(system: &System) -> (Timestamp, Timestamp) {
    let peer = system.providers.peers.iter().find(|peer| peer.identifier() == UNSTEADY).unwrap();
    let (from, began) = (clock::now(), Instant::now());
    peer.faults.set_down(true);
    eventually(DOWN, "the provider was down for long enough", async || {
        (began.elapsed() >= DOWN / HASTE).then_some(())
    })
    .await;
    peer.faults.set_down(false);
    (from, clock::now())
}
