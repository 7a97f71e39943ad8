//! Report of a run, as a table and as a line of JSON that can be appended to those of earlier runs.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use domain::Timestamp;
use serde::Serialize;
use service_kit::clock;

use crate::accept::Accepted;
use crate::cells::CellsReport;
use crate::connections::CONNECTIONS;
use crate::deliver::DeliveryReport;
use crate::deliver::mail::{MailReport, show_mail};
use crate::installation::PARTITIONS;
use crate::latency::LatencyReport;
use crate::live::LiveReport;
use crate::machine::processor;
use crate::pinned::PinnedReport;
use crate::plan::PlanReport;
use crate::project::ProjectionReport;
use crate::rates::RateReport;
use crate::series::Series;
use crate::viewers::ViewersReport;

/// Description of the machine, and all results.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    at: Timestamp,
    cores: usize,
    processor: String,
    pub(crate) accept: Vec<Accepted>,
    pub(crate) plan: Vec<PlanReport>,
    pub(crate) project: Vec<ProjectionReport>,
    pub(crate) deliver: Vec<DeliveryReport>,
    pub(crate) mail: Vec<MailReport>,
    pub(crate) webhooks: Vec<DeliveryReport>,
    pub(crate) live: Option<LiveReport>,
    pub(crate) latency: Option<LatencyReport>,
    pub(crate) rates: Vec<RateReport>,
    pub(crate) viewers: Option<ViewersReport>,
    pub(crate) cells: Option<CellsReport>,
    pub(crate) pinned: Option<PinnedReport>,
}

impl Report {
    /// Creates a report without results.
    pub(crate) fn new() -> Report {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        Report {
            at: clock::now(),
            cores,
            processor: processor(),
            accept: Vec::new(),
            plan: Vec::new(),
            project: Vec::new(),
            deliver: Vec::new(),
            mail: Vec::new(),
            webhooks: Vec::new(),
            live: None,
            latency: None,
            rates: Vec::new(),
            viewers: None,
            cells: None,
            pinned: None,
        }
    }

    /// Appends the report to a file, as one line.
    pub(crate) fn append_to(&self, path: &Path) -> std::io::Result<()> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{} · {} cores · {}", self.at, self.cores, self.processor)?;
        writeln!(f, "Medians of the rounds. The load generator and all servers share the machine.")?;
        if !self.accept.is_empty() {
            self.show_accepted(f)?;
        }
        if !self.plan.is_empty() {
            self.show_planned(f)?;
        }
        if !self.project.is_empty() {
            self.show_projected(f)?;
        }
        for (title, reports) in
            [("deliver, one worker", &self.deliver), ("webhooks, one process", &self.webhooks)]
        {
            if !reports.is_empty() {
                show_delivered(f, title, reports)?;
            }
        }
        if !self.mail.is_empty() {
            show_mail(f, &self.mail)?;
        }
        if let Some(live) = &self.live {
            show_live(f, live)?;
        }
        if let Some(latency) = &self.latency {
            show_latency(f, latency)?;
        }
        if !self.rates.is_empty() {
            show_rates(f, &self.rates)?;
        }
        if let Some(viewers) = &self.viewers {
            show_viewers(f, viewers)?;
        }
        if let Some(cells) = &self.cells {
            writeln!(f, "\ncells, one core each, sends to 1 recipient")?;
            writeln!(f, "  {:<42}{:>10.0} recipients/s", "one", cells.alone.median())?;
            let ratio = cells.together.of(&cells.alone);
            writeln!(f, "  {:<42}{:>10.0}, {ratio:.2} of one", "two", cells.together.median())?;
        }
        if let Some(pinned) = &self.pinned {
            show_pinned(f, pinned)?;
        }
        Ok(())
    }
}

impl Report {
    fn show_accepted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = format!("accept, {CONNECTIONS} connections");
        writeln!(
            f,
            "\n{title:<32}{:>10}{:>10}{:>9}{:>9}{:>24}",
            "sends/s", "of bare", "p50 ms", "p99 ms", "µs own/nats/postgres"
        )?;
        for accepted in &self.accept {
            let micros = [&accepted.server_micros, &accepted.nats_micros, &accepted.postgres_micros];
            writeln!(
                f,
                "  {:<30}{:>10.0}{:>10.2}{:>9.1}{:>9.1}{:>24}",
                accepted.name,
                accepted.per_second.median(),
                accepted.per_second.of(&self.accept[0].per_second),
                accepted.p50_millis.median(),
                accepted.p99_millis.median(),
                micros.map(|micros| format!("{:.0}", micros.median())).join("/"),
            )?;
        }
        Ok(())
    }

    fn show_planned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = "plan, one dispatcher";
        writeln!(
            f,
            "\n{title:<32}{:>14}{:>10}{:>10}{:>24}",
            "recipients/s", "of bare", "bare/s", "µs own/nats/postgres"
        )?;
        for planned in &self.plan {
            let micros = [&planned.service_micros, &planned.nats_micros, &planned.postgres_micros];
            writeln!(
                f,
                "  {:<30}{:>14.0}{:>10.2}{:>10.0}{:>24}",
                planned.name,
                planned.per_second.median(),
                planned.per_second.of(&planned.bare_per_second),
                planned.bare_per_second.median(),
                micros.map(|micros| format!("{:.0}", micros.median())).join("/"),
            )?;
        }
        Ok(())
    }

    fn show_projected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = format!("project, {PARTITIONS} partitions");
        writeln!(
            f,
            "\n{title:<32}{:>10}{:>10}{:>10}{:>24}{:>18}",
            "items/s", "of bare", "bare/s", "µs own/nats/postgres", "bare: postgres"
        )?;
        for projected in &self.project {
            let micros = [&projected.service_micros, &projected.nats_micros, &projected.postgres_micros];
            writeln!(
                f,
                "  {:<30}{:>10.0}{:>10.2}{:>10.0}{:>24}{:>18.0}",
                format!("events of {} recipients", projected.recipients),
                projected.per_second.median(),
                projected.per_second.of(&projected.bare_per_second),
                projected.bare_per_second.median(),
                micros.map(|micros| format!("{:.0}", micros.median())).join("/"),
                projected.bare_postgres_micros.median(),
            )?;
        }
        Ok(())
    }
}

fn show_delivered(f: &mut fmt::Formatter<'_>, title: &str, reports: &[DeliveryReport]) -> fmt::Result {
    writeln!(
        f,
        "\n{title:<32}{:>10}{:>10}{:>10}{:>13}{:>12}{:>24}",
        "sent/s", "of bare", "bare/s", "of skeleton", "skeleton/s", "µs own/nats/postgres"
    )?;
    for delivered in reports {
        let micros = [&delivered.service_micros, &delivered.nats_micros, &delivered.postgres_micros];
        writeln!(
            f,
            "  {:<30}{:>10.0}{:>10.2}{:>10.0}{:>13}{:>12}{:>24}",
            delivered.name,
            delivered.per_second.median(),
            delivered.per_second.of(&delivered.bare_per_second),
            delivered.bare_per_second.median(),
            delivered
                .skeleton()
                .map_or_else(String::new, |skeleton| format!("{:.2}", delivered.per_second.of(skeleton))),
            delivered.skeleton().map_or_else(String::new, |skeleton| format!("{:.0}", skeleton.median())),
            micros.map(|micros| format!("{:.0}", micros.median())).join("/"),
        )?;
    }
    Ok(())
}

fn show_latency(f: &mut fmt::Formatter<'_>, latency: &LatencyReport) -> fmt::Result {
    writeln!(f, "\nlatency, at half of {:.0} sends/s", latency.sustained.median())?;
    for (name, p50, p99) in [
        ("from the 202 to the live client", &latency.inbox_p50_millis, &latency.inbox_p99_millis),
        ("from the 202 to the provider", &latency.provider_p50_millis, &latency.provider_p99_millis),
    ] {
        writeln!(f, "  {name:<42}p50 {:.1} ms, p99 {:.1} ms", p50.median(), p99.median())?;
    }
    writeln!(f, "  memory")?;
    for (name, memory) in &latency.memory {
        let [idle, private, most] = [&memory.idle, &memory.private, &memory.most].map(Series::median);
        writeln!(f, "    {name:<40}{idle:.0} MiB idle ({private:.0} private), {most:.0} MiB at most")?;
    }
    Ok(())
}

fn show_rates(f: &mut fmt::Formatter<'_>, rates: &[RateReport]) -> fmt::Result {
    writeln!(
        f,
        "\n{:<18}{:>10}{:>10}{:>16}{:>24}{:>10}{:>10}",
        "sends/s", "live p50", "p99 ms", "provider p99 ms", "µs own/nats/postgres", "commits", "messages"
    )?;
    for rate in rates {
        let micros = [&rate.service_micros, &rate.nats_micros, &rate.postgres_micros];
        writeln!(
            f,
            "  {:<16}{:>10.1}{:>10.1}{:>16.1}{:>24}{:>10.2}{:>10.2}",
            rate.per_second,
            rate.inbox_p50_millis.median(),
            rate.inbox_p99_millis.median(),
            rate.provider_p99_millis.median(),
            micros.map(|micros| format!("{:.0}", micros.median())).join("/"),
            rate.commits.median(),
            rate.messages.median(),
        )?;
    }
    Ok(())
}

fn show_pinned(f: &mut fmt::Formatter<'_>, pinned: &PinnedReport) -> fmt::Result {
    let [rate, of_all, worst, blocks] = pinned.ratios();
    let (before, during) = (&pinned.before, &pinned.during);
    writeln!(f, "\npinned, {} sends/s, of the minutes before the transaction", pinned.per_second)?;
    writeln!(f, "  {:<42}{rate:>10.2}", "rate, slowest minute")?;
    writeln!(f, "  {:<42}{of_all:>10.2} of {:.1} ms", "p99, all sends", before.p99_millis_of_all)?;
    writeln!(f, "  {:<42}{worst:>10.2} of {:.1} ms", "p99, worst minute", before.p99_millis.median())?;
    writeln!(f, "  {:<42}{blocks:>10.2} of {:.0}", "blocks a send, last minute", before.blocks.median())?;
    writeln!(f, "  {:<42}{:>10.0}", "backlog, highest", during.backlog.highest())?;
    writeln!(f, "  {:<42}{:>10.1} s", "drained after", pinned.drained_seconds)
}

fn show_viewers(f: &mut fmt::Formatter<'_>, viewers: &ViewersReport) -> fmt::Result {
    writeln!(f, "\nten viewers of the console, deliveries/s")?;
    for (name, [without, with]) in
        [("at half of the sustained rate", &viewers.half), ("as fast as they are answered", &viewers.most)]
    {
        let ratio = with.of(without);
        writeln!(f, "  {name:<42}{:>10.0}, {ratio:.3} of {:.0} without", with.median(), without.median())?;
    }
    writeln!(f, "  {:<42}{:>10.1} ms", "a page", viewers.page_millis.median())
}

fn show_live(f: &mut fmt::Formatter<'_>, live: &LiveReport) -> fmt::Result {
    writeln!(f, "\nlive, {} connections", live.connections)?;
    let rows = [
        ("KiB per connection", live.kib_per_connection.median()),
        ("  of the bare server", live.bare_kib_per_connection.median()),
        ("  of Socket.IO", live.socket_io_kib_per_connection.median()),
        (
            "  ratio of event streams to the bare server",
            live.kib_per_connection.of(&live.bare_kib_per_connection),
        ),
        ("1,000 changes/s, commit to client: p50 ms", live.p50_millis.median()),
        ("  p99 ms", live.p99_millis.median()),
        ("  p99 ms with the projection", live.published_p99_millis.median()),
        ("  µs of the gateway", live.gateway_micros.median()),
        ("a push to all: ms", live.push_all_millis.median()),
        ("API call without them: p99 ms", live.api_p99_millis.median()),
        ("  beside 1,000 changes/s: p99 ms", live.api_loaded_p99_millis.median()),
    ];
    rows.iter().try_for_each(|(name, value)| writeln!(f, "  {name:<42}{value:>10.2}"))
}
