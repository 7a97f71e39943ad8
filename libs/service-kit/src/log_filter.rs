use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

/// Crates of this workspace in the targets of log events. `tidings` also covers the programs (`tidings_gateway` and so on). An architecture
/// test compares this list with the workspace.
pub const OWN: [&str; 25] = [
    "console",
    "credentials",
    "dispatcher",
    "domain",
    "email",
    "event_log",
    "fairness",
    "gateway",
    "handbook",
    "inbox",
    "local_servers",
    "mobile_push",
    "operations",
    "planning",
    "sabotage",
    "service_kit",
    "sms",
    "stand_ins",
    "store",
    "testkit",
    "tidings",
    "web",
    "web_push",
    "webhooks",
    "worker",
];

/// Dependencies whose names begin with a name in [`OWN`]. Targets are compared by prefix, so they need their own level.
pub const NAMESAKES: [&str; 6] =
    ["email_address", "email_encoding", "web_sys", "web_time", "webpki_root_certs", "webpki_roots"];

/// For dependencies that `log.level` does not name. At more verbose levels, libraries print messages, credentials and bodies that they send
/// and receive.
const FOREIGN: LevelFilter = LevelFilter::INFO;

/// Parses `log.level`: levels and `target=level` directives, separated by commas. A level without a target applies to the [`OWN`] crates,
/// and to dependencies up to `info`.
pub fn parse(text: &str) -> Result<Targets, ParseError> {
    let (levels, named): (Vec<&str>, Vec<&str>) =
        text.split(',').map(str::trim).partition(|directive| level(directive).is_some());
    let bare = levels.last().and_then(|directive| level(directive));
    let mut targets = Targets::new();
    if let Some(bare) = bare {
        let foreign = bare.min(FOREIGN);
        targets = targets
            .with_default(foreign)
            .with_targets(OWN.map(|own| (own, bare)))
            .with_targets(NAMESAKES.map(|namesake| (namesake, foreign)));
    }
    // A later directive for the same target replaces the earlier one.
    let named: Targets = named.join(",").parse()?;
    Ok(targets.with_targets(named))
}

/// None for a directive with a target. The library would read any other directive without `=` as the name of a crate, and an empty one as
/// `error`.
fn level(directive: &str) -> Option<LevelFilter> {
    if directive.is_empty() { None } else { directive.parse().ok() }
}

/// Filters by span or field are refused, because they would raise the level of every dependency that is called in such a span.
pub(crate) fn is_usable(text: &str) -> bool {
    let is_directive = |directive: &str| {
        !directive.contains('[') && directive.split_once('=').is_some_and(|(target, _)| !target.is_empty())
    };
    text.split(',').map(str::trim).all(|directive| level(directive).is_some() || is_directive(directive))
        && parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_bare_level_is_for_own_crates_and_dependencies_stay_at_info() {
        let targets = parse("trace").unwrap();
        for own in ["gateway::sends", "event_log", "tidings_gateway", "worker::job"] {
            assert!(targets.would_enable(own, &Level::TRACE), "{own}");
        }
        for foreign in ["async_nats::connector", "sqlx::query", "hyper::proto", "email_encoding::body"] {
            assert!(targets.would_enable(foreign, &Level::INFO), "{foreign}");
            assert!(!targets.would_enable(foreign, &Level::DEBUG), "{foreign}");
        }
    }

    #[test]
    fn a_bare_level_above_info_applies_to_all_crates() {
        let targets = parse("error").unwrap();
        assert!(!targets.would_enable("async_nats", &Level::WARN));
        assert!(!targets.would_enable("store::deliveries::ledger", &Level::WARN));
    }

    #[test]
    fn a_named_target_has_its_own_level_at_any_position() {
        for text in ["debug,sqlx=trace,store=warn", "sqlx=trace, store=warn, debug"] {
            let targets = parse(text).unwrap();
            assert!(targets.would_enable("sqlx::query", &Level::TRACE), "{text}");
            assert!(!targets.would_enable("store::deliveries::ledger", &Level::INFO), "{text}");
            assert!(targets.would_enable("gateway", &Level::DEBUG), "{text}");
            assert!(!targets.would_enable("async_nats", &Level::DEBUG), "{text}");
        }
    }

    #[test]
    fn filters_by_span_are_refused_because_they_would_raise_dependencies() {
        for text in ["", "loud", "info,[request]=debug", "info,=debug", "sqlx=loud", "info,,debug"] {
            assert!(!is_usable(text), "{text:?}");
        }
        assert!(is_usable("info,sqlx=warn"));
    }
}
