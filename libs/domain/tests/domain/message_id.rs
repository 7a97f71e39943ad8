//! Message ids of receipts, in the notations that message centres use.

use domain::receipt::{Candidate, IdNotation, ReportedMessage, key};
use proptest::prelude::*;

const ADA: &str = "+4915112345678";
const EVE: &str = "+4915187654321";

fn reported(notation: IdNotation, id: &str, number_ends: &[&str]) -> ReportedMessage {
    let number_ends = number_ends.iter().map(|end| (*end).to_owned()).collect();
    ReportedMessage { provider: "main".to_owned(), id: id.to_owned(), notation, number_ends }
}

/// Chooses among sent messages as the database does: only the messages that one of the keys finds are candidates.
fn chosen<'a>(reported: &ReportedMessage, sent: &[(&'a str, &'a str)]) -> Option<&'a str> {
    let keys = reported.keys();
    let found: Vec<_> = sent
        .iter()
        .filter(|(answered, _)| keys.contains(&key(answered)))
        .map(|(answered, target)| Candidate { answered, target })
        .collect();
    reported.choose(&found).map(|index| found[index].answered)
}

#[test]
fn an_id_is_recognised_in_the_other_notation_of_its_number() {
    let sent = [("33E9517A", ADA), ("870928763", EVE), ("00BBA622", ADA), ("dead-beef", ADA), ("xYz9", ADA)];
    for (id, expected) in [
        ("33E9517A", Some("33E9517A")),
        ("33e9517a", Some("33E9517A")),
        ("0033e9517A", Some("33E9517A")),
        ("870928762", Some("33E9517A")),
        ("0870928762", Some("33E9517A")),
        (" 870928763 ", Some("870928763")),
        ("0870928763", Some("870928763")),
        ("33E9517B", Some("870928763")),
        ("BBA622", Some("00BBA622")),
        ("DEAD-BEEF", Some("dead-beef")),
        ("xYz9", Some("xYz9")),
        ("XYZ9", None),
        ("0xYz9", None),
        ("870928764", None),
        ("", None),
    ] {
        let reported = reported(IdNotation::Auto, id, &["5678", "4321"]);
        assert_eq!(chosen(&reported, &sent), expected, "{id:?}");
    }
}

#[test]
fn an_id_that_could_be_the_id_of_two_messages_is_a_miss() {
    // Message "16" is not recorded yet, and "10" is not its hexadecimal notation, but the id of another message.
    assert_eq!(chosen(&reported(IdNotation::Auto, "16", &[]), &[("10", ADA)]), None);
    assert_eq!(chosen(&reported(IdNotation::Auto, "10", &[]), &[("16", ADA)]), None);
    assert_eq!(chosen(&reported(IdNotation::Auto, "ab", &[]), &[("AB", ADA), ("0ab", EVE)]), None);
    let of_ada = reported(IdNotation::Auto, "0171", &["5678", "4321"]);
    assert_eq!(chosen(&of_ada, &[("AB", ADA), ("171", EVE)]), None);
    // Without a number, an id with digits only could be hexadecimal too. So could an id of the same length.
    assert_eq!(chosen(&reported(IdNotation::Auto, "4096", &[]), &[("fff", ADA), ("1000", ADA)]), None);
    assert_eq!(chosen(&reported(IdNotation::Auto, "981", &["5678"]), &[("3d5", ADA)]), None);
    // One of the two has exactly this text, or the number of the receipt.
    assert_eq!(chosen(&reported(IdNotation::Auto, "AB", &[]), &[("ab", ADA), ("AB", EVE)]), Some("AB"));
    let of_eve = reported(IdNotation::Auto, "ab", &["4321"]);
    assert_eq!(chosen(&of_eve, &[("AB", ADA), ("0ab", EVE)]), Some("0ab"));
    // An id of zeros is no other id.
    assert_eq!(chosen(&reported(IdNotation::Auto, "0", &[]), &[("000", ADA)]), None);
    assert_eq!(chosen(&reported(IdNotation::Auto, "0", &[]), &[("0", ADA)]), Some("0"));
}

#[test]
fn a_receipt_about_another_number_matches_no_message() {
    // The message centre counts from 1, hexadecimal in answers and decimal in receipts: 10 is "a" here and "10" there.
    let sent = [("10", EVE), ("a", ADA)];
    assert_eq!(chosen(&reported(IdNotation::Auto, "10", &["5678", "0006"]), &sent), Some("a"));
    assert_eq!(chosen(&reported(IdNotation::Auto, "10", &["5678"]), &sent[..1]), None);
    assert_eq!(chosen(&reported(IdNotation::Auto, "a", &["4321"]), &sent[1..]), None);
    // The settings say that the ids are the same texts.
    assert_eq!(chosen(&reported(IdNotation::Same, "10", &["5678"]), &sent), Some("10"));
}

#[test]
fn the_settings_decide_on_ids_without_letters() {
    assert_eq!(
        chosen(&reported(IdNotation::Decimal, "16", &[]), &[("16", EVE), ("0010", ADA)]),
        Some("0010")
    );
    assert_eq!(chosen(&reported(IdNotation::Decimal, "1F", &[]), &[("31", EVE), ("1f", ADA)]), Some("1f"));
    assert_eq!(chosen(&reported(IdNotation::Hex, "10", &[]), &[("10", EVE), ("16", ADA)]), Some("16"));
    assert_eq!(chosen(&reported(IdNotation::Same, "0A", &[]), &[("A", EVE), ("0a", ADA)]), None);
    for (word, notation) in IdNotation::WORDS {
        assert_eq!((IdNotation::of_word(word), notation.as_str()), (notation, word));
    }
}

#[test]
fn of_one_id_the_latest_attempt_counts() {
    let of = |answered, target| Candidate { answered, target };
    let again = [of("ok", ADA), of("ok", ADA)];
    assert_eq!(reported(IdNotation::Auto, "ok", &[]).choose(&again), Some(0));
    assert_eq!(reported(IdNotation::Auto, "ok", &["5678"]).choose(&[of("ok", EVE), of("ok", ADA)]), Some(1));
    assert_eq!(reported(IdNotation::Auto, "AB", &[]).choose(&[of("ab", ADA), of("ab", EVE)]), Some(0));
}

fn notation() -> impl Strategy<Value = IdNotation> {
    proptest::sample::select(IdNotation::WORDS.map(|(_, notation)| notation).to_vec())
}

proptest! {
    /// Ids of one counter never match the receipt of another message, whatever the notation of both sides.
    #[test]
    fn a_receipt_never_matches_another_message_of_the_same_notation(
        sent in proptest::collection::vec(0_u64..5000, 1..30), about in 0_u64..5000, is_hex: bool,
        notation in proptest::sample::select(vec![IdNotation::Auto, IdNotation::Same]),
    ) {
        let text = |number: &u64| if is_hex { format!("{number:08x}") } else { number.to_string() };
        let ids: Vec<_> = sent.iter().map(text).collect();
        let messages: Vec<_> = ids.iter().map(|id| (id.as_str(), ADA)).collect();
        let id = text(&about);
        // An id of eight hexadecimal digits without a letter may also be decimal, but then it has fewer digits.
        let expected = ids.contains(&id).then_some(id.as_str());
        prop_assert_eq!(chosen(&reported(notation, &id, &["5678"]), &messages), expected);
    }

    #[test]
    fn a_notation_from_the_settings_finds_every_message(
        sent in proptest::collection::btree_set(1_u64..1 << 48, 1..30), width in 1_usize..17, upper: bool,
    ) {
        let hex = |number: &u64| if upper { format!("{number:0width$X}") } else { format!("{number:0width$x}") };
        let ids: Vec<_> = sent.iter().map(hex).collect();
        let messages: Vec<_> = ids.iter().map(|id| (id.as_str(), ADA)).collect();
        for (number, id) in sent.iter().zip(&ids) {
            let found = chosen(&reported(IdNotation::Decimal, &format!("{number:010}"), &[]), &messages);
            prop_assert_eq!(found, Some(id.as_str()));
        }
        let decimal: Vec<_> = sent.iter().map(u64::to_string).collect();
        let messages: Vec<_> = decimal.iter().map(|id| (id.as_str(), ADA)).collect();
        for (number, id) in sent.iter().zip(&decimal) {
            prop_assert_eq!(chosen(&reported(IdNotation::Hex, &hex(number), &[]), &messages), Some(id.as_str()));
        }
    }

    #[test]
    fn any_texts_can_be_compared(
        notation in notation(), id in "\\PC{0,70}|[0-9a-fA-F+ -]{0,70}",
        sent in proptest::collection::vec("\\PC{0,70}|[0-9a-fA-F+ -]{0,70}", 0..5), ends in proptest::collection::vec("[0-9]{4}", 0..3),
    ) {
        let ends: Vec<_> = ends.iter().map(String::as_str).collect();
        let messages: Vec<_> = sent.iter().map(|id| (id.as_str(), ADA)).collect();
        let reported = reported(notation, &id, &ends);
        prop_assert!(reported.keys().len() <= 2);
        chosen(&reported, &messages);
    }
}
