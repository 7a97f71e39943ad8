use std::fmt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;

use crate::steps;

/// A check of a night.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Clippy on the program with the features of the production image
    ImageLints,
    /// The steps of docs/adding-a-channel.md, compiled and tested
    Channel,
    /// 20,000 deliveries to providers that misbehave
    Faults,
    /// Every statement on tables of a million rows
    Plans,
    /// 100,000 random requests to the API
    Fuzz,
    /// 200,000 notifications and 2,300 kills
    Crash,
    /// The migration of a million deliveries
    Upgrade,
    /// The programs of the last release beside those of this checkout
    Beside,
    /// Ten times the load that is accepted, in an optimised build
    Overload,
    /// An hour at 300 sends a second while a transaction stays open, in an optimised build
    Pinned,
    /// Generated requests to every operation of the OpenAPI document; needs a Python package index
    Schemathesis,
    /// Packages, compose, pods and a NATS cluster; needs root
    Deploy,
    /// The Dockerfile, compiled; needs root
    Image,
}

/// Run the checks that are too slow for `.ci/run`, and print how long each took.
///
/// `.ci/run` has a short form of each of these checks, except of those that need root or a package index. Run this command before
/// each release. A step that fails does not end the run. The table at the end lists every step with its result and its seconds.
///
/// Exit codes: 0 all steps passed; 1 a step failed; 2 the run could not start. A step that could not run is not a failure; the table
/// gives the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask nightly                       every step; takes several hours on two cores
  cargo xtask nightly faults plans          two of them
  cargo xtask nightly beside --last v0.5.0  the programs of this tag beside those of this checkout")]
pub(crate) struct Arguments {
    /// Steps to run, in their usual order [default: all]
    #[arg(value_enum)]
    steps: Vec<Step>,
    /// Last release, for the step `beside` [default: the newest tag before this commit].
    #[arg(long, value_name = "REVISION")]
    last: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    NotRun(&'static str),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => f.write_str("passed"),
            Outcome::Failed => f.write_str("FAILED"),
            Outcome::NotRun(reason) => write!(f, "not run: {reason}"),
        }
    }
}

struct Row {
    name: String,
    outcome: Outcome,
    took: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let last = arguments.last.clone().or_else(last_tag);
    let mut rows = Vec::new();
    for &step in Step::value_variants() {
        if !arguments.steps.is_empty() && !arguments.steps.contains(&step) {
            continue;
        }
        let name = step.to_possible_value().map_or_else(String::new, |step| step.get_name().to_owned());
        steps::say(&format!("nightly: {name}"));
        let started = Instant::now();
        let outcome = match command(step, last.as_deref())? {
            None => Outcome::NotRun("no release has a tag; name it with --last"),
            Some(mut command) => {
                let status = command.status().with_context(|| format!("cannot start {name}"))?;
                if status.success() { Outcome::Passed } else { Outcome::Failed }
            }
        };
        rows.push(Row { name, outcome, took: started.elapsed() });
    }
    print!("{}", table(&rows));
    let failed = rows.iter().any(|row| row.outcome == Outcome::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns None if the step needs a last release and there is none.
fn command(step: Step, last: Option<&str>) -> anyhow::Result<Option<Command>> {
    // Runs another command of xtask with this program, so that it is not built again.
    let program = std::env::current_exe().context("cannot find this program")?;
    let xtask = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(crate::workspace()).args(arguments);
        command
    };
    let with = |mut command: Command, name: &str, value: &str| {
        command.env(name, value);
        command
    };
    Ok(Some(match step {
        Step::ImageLints => {
            let mut clippy = steps::cargo();
            clippy.args(["clippy", "--package", "tidings", "--no-default-features", "--locked"]);
            clippy.args(["--", "-D", "warnings"]);
            clippy
        }
        Step::Channel => xtask(&["test", "--test", "adding_a_channel", "--", "--include-ignored"]),
        Step::Faults => with(xtask(&["test", "--test", "faults"]), FAULTS, "20000"),
        Step::Plans => with(xtask(&["test", "--test", "store", "plans::"]), PLAN_ROWS, "1000000"),
        Step::Fuzz => with(xtask(&["test", "--test", "api", "fuzz"]), FUZZ, "100000"),
        Step::Crash => xtask(&["crash", "--long"]),
        Step::Upgrade => xtask(&["upgrade", "--deliveries", "1000000"]),
        Step::Beside => {
            let Some(last) = last else { return Ok(None) };
            xtask(&["upgrade", "--beside", last])
        }
        Step::Overload => xtask(&["overload"]),
        Step::Pinned => xtask(&["bench", "pinned", "--minutes", "60", "--per-second", "300"]),
        Step::Schemathesis => {
            let mut schemathesis = Command::new("tests/schemathesis/run");
            schemathesis.current_dir(crate::workspace());
            schemathesis
        }
        Step::Deploy => xtask(&["deploy-test"]),
        Step::Image => xtask(&["deploy-test", "image"]),
    }))
}

/// Environment variables that select the long forms.
const FAULTS: &str = "TIDINGS_TEST_FAULTS_DELIVERIES";
const PLAN_ROWS: &str = "TIDINGS_TEST_PLAN_ROWS";
const FUZZ: &str = "TIDINGS_FUZZ_REQUESTS";

fn last_tag() -> Option<String> {
    let mut git = Command::new("git");
    git.current_dir(crate::workspace()).args(["describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"]);
    steps::output(&mut git).ok()
}

fn table(rows: &[Row]) -> String {
    let mut table = format!("{:<14} {:>8}  result\n", "step", "seconds");
    for Row { name, outcome, took } in rows {
        table += &format!("{name:<14} {:>8}  {outcome}\n", took.as_secs());
    }
    let total: Duration = rows.iter().map(|row| row.took).sum();
    table + &format!("{:<14} {:>8}\n", "total", total.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::ValueEnum;

    use super::{FAULTS, FUZZ, Outcome, PLAN_ROWS, Row, Step, command, table};

    #[test]
    fn the_long_forms_exist() {
        let sources = [
            (FAULTS, include_str!("../../tests/faults/main.rs")),
            (PLAN_ROWS, include_str!("../../libs/store/tests/store/plans.rs")),
            (FUZZ, include_str!("../../tests/api/http/fuzz.rs")),
        ];
        for (variable, source) in sources {
            assert!(source.contains(&format!("\"{variable}\"")), "{variable}");
        }
    }

    #[test]
    fn the_page_of_releases_names_every_step() {
        let page = include_str!("../../docs/releasing.md");
        for step in Step::value_variants() {
            let name = step.to_possible_value().unwrap();
            assert!(page.contains(&format!("| `{}` |", name.get_name())), "{}", name.get_name());
        }
    }

    #[test]
    fn only_the_step_beside_needs_a_last_release() {
        for &step in Step::value_variants() {
            assert_eq!(command(step, None).unwrap().is_none(), step == Step::Beside, "{step:?}");
        }
    }

    #[test]
    fn the_table_has_every_step_and_the_total() {
        let row = |name: &str, outcome, seconds| Row {
            name: name.to_owned(),
            outcome,
            took: Duration::from_secs(seconds),
        };
        let rows = [
            row("faults", Outcome::Passed, 230),
            row("plans", Outcome::Failed, 130),
            row("beside", Outcome::NotRun("no tag"), 0),
        ];
        let expected = "\
step            seconds  result
faults              230  passed
plans               130  FAILED
beside                0  not run: no tag
total               360
";
        assert_eq!(table(&rows), expected);
    }
}
