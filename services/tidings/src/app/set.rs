//! `tidings app set`: the switches of an app.

use std::mem::discriminant;
use std::num::NonZeroU32;

use anyhow::{Context, ensure};
use domain::Problem;
use store::control::switch::Switch;
use url::Url;

use crate::app::as_json;
use crate::control_plane::{Installation, actor};
use crate::refused::InvalidInput;

const HELP: &str = "Switches:
  secure-mode=on|off         API calls by users need a bearer token, signed with a key of `tidings app signing-key`
  hmac=on|off                API calls by users without a token need a signature of the user id (deprecated); after
                             turning it on, run `tidings app rotate-secret` to create the secret that signs
  require-exp=on|off         bearer tokens must expire
  token-subject=prefixed|bare|either
                             form of the claim sub that names the user: user:ada, ada, or either
  address-keys=open|guarded  guarded: a caller with only the public API key can neither read nor write the targets of
                             messages: email, phoneNumber, phone, fcm, apns, and web-push subscriptions; only the call
                             that creates a user may register a push token, and gets a device secret to replace it with
  template-profile=all|app   the part of a profile that templates see: every key, or only recipient.app, which only the
                             app's backend writes
  cors-origins=any|none|https://a.example,https://b.example
                             the web pages that may call the API for users; calls from other pages are refused
                             with 403. This does not stop programs other than browsers; use secure-mode for that
  rate-limit=N|default       requests per second of the app's backend; also the limit of all its users together
  transactional-rate=N|default
                             sends per second outside of the bulk lane
  max-users=N|default        users that may be created by API calls of users; 1000000 by default
  max-categories=N|default   categories; 1000 by default
  max-devices=N|default      devices of all users together; 2000000 by default
  max-topics=N|default       topics; 10000 by default
  max-subscriptions=N|default
                             subscriptions to all topics together; 10000000 by default
  max-send-megabytes=N|default
                             megabytes of accepted sends within 24 hours, without files; 10000 by default, and never
                             more than a quarter of the event log
  max-file-megabytes=N|default
                             megabytes of the files of sends within 24 hours; 10000 by default
  realtime-connections=N|default
                             live connections at each gateway; by default the share that the gateway gives each app
  keep-sends=DAYS|default    days for which sends and their deliveries are kept, if that is shorter than [sends] keep;
                             in any case a day longer than [streams] retention and [delivery] receipt_wait
  disabled=on|off            all calls are refused

Examples:
  tidings app set shop secure-mode=on require-exp=on
  tidings app set shop cors-origins=https://shop.example rate-limit=500
  tidings app set shop disabled=off --json";

const NAMES: &str = "secure-mode, hmac, require-exp, token-subject, address-keys, template-profile, cors-origins, \
    rate-limit, transactional-rate, max-users, max-categories, max-devices, max-topics, max-subscriptions, \
    max-send-megabytes, max-file-megabytes, realtime-connections, keep-sends and disabled";
/// Maximum value of a quota.
const HIGHEST_QUOTA: u32 = 1_000_000_000;
const QUOTAS: &str = "default, or a whole number from 1 to 1000000000";
/// Maximum number of days for which sends are kept.
const MOST_DAYS: u32 = 3_650;
const DAYS: &str = "default, or a whole number of days from 1 to 3650";
/// Maximum value of a rate, per second.
const HIGHEST_RATE: u32 = 1_000_000;
const RATES: &str = "default, or a whole number from 1 to 1000000";
const MOST_ORIGINS: usize = 100;

/// Set switches of an app. If one of them is invalid, none is set. Switches take effect in the services within five
/// seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    /// Switches to set
    #[arg(required = true, value_name = "SWITCH=VALUE")]
    switches: Vec<String>,
    /// Print the app as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let switches = parse(&arguments.switches)?;
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let deleted = "the app has just been deleted";
    ensure!(control_plane.store.control().set_switches(app.id, &switches, &actor()).await?, deleted);
    let app = control_plane.store.control().app_by_key(&app.api_key).await?.context(deleted)?;
    if arguments.json {
        return Ok(format!("{}\n", as_json(&app)));
    }
    let lines: String = switches.iter().map(|switch| format!("  {switch}\n")).collect();
    let unsigned = app.hmac && app.secrets.iter().all(|secret| secret.sealed.is_empty());
    let note = if unsigned {
        "The app's valid secrets were created while hmac was off and cannot verify signatures. Create a new secret with \
         `tidings app rotate-secret`, and sign with it.\n"
    } else {
        ""
    };
    Ok(format!("Set for app {} with id {}:\n{lines}{note}", app.name, app.id))
}

/// Parses all switches, or returns all problems.
fn parse(texts: &[String]) -> Result<Vec<Switch>, InvalidInput> {
    let mut problems = Vec::new();
    let mut switches: Vec<Switch> = Vec::new();
    for text in texts {
        let Some(switch) = parse_one(text, &mut problems) else { continue };
        if switches.iter().any(|earlier| discriminant(earlier) == discriminant(&switch)) {
            let name = text.split('=').next().unwrap_or_default();
            problems.push(Problem::new(name, "repeated", format!("{name} must be given only once")));
        }
        switches.push(switch);
    }
    if problems.is_empty() {
        Ok(switches)
    } else {
        Err(InvalidInput::document("the command line", &problems))
    }
}

fn parse_one(text: &str, problems: &mut Vec<Problem>) -> Option<Switch> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let on = match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    let (switch, values) = match name {
        "secure-mode" => (on.map(Switch::SecureMode), "on or off"),
        "hmac" => (on.map(Switch::Hmac), "on or off"),
        "require-exp" => (on.map(Switch::RequireExp), "on or off"),
        "disabled" => (on.map(Switch::Disabled), "on or off"),
        "address-keys" => (address_keys(value), "open or guarded"),
        "token-subject" => (value.parse().ok().map(Switch::TokenSubject), "prefixed, bare or either"),
        "template-profile" => (value.parse().ok().map(Switch::TemplateProfile), "all or app"),
        "max-users" => (number(value, HIGHEST_QUOTA).map(Switch::MaxUsers), QUOTAS),
        "max-categories" => (number(value, HIGHEST_QUOTA).map(Switch::MaxCategories), QUOTAS),
        "max-devices" => (number(value, HIGHEST_QUOTA).map(Switch::MaxDevices), QUOTAS),
        "max-topics" => (number(value, HIGHEST_QUOTA).map(Switch::MaxTopics), QUOTAS),
        "max-subscriptions" => (number(value, HIGHEST_QUOTA).map(Switch::MaxSubscriptions), QUOTAS),
        "max-send-megabytes" => (number(value, HIGHEST_QUOTA).map(Switch::MaxSendMegabytes), QUOTAS),
        "max-file-megabytes" => (number(value, HIGHEST_QUOTA).map(Switch::MaxFileMegabytes), QUOTAS),
        "realtime-connections" => (number(value, HIGHEST_QUOTA).map(Switch::RealtimeConnections), QUOTAS),
        "keep-sends" => (number(value, MOST_DAYS).map(Switch::KeepSends), DAYS),
        "rate-limit" => (rate(value).map(Switch::RateLimit), RATES),
        "transactional-rate" => (rate(value).map(Switch::TransactionalRate), RATES),
        "cors-origins" => return cors_origins(value, problems),
        _ => {
            let message = format!("{name:?} is not a switch of an app; the switches are {NAMES}");
            problems.push(Problem::new(name, "unknown_member", message));
            return None;
        }
    };
    if switch.is_none() {
        problems.push(Problem::new(name, "unknown_value", format!("{name} must be {values}")));
    }
    switch
}

fn address_keys(value: &str) -> Option<Switch> {
    match value {
        "open" => Some(Switch::GuardAddresses(false)),
        "guarded" => Some(Switch::GuardAddresses(true)),
        _ => None,
    }
}

/// Parses a rate per second. `Some(None)` means the default; None means that the value is invalid.
fn rate(value: &str) -> Option<Option<NonZeroU32>> {
    number(value, HIGHEST_RATE)
}

/// Parses a number from 1 to `most`. `Some(None)` means the default; None means that the value is invalid.
fn number(value: &str, most: u32) -> Option<Option<NonZeroU32>> {
    if value == "default" {
        return Some(None);
    }
    let number: NonZeroU32 = value.parse().ok()?;
    (number.get() <= most).then_some(Some(number))
}

fn cors_origins(value: &str, problems: &mut Vec<Problem>) -> Option<Switch> {
    let origins: Vec<String> = match value {
        "any" => return Some(Switch::CorsOrigins(None)),
        "none" => Vec::new(),
        list => list.split(',').map(str::to_owned).collect(),
    };
    let before = problems.len();
    let wrong = origins.iter().filter(|origin| !is_origin(origin)).map(|origin| {
        let message = format!(
            "cors-origins must be any, none, or a comma-separated list of origins as browsers send them, such as \
             https://shop.example or http://localhost:3000; {origin:?} is not an origin"
        );
        Problem::new("cors-origins", "invalid_origin", message)
    });
    problems.extend(wrong);
    if origins.len() > MOST_ORIGINS {
        let message = format!("cors-origins may list at most {MOST_ORIGINS} origins");
        problems.push(Problem::new("cors-origins", "too_many", message));
    }
    (problems.len() == before).then_some(Switch::CorsOrigins(Some(origins)))
}

/// Returns true for an origin in a browser's canonical spelling (RFC 6454, section 6.2): scheme, host, and a port unless it is
/// the scheme's default. Apps have their own schemes, such as `capacitor://localhost`.
fn is_origin(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let bare = url.username().is_empty() && matches!(url.path(), "" | "/");
    bare && url.has_host() && !text.contains('*') && url.as_str().trim_end_matches('/') == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_those_that_browsers_send() {
        for origin in
            ["https://a.example", "http://localhost:3000", "https://[::1]:8443", "capacitor://localhost"]
        {
            assert!(is_origin(origin), "{origin}");
        }
        for other in [
            "",
            "*",
            "null",
            "a.example",
            "https://",
            "https://a.example/",
            "https://a.example/x",
            "https://A.example",
            "https://a.example:443",
            "https://u@a.example",
            "https://a.example?",
            "https://*.example",
            "mailto:a@b.c",
            " https://a.example",
            "https://a.example#x",
            "file:///x",
        ] {
            assert!(!is_origin(other), "{other}");
        }
    }
}
