//! Report of a run, as a table and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::check::{self, Results};
use crate::coverage::Need;
use crate::faults::tally::Tally;
use crate::journal::Line;
use crate::record::Record;
use crate::speed::Speed;
use crate::system::System;
use crate::system::files;

/// Maximum number of repeated acceptances that the report lists per channel.
const SHOWN: usize = 10;

/// Counts by name, such as the name of a channel or crash point.
type Counts = BTreeMap<String, u64>;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    seed: u64,
    pub(crate) long: bool,
    /// Version line of nats-server.
    pub(crate) broker: String,
    /// Duration of each phase, in seconds.
    seconds: BTreeMap<&'static str, f64>,
    /// Number of confirmed notifications: the total number of recipients of all confirmed sends.
    notifications: usize,
    sends: usize,
    /// Number of calls that clients made to get these confirmations.
    tries: usize,
    /// Number of deliveries by channel and status, for example `email sent`.
    deliveries: Counts,
    inbox_items: usize,
    /// Number of different webhooks that endpoints accepted.
    webhooks: usize,
    /// Number of accepted calls that repeated a webhook.
    webhooks_again: usize,
    /// Number of kills by victim.
    kills: Counts,
    /// Number of deaths by crash point.
    crash_points: Counts,
    /// Number of disturbances by kind.
    disturbances: Counts,
    /// Processes that were started while a server was unavailable, gave up waiting for it and were restarted.
    gave_up: Vec<String>,
    /// Number of faults of providers, by name.
    provider_faults: BTreeMap<String, usize>,
    /// Number of repeated acceptances by channel. `duplicates` has the details.
    duplicates_at_providers: Counts,
    duplicates: Vec<Duplicate>,
    /// Number of periods in which nats-server redelivered acknowledged sends.
    redeliveries: usize,
    /// 99th percentile of the time from 202 to the inbox, in milliseconds, and the number of sends from which it is computed:
    /// sends of small apps that no fault delayed.
    small_apps_p99: Option<(i64, usize)>,
    /// Number of these sends that were confirmed during a flood of the large app, and the largest number of the large app's sends
    /// that were waiting at such a moment.
    beside_a_flood: (usize, usize),
    /// Peak memory by role, in mebibytes: the largest value among the processes of the role.
    peak_mebibytes: Counts,
    /// Everything that must happen for the run to count, each with its minimum and actual number.
    pub(crate) needs: Vec<Need>,
    /// Expected maximum duration of the run, in seconds.
    pub(crate) may_take: u64,
    /// Speed of the machine before the load.
    pub(crate) speed: Option<Speed>,
    /// Factor by which all times of the run were stretched.
    stretch: f64,
    /// Evidence that the machine became slower during the run.
    slowdown: Option<String>,
    /// Share of two processors that was free after the load.
    processors_afterwards: f64,
    /// Number of periods in which the machine did not run the test.
    stalls: usize,
    /// Reason why nothing was judged. None if the machine was fast enough.
    too_slow: Option<String>,
    held: Vec<&'static str>,
    /// Checks that failed, with their numbers of violations.
    broken: BTreeMap<&'static str, usize>,
    /// Checks that had too little to judge by, each with the numbers.
    undecided: BTreeMap<&'static str, String>,
}

/// A second acceptance of a delivery, and the reason that explains it.
#[derive(Debug, Serialize)]
struct Duplicate {
    channel: String,
    delivery: String,
    /// Time between the two acceptances.
    milliseconds: i64,
    because: Option<String>,
}

impl Report {
    /// Creates the report of a run that judged nothing.
    pub(crate) fn of_nothing(seed: u64, speed: Speed, too_slow: String) -> Report {
        Report {
            seed,
            speed: Some(speed),
            stretch: speed.stretch(),
            too_slow: Some(too_slow),
            ..Report::default()
        }
    }

    /// Creates a report with the faults of the run and the peak memory of its processes.
    pub(crate) fn of(system: &mut System, tally: &Tally) -> Report {
        let mut peaks = Counts::new();
        for process in &mut system.processes {
            let peak = peaks.entry(process.name.role.as_str().to_owned()).or_default();
            *peak = (*peak).max(process.most_memory() >> 20);
        }
        let counted = |(name, number): (&str, &usize)| (name.to_owned(), *number as u64);
        Report {
            seed: system.scene.seed,
            kills: tally.kills.iter().map(|(name, number)| counted((name, number))).collect(),
            crash_points: tally
                .crashes
                .iter()
                .map(|(point, number)| counted((point.as_str(), number)))
                .collect(),
            disturbances: tally
                .disturbances
                .iter()
                .map(|(other, number)| counted((other.as_str(), number)))
                .collect(),
            gave_up: tally.gave_up.clone(),
            peak_mebibytes: peaks,
            ..Report::default()
        }
    }

    /// Adds the numbers of the record and the results of the checks.
    pub(crate) fn add(&mut self, record: &Record, results: &Results) {
        let confirmed: BTreeMap<_, _> =
            record.confirmed().map(|(notice, request)| (request, notice)).collect();
        self.sends = confirmed.len();
        self.notifications = confirmed
            .values()
            .filter_map(|notice| record.asked.get(notice))
            .map(|asked| asked.recipients.len())
            .sum();
        self.tries = record.journal.iter().filter(|line| matches!(line, Line::Tried { .. })).count();
        for delivery in record.tables.deliveries.values() {
            *self.deliveries.entry(format!("{} {}", delivery.channel, delivery.status)).or_default() += 1;
        }
        self.inbox_items = record.tables.items.len();
        let webhooks: BTreeSet<_> =
            record.webhooks.iter().map(|webhook| (webhook.app, &webhook.id)).collect();
        self.webhooks = webhooks.len();
        self.webhooks_again = record.webhooks.len() - webhooks.len();
        for repeat in check::repeats(record) {
            *self.duplicates_at_providers.entry(repeat.channel.to_string()).or_default() += 1;
            self.duplicates.push(Duplicate {
                channel: repeat.channel.to_string(),
                delivery: repeat.delivery.to_string(),
                milliseconds: repeat.second - repeat.first,
                because: repeat.because,
            });
        }
        self.provider_faults.clone_from(&record.provider_faults);
        self.redeliveries = record.redeliveries.len();
        self.small_apps_p99 = check::percentile_of_small_apps(record);
        self.beside_a_flood = check::beside_a_flood(record);
        self.stretch = record.conditions.stretch;
        self.processors_afterwards = record.conditions.processors.1;
        self.slowdown = record.conditions.slowdown();
        self.stalls = record.conditions.stalls.len();
        self.held.clone_from(&results.held);
        self.broken = results.broken.iter().map(|(name, violations)| (*name, violations.len())).collect();
        self.undecided.clone_from(&results.undecided);
    }

    pub(crate) fn took(&mut self, what: &'static str, time: Duration) {
        self.seconds.insert(what, (time.as_secs_f64() * 10.0).round() / 10.0);
    }

    /// Writes `target/crash/report.json`.
    pub(crate) fn keep(&self) {
        let path = files::directory().join("report.json");
        std::fs::create_dir_all(files::directory()).unwrap();
        std::fs::write(&path, serde_json::to_string(self).unwrap() + "\n").unwrap();
        println!("the report: {}", path.display());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: u64 = self.kills.values().sum();
        let crashes: u64 = self.crash_points.values().sum();
        writeln!(
            f,
            "seed                {}{}, {}",
            self.seed,
            if self.long { " (long)" } else { "" },
            self.broker
        )?;
        self.write_speed(f)?;
        writeln!(f, "seconds             {}", listed(&self.seconds))?;
        let all: f64 = self.seconds.values().sum();
        writeln!(f, "total time          {all:.0} s, expected at most {} s", self.may_take)?;
        writeln!(
            f,
            "notifications       {} of {} sends, {} tries",
            self.notifications, self.sends, self.tries
        )?;
        writeln!(f, "inbox items         {}", self.inbox_items)?;
        writeln!(f, "webhooks            {}, {} repeated calls", self.webhooks, self.webhooks_again)?;
        writeln!(f, "deliveries          {}", listed(&self.deliveries))?;
        writeln!(f, "kills               {kills}: {}", listed(&self.kills))?;
        writeln!(f, "at crash points     {crashes}: {}", listed(&self.crash_points))?;
        writeln!(f, "disturbances        {}", listed(&self.disturbances))?;
        writeln!(f, "provider faults     {}", listed(&self.provider_faults))?;
        writeln!(f, "redeliveries        {}, each of all acknowledged sends of a lane", self.redeliveries)?;
        if !self.gave_up.is_empty() {
            writeln!(f, "gave up at start    {}", self.gave_up.join(", "))?;
        }
        let waited = |(millis, of)| format!("{millis} ms from 202 to the inbox, {of} sends");
        let waited = self.small_apps_p99.map_or("too few sends".to_owned(), waited);
        let (beside, backlog) = self.beside_a_flood;
        writeln!(
            f,
            "small apps' p99     {waited}; {beside} of them while up to {backlog} sends of the large app waited"
        )?;
        writeln!(f, "peak memory, MiB    {}", listed(&self.peak_mebibytes))?;
        writeln!(
            f,
            "accepted twice      {}: {}",
            self.duplicates.len(),
            listed(&self.duplicates_at_providers)
        )?;
        for Duplicate { channel, delivery, milliseconds, because } in self.duplicates.iter().take(SHOWN) {
            let because = because.as_deref().unwrap_or("UNEXPLAINED");
            writeln!(f, "  {channel} {delivery} after {milliseconds} ms: {because}")?;
        }
        self.write_results(f)
    }
}

impl Report {
    fn write_speed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(speed) = self.speed {
            let afterwards = self.processors_afterwards * 100.0;
            writeln!(
                f,
                "machine             {speed}; {afterwards:.0} % after the load; times stretched by {:.2}",
                self.stretch
            )?;
        }
        if let Some(slowdown) = &self.slowdown {
            writeln!(f, "  SLOWER DURING THE RUN: {slowdown}")?;
        }
        if self.stalls > 0 {
            writeln!(f, "  stalls            {}", self.stalls)?;
        }
        Ok(())
    }

    /// Writes the results of the checks in their three groups.
    fn write_results(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unmet: Vec<&Need> = self.needs.iter().filter(|need| !need.is_met()).collect();
        writeln!(f, "minimums met        {} of {}", self.needs.len() - unmet.len(), self.needs.len())?;
        for need in unmet {
            writeln!(f, "  TOO FEW {need}")?;
        }
        let (held, broken, undecided) = (self.held.len(), self.broken.len(), self.undecided.len());
        let checks = held + broken + undecided;
        writeln!(
            f,
            "checks              {held} of {checks} hold, {broken} are broken, {undecided} had too little to judge by"
        )?;
        for (name, violations) in &self.broken {
            writeln!(f, "  BROKEN: {name} ({violations} violations)")?;
        }
        for (name, reason) in &self.undecided {
            writeln!(f, "  TOO LITTLE TO JUDGE BY: {name} ({reason})")?;
        }
        Ok(())
    }
}

fn listed<N: fmt::Display, V: fmt::Display>(of: &BTreeMap<N, V>) -> String {
    let each: Vec<String> = of.iter().map(|(name, value)| format!("{name} {value}")).collect();
    each.join(", ")
}
