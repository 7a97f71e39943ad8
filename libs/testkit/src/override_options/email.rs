//! `override.channel.email`. The good senders belong to a provider with the sender `news@example.com`.

use serde_json::{Value, json};

use super::OptionValues;

#[allow(clippy::too_many_lines)]
pub(super) fn values() -> Vec<OptionValues> {
    let good = [
        "ada@example.org",
        " ada@example.org ",
        "संपर्क@example.org",
        "jose\u{301}@example.org",
        "😀@example.org",
        "\"a b\"@example.org",
        "ada@bücher.example",
        "o'brien+x@example.org",
        "ada@intranet",
    ];
    let bad = [
        "te..st@example.org",
        "ada@-bad.example",
        "Ada <ada@example.org>",
        "ada",
        "",
        "a@b, c@d",
        "a@[127.0.0.1]",
        "a@127.0.0.1",
        "a@b\r\nBcc: c@d",
        "a b@example.org",
        ".a@example.org",
        "ada@ex_ample.org",
    ];
    let (goods, bads) = (good.map(|text| json!(text)), bad.map(|text| json!(text)));
    let lists = |values: &[Value]| values.iter().map(|value| json!([value])).collect::<Vec<_>>();
    let headers = |names: &[(&str, String)]| {
        names.iter().map(|(name, value)| json!({*name: value})).collect::<Vec<_>>()
    };
    let word = |count| "x".repeat(count);
    vec![
        ("cc", [lists(&goods), goods.to_vec()].concat(), [lists(&bads), vec![json!([1])]].concat()),
        ("bcc", lists(&goods), lists(&bads)),
        ("replyTo", goods.to_vec(), bads.to_vec()),
        ("from", vec![json!("other@EXAMPLE.com"), json!("दुकान@example.com")], bads.to_vec()),
        (
            "fromName",
            vec![json!("Die Läden \"& Co\""), json!(word(255))],
            vec![json!("a\r\nb"), json!(word(256)), json!("")],
        ),
        (
            "subject",
            vec![json!("Grüße"), json!(word(1_024))],
            vec![json!("a\nb"), json!(word(1_025)), json!(1)],
        ),
        ("text", vec![json!("x"), json!(""), json!(".\r\n.")], vec![json!(1)]),
        ("html", vec![json!("<p>x</p>"), json!("")], vec![json!(1)]),
        (
            "headers",
            headers(&[
                ("X-Order", word(900)),
                ("X-A", word(993)),
                ("X-App-Order", "é".repeat(200)),
                ("Precedence", "bulk".to_owned()),
                ("List-Id", "<a.b>".to_owned()),
                ("In-Reply-To", "<a@b>".to_owned()),
            ]),
            headers(&[
                ("X-A", word(994)),
                ("X-A", "a\r\nBcc: b@c.d".to_owned()),
                ("X-A", "a\u{85}b".to_owned()),
                ("X-APIHEADER", "x".to_owned()),
                ("X-Postal-Tag", "x".to_owned()),
                ("X-MailerSend-Tags", "x".to_owned()),
                ("X-Smtp2go-Bcc", "x".to_owned()),
                ("Bcc", "a@b.c".to_owned()),
                ("X A", "x".to_owned()),
            ]),
        ),
    ]
}
