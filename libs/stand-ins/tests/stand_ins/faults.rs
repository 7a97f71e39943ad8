use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use stand_ins::faults::{Fault, Faults, Shares};
use stand_ins::http::{Answers, Reaction, Rule, Script, status};
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{self, SmtpSettings, SmtpStandIn};

use crate::stand_ins::{codes, talk};

const SHARES: Shares = Shares {
    temporary: 0.05,
    busy: 0.02,
    gone: 0.01,
    cut_before: 0.03,
    cut_after: 0.04,
    refused: 0.02,
    pause: 0.03,
    stall: 0.02,
};
const NEVER: Shares = Shares::NONE;

/// Returns the faults of two calls for each of 10,000 targets.
fn fate(seed: u64) -> Vec<Option<Fault>> {
    let faults = Faults::new(seed, SHARES);
    (0..20_000).map(|call| faults.next(&format!("target {}", call % 10_000))).collect()
}

#[test]
fn the_seed_determines_all_faults_and_the_shares_are_met() {
    assert_eq!(fate(1), fate(1));
    assert_ne!(fate(1), fate(2));
    let mut numbers: BTreeMap<Option<Fault>, usize> = BTreeMap::new();
    for fault in fate(1) {
        *numbers.entry(fault).or_default() += 1;
    }
    let about = |fault, share: f64| {
        let expected = 20_000.0 * share;
        let number = f64::from(u32::try_from(numbers[&Some(fault)]).unwrap());
        assert!((number - expected).abs() < expected / 4.0, "{fault:?}: {number} of {expected}");
    };
    about(Fault::Temporary, SHARES.temporary);
    about(Fault::Busy, SHARES.busy);
    about(Fault::Gone, SHARES.gone);
    about(Fault::CutBefore, SHARES.cut_before);
    about(Fault::CutAfter, SHARES.cut_after);
    about(Fault::Refused, SHARES.refused);
    about(Fault::Pause, SHARES.pause);
    about(Fault::Stall, SHARES.stall);
}

#[test]
fn scheduled_faults_occur_in_turn_for_any_seed_and_are_listed() {
    let list = tempfile::NamedTempFile::new().unwrap();
    for seed in 0..7 {
        let file = Arc::new(list.reopen().unwrap());
        file.set_len(0).unwrap();
        let faults =
            Faults::new(seed, NEVER).with_scheduled_faults(NonZeroUsize::new(10).unwrap()).listed(file);
        let failed: Vec<Fault> = (0..70).filter_map(|call| faults.next(&format!("target {call}"))).collect();
        assert_eq!(failed.iter().collect::<BTreeSet<_>>().len(), 7, "{failed:?}");
        let listed = std::fs::read_to_string(list.path()).unwrap();
        assert_eq!(listed, failed.iter().map(|fault| format!("{fault:?}\n")).collect::<String>());
    }
}

#[test]
fn dead_targets_are_also_dead_under_their_aliases() {
    let everybody_gone = Shares { gone: 0.5, ..NEVER };
    let (faults, other) = (Faults::new(7, everybody_gone), Faults::new(7, everybody_gone));
    for number in 0..100 {
        let (name, alias) = (format!("person {number}"), format!("https://example.com/{}", number * 31));
        other.name(&alias, &name);
        let fault = faults.next(&name);
        assert_eq!([faults.next(&name), other.next(&alias), other.next(&alias)], [fault; 3]);
    }
    assert_eq!((faults.calls().len(), other.calls().len()), (200, 200));
}

#[test]
fn an_http_script_applies_explicit_rules_before_random_faults() {
    let faults = Arc::new(Faults::new(1, SHARES));
    let script = Script::default();
    script.add(Rule::by_chance(
        faults.clone(),
        Answers {
            temporary: status(503),
            busy: status(429),
            gone: status(410),
            down: status(502),
            refused: status(400),
            pause: status(403),
        },
    ));
    for call in 0..1_000 {
        let reaction = script.take(&format!("target {call}"));
        let reply = match &reaction {
            Some(Reaction::Answer(answer)) => Some(answer.status().as_u16()),
            _ => None,
        };
        let (expected, cut) = match faults.calls()[call].fault {
            Some(Fault::Temporary) => (Some(503), false),
            Some(Fault::Busy) => (Some(429), false),
            Some(Fault::Gone) => (Some(410), false),
            Some(Fault::CutBefore) => (None, matches!(reaction, Some(Reaction::CutBefore))),
            Some(Fault::CutAfter) => (None, matches!(reaction, Some(Reaction::CutAfter))),
            Some(Fault::Refused) => (Some(400), false),
            Some(Fault::Pause) => (Some(403), false),
            Some(Fault::Stall) => (None, matches!(reaction, Some(Reaction::Stall))),
            Some(Fault::Down) => panic!("the provider is not down"),
            None => (None, reaction.is_none()),
        };
        assert_eq!((reply, reply.is_none()), (expected, cut), "{:?}", faults.calls()[call]);
    }
    faults.set_down(true);
    assert!(matches!(script.take("x"), Some(Reaction::Answer(answer)) if answer.status() == 502));
    faults.rest(true);
    assert!(script.take("x").is_none());
    assert_eq!(script.left(), 1);
}

#[tokio::test]
async fn an_smtp_server_applies_random_faults() {
    let mail = "MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.com>\r\nDATA\r\n";
    let text = format!("EHLO c\r\n{mail}Message-ID: <1@example.com>\r\n\r\n.\r\nQUIT\r\n");
    for (shares, heard, taken) in [
        (Shares { temporary: 1.0, ..NEVER }, &["220", "250", "250", "450"][..], 0),
        (Shares { busy: 1.0, ..NEVER }, &["220", "250", "250", "452"], 0),
        (Shares { gone: 1.0, ..NEVER }, &["220", "250", "250", "550"], 0),
        (Shares { refused: 1.0, ..NEVER }, &["220", "250", "250", "554"], 0),
        (Shares { pause: 1.0, ..NEVER }, &["220", "250", "250", "535"], 0),
        (Shares { cut_before: 1.0, ..NEVER }, &[], 0),
        (Shares { cut_after: 1.0, ..NEVER }, &[], 1),
        (NEVER, &["220", "250", "250", "250", "354", "250"], 1),
    ] {
        let faults = Arc::new(Faults::new(1, shares));
        let server = SmtpStandIn::start(SmtpSettings::default(), Outbox::in_memory()).await.unwrap();
        server.script(smtp::Rule::by_chance(faults.clone()));
        let reply = talk(server.address(), &text).await;
        assert!(codes(&reply).starts_with(heard), "{shares:?}: {reply}");
        assert_eq!(server.outbox().captures().len(), taken, "{shares:?}");
        assert_eq!(faults.calls().len(), 1, "{shares:?}");
        faults.set_down(true);
        assert_eq!(codes(&talk(server.address(), &text).await), ["421"]);
        assert_eq!(faults.rejected_callers(), 1);
    }
}
