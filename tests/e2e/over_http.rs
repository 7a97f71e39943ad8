//! Commands through a console: the same output and exit codes as on the database.

mod cases;
mod fill;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};

use domain::Timestamp;
use local_servers::port;
use serde_json::Value;
use testkit::{Servers, Service};
use uuid::Uuid;

use self::cases::{CHANGES, Case, NEVER_0, NOT_COMPARED, READS};
use crate::directory::{Answer, Directory};

/// Path below which the console is served.
const BASE: &str = "/ops/console";
/// Beginnings of texts that are random.
const RANDOM: [&str; 5] = ["tdga_", "ak_", "as_", "key_", "whsec_"];

/// Texts before and after names and ids.
const PLACES: [(&str, &str); 8] = [
    ("\"", "\""),
    ("\"id\":", ","),
    ("with id ", ""),
    ("app ", ""),
    ("endpoint ", ""),
    ("Endpoint ", " "),
    ("send ", ""),
    ("edrive ", " "),
];

/// Way of a command: on the database, or through the console.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Database,
    Console,
}

/// An installation with a console that is a process of its own, and two apps with equal data. Commands on the database change `twin-a`, and
/// those through the console `twin-b`.
struct Twins {
    pub(super) url: String,
    pub(super) token: String,
    directory: Directory,
    environment: Vec<(String, String)>,
    /// Values that commands name, by way.
    values: [BTreeMap<String, String>; 2],
    _console: Service,
    _servers: Servers,
}

impl Twins {
    async fn start() -> Twins {
        let servers = Servers::start().await;
        servers.prepare(&servers.config()).await;
        let (url, mut environment) = (format!("127.0.0.1:{}", port::free().unwrap()), servers.environment());
        let more = [
            ("TIDINGS_STREAMS__PARTITIONS", "1"),
            ("TIDINGS_CONSOLE__LISTEN", &url),
            ("TIDINGS_CONSOLE__BASE_PATH", BASE),
            ("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true"),
        ];
        environment.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let named: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        let console = Service::start("tidings", &["run", "console"], &named).unwrap();
        let values = ["a", "b"].map(|letter| {
            let values = [("twin", format!("twin-{letter}")), ("letter", letter.to_owned())];
            BTreeMap::from(values.map(|(name, value)| (name.to_owned(), value)))
        });
        let mut twins = Twins {
            url: format!("http://{url}{BASE}"),
            token: String::new(),
            directory: Directory::new(),
            environment,
            values,
            _console: console,
            _servers: servers,
        };
        twins.fill().await;
        twins
    }

    fn run(&self, way: Way, arguments: &[String], input: &str) -> Answer {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match way {
            Way::Database => {
                let named: Vec<(&str, &str)> =
                    self.environment.iter().map(|(name, value)| (&**name, &**value)).collect();
                self.directory.run_with(&arguments, &named, input)
            }
            Way::Console => self.call(&arguments, &[("TIDINGS_TOKEN", &self.token)], input),
        }
    }

    /// Runs a command through the console, without a configuration.
    fn call(&self, arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Answer {
        let url = [("TIDINGS_URL", self.url.as_str())];
        self.directory.run_with(arguments, &[&url, variables].concat(), input)
    }

    /// Runs a command both ways, and compares the exit code, the output and the errors. Returns the differences.
    fn compare(&mut self, case: &Case, json: bool) -> Option<String> {
        let run = |way: Way| {
            let values = self.values[usize::from(way == Way::Console)].iter();
            let named = |text: &str| {
                let fill = |text: String, (name, value): (&String, &String)| {
                    text.replace(&format!("{{{name}}}"), value)
                };
                values.clone().fold(text.to_owned(), fill)
            };
            let mut arguments: Vec<String> = case.arguments.iter().map(|argument| named(argument)).collect();
            arguments.extend(json.then(|| "--json".to_owned()));
            self.run(way, &arguments, &named(case.input))
        };
        let answers = std::thread::scope(|scope| {
            let other = scope.spawn(|| run(Way::Console));
            [run(Way::Database), other.join().unwrap()]
        });
        for (values, answer) in self.values.iter_mut().zip(&answers) {
            remember(values, &answer.output);
        }
        let [own, other] = answers.each_ref().map(|answer| {
            (answer.code, self.comparable(&answer.output, case), self.comparable(&answer.errors, case))
        });
        let is_expected = own == other && own.0 == case.code;
        (!is_expected).then(|| {
            format!("{:?} json={json}, expected {}\n  {own:?}\n  {other:?}\n", case.arguments, case.code)
        })
    }

    /// Returns a text without what differs between two runs: times, random texts, and the names and ids of the twins.
    fn comparable(&self, text: &str, case: &Case) -> String {
        let [own, other] = &self.values;
        let mut text = text.to_owned();
        for name in ["twin", "app", "id", "number", "kid", "secret", "request"] {
            let (Some(own), Some(other)) = (own.get(name), other.get(name)) else { continue };
            for (before, after) in PLACES {
                let [own, other] = [own, other].map(|value| format!("{before}{value}{after}"));
                text = text.replace(&other, &own);
            }
        }
        let text = text.replace("twin-b", "twin-a").replace("-b@", "-a@").replace("tok-b", "tok-a");
        let text = without_keys(&text);
        let is_part = |letter: char| letter.is_alphanumeric() || "_-:.+/=".contains(letter);
        let mut shown = String::new();
        for piece in text.split_inclusive(|letter| !is_part(letter)) {
            let word = piece.trim_end_matches(|letter| !is_part(letter));
            shown += &masked(word, case.numbers_differ);
            shown += &piece[word.len()..];
        }
        shown
    }
}

fn masked(word: &str, numbers_differ: bool) -> String {
    if Timestamp::parse(word.trim_end_matches('.')).is_some() {
        return "TIME".to_owned();
    }
    if word.starts_with("cli:") || word == "token:admin" {
        return "ACTOR".to_owned();
    }
    if word.parse::<Uuid>().is_ok() {
        return "UUID".to_owned();
    }
    if numbers_differ && word.parse::<f64>().is_ok() {
        return "NUMBER".to_owned();
    }
    if let Some(start) = RANDOM.iter().find(|start| word.starts_with(**start)) {
        return (*start).to_owned();
    }
    match word.split_once("code=") {
        Some((before, _)) => format!("{before}code="),
        None => word.to_owned(),
    }
}

/// Returns a text without keys in PEM.
fn without_keys(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("-----BEGIN") {
        shown += before;
        rest = after.split_once("-----END").map_or("", |(_, rest)| rest);
    }
    shown + rest
}

/// Keeps the texts and numbers of a JSON object for later commands.
fn remember(values: &mut BTreeMap<String, String>, output: &str) {
    let Ok(Value::Object(members)) = serde_json::from_str(output) else { return };
    for (name, value) in members {
        match value {
            Value::String(text) if ["kid", "id", "secret"].contains(&&*name) => {
                values.insert(name, text);
            }
            Value::Number(number) if name == "id" => {
                values.insert("number".to_owned(), number.to_string());
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn commands_that_read_have_the_same_output_through_a_console() {
    let mut twins = Twins::start().await;
    let mut differences = Vec::new();
    for case in READS {
        differences.extend(twins.compare(case, false));
        if case.code != 2 {
            differences.extend(twins.compare(case, true));
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

#[tokio::test]
async fn commands_that_change_have_the_same_output_through_a_console() {
    let mut twins = Twins::start().await;
    let differences: String = CHANGES.iter().filter_map(|case| twins.compare(case, false)).collect();
    assert!(differences.is_empty(), "{differences}");
}

/// Returns the commands of the table of faces that have a call.
fn with_call() -> BTreeSet<String> {
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../services/tidings/src/faces.rs");
    let table = std::fs::read_to_string(table).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("    (Permission::"));
    let commands = rows.filter_map(|row| {
        // Texts have odd places. The first is the use case.
        let [.., command, call] = &cells(row)[..4] else { panic!("{row}") };
        let is_name = |cell: &str| cell.starts_with('"') && !cell.starts_with("\"-");
        (is_name(command) && is_name(call)).then(|| command.trim_matches('"').to_owned())
    });
    commands.collect()
}

/// Divides a row of the table at the commas outside of texts.
fn cells(row: &str) -> Vec<String> {
    let (mut cells, mut is_text) = (vec![String::new()], false);
    for letter in row.chars() {
        is_text ^= letter == '"';
        match cells.last_mut() {
            Some(_) if letter == ',' && !is_text => cells.push(String::new()),
            Some(cell) => cell.push(letter),
            None => {}
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn every_command_with_a_call_is_compared_or_states_why_not() {
    let commands = with_call();
    assert!(commands.len() > 50, "{commands:?}");
    let is_case = |command: &str, case: &Case| {
        let words: Vec<&str> = command.split(' ').collect();
        case.arguments.starts_with(&words)
    };
    for command in &commands {
        let cases = READS.iter().chain(CHANGES).filter(|case| is_case(command, case));
        let codes: BTreeSet<i32> = cases.map(|case| case.code).collect();
        let is_in = |list: &[(&str, &str)]| list.iter().any(|(known, _)| known == command);
        let is_compared = codes.contains(&0) || (!codes.is_empty() && is_in(NEVER_0));
        assert!(
            is_compared || is_in(NOT_COMPARED),
            "compare `tidings {command}` both ways, or state why not"
        );
    }
    for (command, reason) in NOT_COMPARED.iter().chain(NEVER_0) {
        assert!(commands.contains(*command) && reason.len() > 8, "{command}: {reason}");
    }
}
