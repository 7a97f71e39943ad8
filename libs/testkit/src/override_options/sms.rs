//! `override.channel.sms`.

use serde_json::json;

use super::OptionValues;

pub(super) fn values() -> Vec<OptionValues> {
    vec![
        (
            "from",
            vec![json!("Shop"), json!("+15005550006"), json!("12345"), json!("A & B-1.x")],
            vec![json!("much too long a name"), json!("+12"), json!("Ж"), json!(""), json!("a\nb"), json!(1)],
        ),
        (
            "text",
            vec![json!("x"), json!("Ж".repeat(500)), json!("€")],
            vec![json!(" \n"), json!(""), json!("x".repeat(40_000)), json!(1)],
        ),
    ]
}
