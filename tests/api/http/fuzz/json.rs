//! Nearly valid JSON.

use serde_json::{Value, json};

use super::chance::Chance;

/// Changes some random parts of a value.
pub(crate) fn mutate(value: &mut Value, chance: &mut Chance) {
    for _ in 0..=chance.below(3) {
        mutate_part(value, chance);
    }
}

fn mutate_part(value: &mut Value, chance: &mut Chance) {
    match value {
        Value::Object(members) if !chance.once_in(4) => {
            let keys: Vec<_> = members.keys().cloned().collect();
            match chance.below(6) {
                0 => {
                    members.insert(text(chance), strange(chance));
                }
                1 if !keys.is_empty() => {
                    members.remove(chance.of(&keys));
                }
                _ if !keys.is_empty() => {
                    let key = chance.of(&keys);
                    members.iter_mut().filter(|(known, _)| *known == key).for_each(|(_, member)| {
                        mutate_part(member, chance);
                    });
                }
                _ => {}
            }
        }
        Value::Array(items) if !chance.once_in(4) => match chance.below(4) {
            0 => items.push(strange(chance)),
            1 => items.clear(),
            _ if !items.is_empty() => {
                let index = chance.below(items.len());
                let copy = items[index].clone();
                mutate_part(&mut items[index], chance);
                items.push(copy);
            }
            _ => {}
        },
        value => *value = strange(chance),
    }
}

fn strange(chance: &mut Chance) -> Value {
    match chance.below(16) {
        0 => Value::Null,
        1 => json!(chance.once_in(2)),
        2 => json!(*chance.of(&[0, -1, 1, i64::MAX, i64::MIN, (1 << 53) - 1, 1 << 53])),
        3 => json!(u64::MAX),
        4 => json!(*chance.of(&[0.5, -0.0, 1e308, 5e-324, 1e15])),
        5 => json!({}),
        6 => json!([]),
        7 => nested(chance.below(60)),
        8 => json!({"identifier": text(chance), "token": text(chance), "tokens": [text(chance)]}),
        9 => json!([{"op": *chance.of(&["add", "remove", "move", "copy", "test", "replace", "?"]),
                     "path": *chance.of(&["", "/", "/a", "/~2", "/fcm/tokens/-", "/a/99999999999999999999"]),
                     "from": text(chance), "value": text(chance)}]),
        _ => json!(text(chance)),
    }
}

/// Picks a text that parsers or the database may handle wrongly.
pub(crate) fn text(chance: &mut Chance) -> String {
    const TEXTS: [&str; 24] = [
        "",
        " ",
        "ada",
        "inApp",
        "email",
        "orders",
        "0",
        "-1",
        "9007199254740993",
        "99999999999999999999",
        "null",
        "\0",
        "a\u{0}b",
        "\u{7f}\u{85}",
        "\u{feff}",
        "\u{202e}abc",
        "zoë@例え.jp",
        "👩‍👩‍👧",
        "../../etc",
        "a/b?c#d%",
        "'; --",
        "{{ 7 * 7 }}{% for x in y %}",
        "2027-02-30T25:00:00Z",
        "9999-12-31T23:59:59.999Z",
    ];
    match chance.below(12) {
        0 => "x".repeat(*chance.of(&[255, 256, 1024, 1025, 3000, 70_000])),
        1 => "é".repeat(*chance.of(&[127, 128, 600])),
        _ => (*chance.of(&TEXTS)).to_owned(),
    }
}

fn nested(depth: usize) -> Value {
    (0..depth)
        .fold(json!(1), |value, level| if level % 2 == 0 { json!([value]) } else { json!({"n": value}) })
}

/// Serializes a value, and sometimes corrupts the text.
pub(crate) fn written(value: &Value, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).unwrap();
    if !chance.once_in(8) {
        return bytes;
    }
    let place = chance.below(bytes.len());
    match chance.below(9) {
        0 => bytes.truncate(place),
        1 => bytes[place] = 0xff,
        2 => bytes[place] ^= 1 << chance.below(8),
        3 => bytes.splice(place..place, *b"\xed\xa0\x80").for_each(drop),
        4 => bytes = [b"[".repeat(20_000), b"]".repeat(20_000)].concat(),
        5 => bytes = br#"{"identifier":"a","identifier":"b","name":"\ud800"}"#.to_vec(),
        6 => bytes = b"1e999999".to_vec(),
        7 => bytes.resize(800 * 1024, b' '),
        _ => bytes.clear(),
    }
    bytes
}
