//! Minimum numbers of faults, outcomes and sends in a run. A run with fewer does not count, because its checks would prove too
//! little. On a slow machine, some of these numbers are only too low for one check, which then has too little to judge by.

use std::collections::BTreeMap;
use std::fmt;

use sabotage::CrashPoint;
use serde::Serialize;
use stand_ins::faults::Fault;
use suite::Role;

use crate::check;
use crate::faults::disturbance::Disturbance;
use crate::faults::schedule::Size;
use crate::faults::tally::Tally;
use crate::journal::{Change, Line};
use crate::record::Record;

/// In a small run, one occurrence of each outcome is required per this number of notifications.
const SMALL_RUN: usize = 1_000;
/// One repeated send is required per this number of notifications. Clients repeat every tenth send, and a send has about three
/// recipients.
const REPEATED: usize = 60;
/// One undisturbed send of a small app during a flood of the large app is required per this number of notifications.
const BESIDE_A_FLOOD: usize = 4_000;

/// Number of processes that the poison must end: one for each mark after which it is parked.
const LEAST_POISONED: usize = 3;

/// A minimum number, and the actual one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Need {
    what: String,
    least: usize,
    seen: usize,
    /// Check that has too little to judge by if a slow machine does not reach the minimum. None if the run does not count then.
    /// Checks for lost and repeated sends are never named here.
    #[serde(skip)]
    check: Option<&'static str>,
}

/// The requested size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSize {
    pub(crate) notifications: usize,
    pub(crate) size: Size,
}

impl Need {
    pub(crate) fn is_met(&self) -> bool {
        self.seen >= self.least
    }

    /// Names the check that depends on this number if the machine is slow.
    fn of(self, check: &'static str) -> Need {
        Need { check: Some(check), ..self }
    }
}

/// Consequences of numbers below their minimum.
#[derive(Debug, Default)]
pub(crate) struct TooFew {
    /// Checks that have too little to judge by, each with the numbers.
    pub(crate) checks: BTreeMap<&'static str, String>,
    /// Numbers because of which the run does not count.
    pub(crate) needs: Vec<Need>,
}

/// Divides the unmet needs. On a machine that is fast enough, each of them shows a defect of the run.
pub(crate) fn too_few(needs: &[Need], is_slow: bool) -> TooFew {
    let mut too_few = TooFew::default();
    for need in needs.iter().filter(|need| !need.is_met()) {
        match need.check.filter(|_| is_slow) {
            Some(check) => drop(too_few.checks.insert(check, need.to_string())),
            None => too_few.needs.push(need.clone()),
        }
    }
    too_few
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.what, self.seen, self.least)
    }
}

/// All minimum numbers of a run.
pub(crate) fn needs(asked: RunSize, record: &Record, tally: &Tally, bulk: u64) -> Vec<Need> {
    let need = |what: &str, least, seen| Need { what: what.to_owned(), least, seen, check: None };
    let confirmed = confirmed(record);
    let small_run = asked.size.least_of_each.min(asked.notifications / SMALL_RUN).max(1);
    let mut needs = vec![
        need("notifications that were confirmed", asked.notifications, confirmed.notifications),
        need("repeats of confirmed sends", asked.notifications / REPEATED, confirmed.repeats),
        need("sends and jobs in the bulk lane", asked.notifications / 10, usize::try_from(bulk).unwrap()),
        need("suppressed targets", small_run, record.tables.suppressions.len()),
    ];
    // If this check cannot be decided anyway, do not require data for it.
    if !check::undecided(record).contains_key(check::SMALL_APPS_DO_NOT_WAIT) {
        let (least, seen) = (asked.notifications / BESIDE_A_FLOOD, check::beside_a_flood(record).0);
        let flood = need("sends of small apps during a flood of the large one", least, seen);
        needs.push(flood.of(check::SMALL_APPS_DO_NOT_WAIT));
    }
    needs.extend(of_faults(asked.size, tally));
    needs.extend(of_users(asked.size.least_of_each, record));
    needs.extend(of_providers(small_run, record));
    needs
}

struct ConfirmedCounts {
    notifications: usize,
    /// Number of 202s after the first 202 of each send.
    repeats: usize,
}

fn confirmed(record: &Record) -> ConfirmedCounts {
    let mut times: BTreeMap<usize, usize> = BTreeMap::new();
    record.confirmed().for_each(|(notice, _)| *times.entry(notice).or_default() += 1);
    let recipients = |notice| record.asked.get(notice).map_or(0, |asked| asked.recipients.len());
    ConfirmedCounts {
        notifications: times.keys().map(recipients).sum(),
        repeats: times.values().sum::<usize>() - times.len(),
    }
}

fn of_faults(size: Size, tally: &Tally) -> Vec<Need> {
    let need = |what: String, least, seen: Option<&usize>| Need {
        what,
        least,
        seen: seen.copied().unwrap_or(0),
        check: None,
    };
    let kills = tally.number_of_kills();
    let mut needs = vec![
        need("kills".to_owned(), size.least_kills, Some(&kills)),
        need("deaths by the poison".to_owned(), LEAST_POISONED, Some(&tally.poisoned)),
    ];
    let kill = |of: &str, least| need(format!("kills of {of}"), least, tally.kills.get(of));
    needs.extend(["postgres", "nats"].map(|server| kill(server, size.least_of_each)));
    needs.extend(Role::ALL.map(|role| kill(role.as_str(), 1)));
    needs.extend(CrashPoint::ALL.iter().map(|point| {
        need(format!("deaths at {}", point.as_str()), size.least_of_each, tally.crashes.get(point))
    }));
    needs
        .extend(Disturbance::ALL.map(|other| {
            need(other.as_str().to_owned(), size.least_of_each, tally.disturbances.get(&other))
        }));
    needs
}

/// Minimum numbers of changes that were answered with 200, by kind. Every later list must show these changes.
fn of_users(least: usize, record: &Record) -> Vec<Need> {
    let mut answered: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &record.journal {
        if let Line::Changed { change, status: Some(200), .. } = line {
            *answered.entry(change.kind()).or_default() += 1;
        }
    }
    let need = |kind: &&str| Need {
        what: format!("changes answered with 200: {kind}"),
        least,
        seen: answered.get(kind).copied().unwrap_or_default(),
        check: Some(check::NO_LIST_CONTRADICTS),
    };
    Change::KINDS.iter().map(need).collect()
}

/// Minimum numbers of faults of providers, and of attempts by outcome.
fn of_providers(least: usize, record: &Record) -> Vec<Need> {
    let need = |what: String, seen: usize| Need { what, least, seen, check: None };
    let mut attempts: BTreeMap<&str, usize> = BTreeMap::new();
    for attempt in record.tables.deliveries.values().flat_map(|delivery| &delivery.attempts) {
        *attempts.entry(&attempt.outcome).or_default() += 1;
    }
    let outcomes = ["sent", "retry", "failed", "target_gone", "pause_provider", "unknown"];
    let mut needs: Vec<Need> = outcomes
        .into_iter()
        .map(|name| {
            let seen = attempts.get(name).copied().unwrap_or_default();
            need(format!("attempts that end as {name}"), seen)
        })
        .collect();
    let classes = [
        Fault::Temporary,
        Fault::Busy,
        Fault::Gone,
        Fault::Refused,
        Fault::Pause,
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::Stall,
    ];
    needs.extend(classes.map(|class| {
        let name = format!("{class:?}");
        let seen = record.provider_faults.get(&name).copied().unwrap_or_default();
        need(format!("calls that providers answered with {name}"), seen)
    }));
    needs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::record;

    const ASKED: RunSize = RunSize { notifications: 20_000, size: Size::CI };

    fn met(record: &Record, tally: &Tally) -> BTreeSet<String> {
        let needs = needs(ASKED, record, tally, 0);
        needs.into_iter().filter(Need::is_met).map(|need| need.what).collect()
    }

    #[test]
    fn an_empty_run_meets_no_need() {
        assert_eq!(met(&Record::default(), &Tally::default()), BTreeSet::new());
    }

    #[test]
    fn on_a_slow_machine_a_low_number_is_too_little_for_its_check() {
        let need = |what: &str, seen| Need { what: what.to_owned(), least: 5, seen, check: None };
        let needs = [
            need("floods", 2).of(check::SMALL_APPS_DO_NOT_WAIT),
            need("changes", 5).of(check::NO_LIST_CONTRADICTS),
            need("kills", 2),
        ];
        let slow = too_few(&needs, true);
        assert_eq!(slow.checks, [(check::SMALL_APPS_DO_NOT_WAIT, "floods: 2 of 5".to_owned())].into());
        assert_eq!(slow.needs.iter().map(ToString::to_string).collect::<Vec<_>>(), ["kills: 2 of 5"]);
        let fast = too_few(&needs, false);
        assert!(fast.checks.is_empty() && fast.needs.len() == 2, "{fast:?}");
    }

    #[test]
    fn a_need_is_met_at_its_minimum_and_not_below() {
        let asked = record::IntendedSend {
            app: domain::AppId(1),
            title: String::new(),
            recipients: ["a".to_owned(), "b".to_owned()].into(),
            to_topic: false,
            channels: Vec::new(),
            is_small: false,
        };
        let confirmed = |notice| Line::Confirmed { notice, request: uuid::Uuid::nil(), at: 0 };
        let changed = Line::Changed { user: 1, change: Change::AllRead, status: Some(200), at: 0 };
        let mut record = Record {
            asked: (0..10_000).map(|notice| (notice, asked.clone())).collect(),
            journal: (0..10_000).chain(0..333).map(confirmed).collect(),
            provider_faults: [("Stall".to_owned(), 3), ("Busy".to_owned(), 2)].into(),
            ..Record::default()
        };
        record.journal.extend([changed.clone(), changed.clone(), changed]);
        let tally = Tally {
            disturbances: [(Disturbance::Pause, 3), (Disturbance::CutFromBroker, 2)].into(),
            crashes: [(CrashPoint::AfterYes, 3), (CrashPoint::InCommit, 2)].into(),
            kills: [("postgres", 3), ("nats", 2), ("sms", 35)].into(),
            ..Tally::default()
        };
        let expected = [
            "notifications that were confirmed",
            "repeats of confirmed sends",
            "kills",
            "kills of postgres",
            "kills of sms",
            "deaths at after_yes",
            "paused",
            "changes answered with 200: all read",
            "calls that providers answered with Stall",
        ];
        assert_eq!(met(&record, &tally), expected.map(str::to_owned).into());
        record.journal.retain(|line| !matches!(line, Line::Confirmed { notice: 9_999 | 332, .. }));
        let met = met(&record, &tally);
        assert!(!met.contains(expected[0]) && !met.contains(expected[1]), "{met:?}");
    }
}
