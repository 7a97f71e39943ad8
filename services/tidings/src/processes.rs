use domain::Timestamp;
use operations::installation::{Installation, Installations, Waiting, Work};
use serde::{Deserialize, Serialize};
use service_kit::presence::ProcessReport;

use crate::listing::{rows, table};
use crate::options::Options;
use crate::place::Place;
use crate::print::print;
use crate::{DONE, FAILED};

/// List the processes that run, and the work that waits for them.
///
/// Every process that is connected to the log answers within half a second. A service that this installation needs and of which no process
/// answers is listed as missing: each channel with an enabled provider needs its worker, and an enabled webhook endpoint needs `webhooks`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings processes
  tidings processes --json

Exit codes:
  0  every service that is needed answered
  1  a service is missing, or a server cannot be reached")]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
}

/// Processes that run, and the work that waits for them.
#[derive(Serialize, Deserialize)]
struct InstallationRow {
    at: Timestamp,
    processes: Vec<ProcessRow>,
    missing: Vec<String>,
    backlogs: Vec<BacklogRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProcessRow {
    services: Vec<String>,
    host: String,
    version: String,
    started_at: Timestamp,
    instance: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BacklogRow {
    work: String,
    service: String,
    waiting: u64,
    oldest_seconds: f64,
    fill: Option<f64>,
    late: bool,
}

impl From<&Installation> for InstallationRow {
    fn from(installation: &Installation) -> InstallationRow {
        InstallationRow {
            at: installation.at,
            processes: rows(&installation.processes),
            missing: installation.missing.iter().map(|service| (*service).to_owned()).collect(),
            backlogs: rows(&installation.backlogs),
        }
    }
}

impl From<&ProcessReport> for ProcessRow {
    fn from(process: &ProcessReport) -> ProcessRow {
        ProcessRow {
            services: process.services.iter().cloned().collect(),
            host: process.host.clone(),
            version: process.version.clone(),
            started_at: process.started_at,
            instance: process.instance.clone(),
        }
    }
}

impl From<&Waiting> for BacklogRow {
    fn from(waiting: &Waiting) -> BacklogRow {
        BacklogRow {
            work: name(waiting.work),
            service: waiting.work.service().to_owned(),
            waiting: waiting.number,
            oldest_seconds: waiting.oldest.as_secs_f64(),
            fill: waiting.fill,
            late: waiting.is_late(),
        }
    }
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<u8> {
    let installation: InstallationRow = match arguments.options.open().await? {
        Place::Database(database) => {
            let log = arguments.options.place.installation.log().await?;
            (&*Installations::new(database.operations, log).read(&database.caller).await?).into()
        }
        Place::Console(api) => api.get(&[&"processes"]).await?,
    };
    let text = render(&installation);
    let is_whole = installation.missing.is_empty();
    print(&arguments.options.report(&installation, text))?;
    Ok(if is_whole { DONE } else { FAILED })
}

fn render(installation: &InstallationRow) -> String {
    let header = ["SERVICES", "MACHINE", "VERSION", "RUNNING SINCE"];
    let processes = installation.processes.iter().map(|process| {
        let services: Vec<&str> = process.services.iter().map(|service| printable(service)).collect();
        [
            services.join(" "),
            printable(&process.host).to_owned(),
            process.version.clone(),
            process.started_at.to_string(),
        ]
    });
    let missing = installation
        .missing
        .iter()
        .map(|missing| [missing.clone(), "NO ANSWER".to_owned(), "-".to_owned(), "-".to_owned()]);
    let mut text = table(header, processes.chain(missing));
    if !installation.backlogs.is_empty() {
        text.push('\n');
        let header = ["WORK", "WAITING", "OLDEST", "STREAM FULL"];
        text += &table(
            header,
            installation.backlogs.iter().map(|backlog| {
                let fill = backlog.fill.map_or("-".to_owned(), |fill| format!("{:.0} %", fill * 100.0));
                let oldest = format!("{:.0} s", backlog.oldest_seconds.trunc());
                [backlog.work.clone(), backlog.waiting.to_string(), oldest, fill]
            }),
        );
    }
    text
}

/// Returns the text, or `?` if it has control characters: any client of the log can answer a roll call.
fn printable(text: &str) -> &str {
    if text.chars().any(char::is_control) { "?" } else { text }
}

fn name(work: Work) -> String {
    match work {
        Work::Planning => "planning".to_owned(),
        Work::Delivery(channel) => format!("delivery {channel}"),
        Work::Inboxes => "inboxes".to_owned(),
        Work::Outcomes => "outcomes".to_owned(),
        Work::Timers => "timers".to_owned(),
        Work::Webhooks => "webhooks".to_owned(),
    }
}
