//! Templates to start from.

use serde_json::{Value, json};

/// A template that an author can start from.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    pub identifier: &'static str,
    pub name: &'static str,
    /// One sentence for people.
    pub about: &'static str,
    content: fn() -> (Value, Value),
}

pub const EXAMPLES: [Example; 3] = [
    Example {
        identifier: "order-shipped",
        name: "Order shipped",
        about: "Inbox, email and push, with a link to the parcel.",
        content: order_shipped,
    },
    Example {
        identifier: "sign-in-code",
        name: "Sign-in code",
        about: "A code by email or SMS, and nothing else.",
        content: sign_in_code,
    },
    Example {
        identifier: "comment-added",
        name: "Comment added",
        about: "Inbox and push at once, with an email that quotes the comment.",
        content: comment_added,
    },
];

impl Example {
    /// Content by channel.
    #[must_use]
    pub fn channels(&self) -> Value {
        (self.content)().0
    }

    /// Values for all variables of the content.
    #[must_use]
    pub fn sample(&self) -> Value {
        (self.content)().1
    }
}

fn order_shipped() -> (Value, Value) {
    let html = r#"<!doctype html>
<html lang="en">
<head>
<meta name="color-scheme" content="light dark">
<style>
body { margin: 0; padding: 24px; font: 16px/1.5 Helvetica, Arial, sans-serif; color: #1b1b1f; background: #ffffff; }
.button { display: inline-block; padding: 12px 20px; border-radius: 8px; background: #1b1b1f; color: #ffffff; text-decoration: none; }
@media (prefers-color-scheme: dark) {
  body { color: #ededf2; background: #17171c; }
  .button { background: #ededf2; color: #17171c; }
}
</style>
</head>
<body>
<p>Hello {{ recipient.app.name }},</p>
<p>your order {{ order.number }} has left our warehouse. It arrives on {{ order.arrives }}.</p>
<p><a class="button" href="{{ order.url }}">Follow the parcel</a></p>
</body>
</html>
"#;
    let text = "Hello {{ recipient.app.name }},\n\nyour order {{ order.number }} has left our warehouse. It arrives on {{ order.arrives }}.\n\n\
        Follow the parcel: {{ order.url }}\n";
    let title = "Order {{ order.number }} has shipped";
    let push =
        json!({"title": title, "body": "It arrives on {{ order.arrives }}.", "url": "{{ order.url }}"});
    let channels = json!({
        "inApp": {"title": title, "message": "It arrives on {{ order.arrives }}.", "url": "{{ order.url }}"},
        "email": {"subject": title, "text": text, "html": html},
        "webPush": push,
        "mobilePush": push,
    });
    let order = json!({"number": "1042", "arrives": "Friday", "url": "https://shop.example/orders/1042"});
    (channels, json!({"order": order, "recipient": {"app": {"name": "Ada"}}}))
}

fn sign_in_code() -> (Value, Value) {
    let channels = json!({
        "email": {
            "subject": "{{ code }} is your sign-in code",
            "text": "Your code is {{ code }}. It is valid for {{ minutes }} minutes.\n\nIf you did not ask for it, ignore this email.\n",
        },
        "sms": {"text": "{{ code }} is your code for {{ app.name }}. Valid for {{ minutes }} minutes."},
    });
    (channels, json!({"code": "481 920", "minutes": 10}))
}

fn comment_added() -> (Value, Value) {
    let title = "{{ author }} commented on {{ thread.title }}";
    let text = "{{ author }} wrote:\n\n{{ comment }}\n\nAnswer: {{ thread.url }}\n";
    let push = json!({"title": title, "body": "{{ comment }}", "url": "{{ thread.url }}"});
    let channels = json!({
        "inApp": {"title": title, "message": "{{ comment }}", "url": "{{ thread.url }}"},
        "email": {"subject": title, "text": text},
        "webPush": push,
        "mobilePush": push,
    });
    let thread = json!({"title": "Spring collection", "url": "https://shop.example/threads/7"});
    (channels, json!({"author": "Grace", "comment": "The blue one, please.", "thread": thread}))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use domain::TemplateProfile;

    use super::*;
    use crate::templates::{TemplateDocument, warnings};

    #[test]
    fn examples_are_valid_and_have_no_warnings() {
        for example in EXAMPLES {
            let (channels, sample) = (example.channels(), example.sample());
            let document = json!({"identifier": example.identifier, "channels": channels, "sample": sample});
            let document = TemplateDocument::read(document, TemplateProfile::App).unwrap();
            let found = warnings(&document, TemplateProfile::App, document.sample());
            assert_eq!(found, [], "{}", example.identifier);
        }
    }
}
