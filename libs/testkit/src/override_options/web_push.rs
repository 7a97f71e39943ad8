//! `override.channel.webPush`.

use serde_json::json;

use super::OptionValues;

pub(super) fn values() -> Vec<OptionValues> {
    vec![
        ("title", vec![json!("x"), json!("")], vec![json!(1), json!("x".repeat(1_025))]),
        (
            "body",
            vec![json!("x"), json!("x".repeat(64 * 1024)), json!("\"\u{1}".repeat(2_000))],
            vec![json!([]), json!("x".repeat(64 * 1024 + 1))],
        ),
        (
            "icon",
            vec![json!("/i.png"), json!("bell"), json!("data:image/png;base64,AA==")],
            vec![json!("javascript:alert(1)"), json!("data:text/html,x"), json!(1), json!("x".repeat(2_049))],
        ),
        (
            "url",
            vec![json!("/a"), json!("https://x.example/a"), json!("shop-app://a")],
            vec![json!("javascript:alert(1)"), json!(1), json!("x".repeat(2_049))],
        ),
        (
            "data",
            vec![
                json!({"from": "x", "nested": {"a": [1, "\"quoted\""]}, "none": null}),
                json!({"deliveryId": "x", "clickUrl": "x"}),
                json!({"x": "x".repeat(3_400)}),
                json!({"x": vec!["\""; 600]}),
            ],
            vec![json!(1), json!({"x": "x".repeat(3_994)}), json!({"x": vec!["\""; 1_000]})],
        ),
        (
            "ttl",
            vec![json!(0), json!(60), json!(60.0), json!(2_419_200)],
            vec![json!(-1), json!(2_419_201), json!(1.5), json!("60"), json!(1e300)],
        ),
        (
            "urgency",
            vec![json!("very-low"), json!("low"), json!("normal"), json!("high")],
            vec![json!("urgent"), json!("High"), json!(""), json!(1)],
        ),
        (
            "topic",
            vec![json!("Basket_7-a"), json!("t".repeat(32))],
            vec![
                json!(""),
                json!("t".repeat(33)),
                json!("a b"),
                json!("a="),
                json!("a\r\nb"),
                json!("é"),
                json!(1),
            ],
        ),
    ]
}
