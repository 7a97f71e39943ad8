use operations::installation::{Installation, Installations, Waiting, Work};
use serde_json::{Value, json};
use service_kit::presence::ProcessReport;

use crate::listing::table;
use crate::options::Options;
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

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<u8> {
    let control_plane = arguments.options.open().await?;
    let log = arguments.options.installation.log().await?;
    let installations = Installations::new(control_plane.operations, log);
    let installation = installations.read(&control_plane.caller).await?;
    print(&arguments.options.report(&as_json(&installation), render(&installation)))?;
    Ok(if installation.missing.is_empty() { DONE } else { FAILED })
}

fn render(installation: &Installation) -> String {
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
        .map(|missing| [(*missing).to_owned(), "NO ANSWER".to_owned(), "-".to_owned(), "-".to_owned()]);
    let mut text = table(header, processes.chain(missing));
    if !installation.backlogs.is_empty() {
        text.push('\n');
        let header = ["WORK", "WAITING", "OLDEST", "STREAM FULL"];
        text += &table(
            header,
            installation.backlogs.iter().map(|waiting| {
                let fill = waiting.fill.map_or("-".to_owned(), |fill| format!("{:.0} %", fill * 100.0));
                [
                    name(waiting.work),
                    waiting.number.to_string(),
                    format!("{} s", waiting.oldest.as_secs()),
                    fill,
                ]
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

fn as_json(installation: &Installation) -> Value {
    let process = |process: &ProcessReport| {
        json!({
            "services": process.services,
            "host": process.host,
            "version": process.version,
            "startedAt": process.started_at,
            "instance": process.instance,
        })
    };
    let waiting = |waiting: &Waiting| {
        json!({
            "work": name(waiting.work),
            "service": waiting.work.service(),
            "waiting": waiting.number,
            "oldestSeconds": waiting.oldest.as_secs_f64(),
            "fill": waiting.fill,
            "late": waiting.is_late(),
        })
    };
    json!({
        "at": installation.at,
        "processes": installation.processes.iter().map(process).collect::<Value>(),
        "missing": installation.missing,
        "backlogs": installation.backlogs.iter().map(waiting).collect::<Value>(),
    })
}
