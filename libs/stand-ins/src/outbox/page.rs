//! Pages of the outbox.

use std::sync::Arc;

use domain::sms::segment::{Alphabet, SegmentedText};
use serde_json::Value;

use super::Capture;
use super::faults::{BROWSER_GONE, Choice, FaultPanel, GROUPS, MOST};
use super::view::CaptureView;
use crate::recipient::is_same;
use crate::twilio::form::{self, Form};

/// Messages that the list shows at once.
const SHOWN: usize = 100;
/// Bytes of a part that the page shows. Links lead to the whole part.
const EXCERPT: usize = 64 << 10;
const CHANNELS: [(&str, &str); 4] =
    [("email", "Email"), ("sms", "SMS"), ("webPush", "Web push"), ("mobilePush", "Mobile push")];

/// Messages that a list shows.
#[derive(Default)]
pub(super) struct Filter {
    channel: Option<String>,
    to: Option<String>,
    /// Only messages with a smaller id.
    before: Option<u64>,
}

impl Filter {
    pub(super) fn of(query: &str) -> Filter {
        let form = Form::read(query.as_bytes()).unwrap_or_default();
        let text = |name: &str| form.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
        Filter {
            channel: text("channel"),
            to: text("to"),
            before: text("before").and_then(|id| id.parse().ok()),
        }
    }

    pub(super) fn shows(&self, capture: &Capture) -> bool {
        self.channel.as_ref().is_none_or(|channel| *channel == capture.channel)
            && self.to.as_ref().is_none_or(|to| capture.to.iter().any(|target| is_same(to, target)))
            && self.before.is_none_or(|before| capture.id < before)
    }

    /// Query of the filter, with `?`. Empty if it shows all.
    fn query(&self) -> String {
        let before = self.before.map(|id| id.to_string());
        let fields = [("channel", &self.channel), ("to", &self.to), ("before", &before)];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        let fields: Vec<_> = fields.collect();
        if fields.is_empty() { String::new() } else { format!("?{}", form::write(&fields)) }
    }
}

pub(super) struct Page<'a> {
    /// Newest first.
    pub(super) captures: &'a [Arc<Capture>],
    pub(super) filter: Filter,
    pub(super) chosen: Option<&'a Arc<Capture>>,
    pub(super) faults: &'a FaultPanel,
    pub(super) newest: String,
}

impl Page<'_> {
    pub(super) fn html(&self) -> String {
        let (class, title, detail) = match self.chosen {
            Some(capture) => {
                let view = CaptureView::of(capture);
                ("one", heading(&view), self.message(&view))
            }
            None => ("all", "Outbox".to_owned(), self.start()),
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
             <link rel=\"icon\" href=\"/icon.svg\">\n<link rel=\"stylesheet\" href=\"/style.css\">\n\
             <script type=\"module\" src=\"/live.js\"></script>\n</head>\n<body data-newest=\"{}\">\n\
             {}\
             <div class=\"columns {class}\">\n{}<main class=\"detail\">\n{detail}</main>\n</div>\n</body>\n</html>\n",
            escaped(&title),
            self.newest,
            self.header(),
            self.list(),
        )
    }

    fn header(&self) -> String {
        let total = self.captures.len();
        let link = |channel: Option<&str>, name: &str, count: usize| {
            let filter =
                Filter { channel: channel.map(str::to_owned), to: self.filter.to.clone(), before: None };
            let current =
                if self.filter.channel.as_deref() == channel { " aria-current=\"page\"" } else { "" };
            format!("<a href=\"/{}\"{current}>{name} <span>{count}</span></a>", escaped(&filter.query()))
        };
        let counted = CHANNELS.map(|(channel, name)| {
            let count = self.captures.iter().filter(|capture| capture.channel == channel).count();
            link(Some(channel), name, count)
        });
        let channel = self.filter.channel.as_deref().map_or_else(String::new, |channel| {
            format!("<input type=\"hidden\" name=\"channel\" value=\"{}\">", escaped(channel))
        });
        format!(
            "<header>\n<p class=\"note\">Nothing here leaves this machine.</p>\n<div class=\"bar\"><img src=\"/icon.svg\" alt=\"\"><h1><a href=\"/\">Outbox</a></h1>\n\
             <nav aria-label=\"Channels\">{}{}</nav>\n\
             <form class=\"find\" action=\"/\" role=\"search\">{channel}<input name=\"to\" value=\"{}\" \
             placeholder=\"Address, number or token\" aria-label=\"Recipient\"><button>Find</button></form></div>\n\
             <p aria-live=\"polite\"></p></header>\n",
            link(None, "All", total),
            counted.concat(),
            escaped(self.filter.to.as_deref().unwrap_or_default()),
        )
    }

    fn list(&self) -> String {
        let mut found = self.captures.iter().filter(|capture| self.filter.shows(capture));
        let shown: Vec<_> = found.by_ref().take(SHOWN).collect();
        let items: String = shown.iter().map(|capture| self.item(capture)).collect();
        let reload = format!("<a href=\"{}\">Reload</a>", escaped(&self.here()));
        let mut foot = match (shown.len(), self.filter.before) {
            (0, None) => "<span>No messages yet.</span>".to_owned(),
            (0, Some(_)) => "<span>No older messages.</span>".to_owned(),
            _ => String::new(),
        };
        foot.push_str(&reload);
        if let (Some(last), Some(_)) = (shown.last(), found.next()) {
            let Filter { channel, to, .. } = &self.filter;
            let older = Filter { channel: channel.clone(), to: to.clone(), before: Some(last.id) };
            foot.push_str(&format!("<a href=\"/{}\">Older</a>", escaped(&older.query())));
        }
        format!(
            "<nav class=\"list\" aria-label=\"Messages, newest first\"><ol>\n{items}</ol><div class=\"foot\">{foot}</div></nav>\n"
        )
    }

    fn here(&self) -> String {
        let path = self.chosen.map_or_else(|| "/".to_owned(), |chosen| format!("/messages/{}", chosen.id));
        format!("{path}{}", self.filter.query())
    }

    fn item(&self, capture: &Capture) -> String {
        let view = CaptureView::of(capture);
        let is_chosen = self.chosen.is_some_and(|chosen| chosen.id == capture.id);
        let current = if is_chosen { " aria-current=\"true\"" } else { "" };
        let line = match push_payload(&view) {
            Some(payload) => payload["body"].as_str().unwrap_or_default().to_owned(),
            None => view.text.clone().unwrap_or_default(),
        };
        let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect();
        format!(
            "<li><a href=\"/messages/{}{}\"{current}><b>{}</b>{}<p>{} to {}</p><p>{}&#8203;</p></a></li>\n",
            capture.id,
            escaped(&self.filter.query()),
            escaped(&heading(&view)),
            time(&view, ""),
            tag(&view),
            escaped(&short_target(capture)),
            escaped(&line),
        )
    }

    /// The page without a message.
    fn start(&self) -> String {
        let groups: String = GROUPS
            .iter()
            .map(|(name, choices)| {
                let options: String = choices
                    .iter()
                    .map(|Choice { name: value, label, .. }| {
                        format!("<option value=\"{value}\">{name}: {label}</option>")
                    })
                    .collect();
                format!("<optgroup label=\"{name}\">{options}</optgroup>")
            })
            .collect();
        let clear = if self.captures.is_empty() {
            String::new()
        } else {
            "<h2>Messages</h2>\n<form method=\"post\" action=\"/clear\"><button>Delete all messages</button></form>\n"
                .to_owned()
        };
        format!(
            "<h2>Faults</h2>\n\
             <p class=\"plain\">Let a provider fail, and watch retries, failover, suppression and parking: in the deliveries \
             of the request, and in the logs.</p>\n{}\
             <form class=\"faults\" method=\"post\" action=\"/faults\">\n\
             <label>Answer the next <input name=\"times\" type=\"number\" min=\"1\" max=\"{MOST}\" value=\"10\" required></label>\n\
             <label>with <select name=\"fault\">{groups}</select></label>\n\
             <label>only to <input name=\"to\" placeholder=\"anyone\"></label>\n\
             <button class=\"main\">Apply</button></form>\n{clear}",
            self.ordered("/"),
        )
    }

    /// Number of ordered faults, with a button that cancels them.
    fn ordered(&self, back: &str) -> String {
        match self.faults.ordered() {
            0 => String::new(),
            ordered => format!(
                "<form method=\"post\" action=\"/faults/clear\"><input type=\"hidden\" name=\"back\" value=\"{}\">\
                 <p><strong>{ordered}</strong> {} ordered and not given yet. <button>Cancel</button></p></form>\n",
                escaped(back),
                if ordered == 1 { "answer is" } else { "answers are" },
            ),
        }
    }

    fn message(&self, view: &CaptureView<'_>) -> String {
        let back = format!("/{}", self.filter.query());
        let content = match view.channel {
            "email" => email(view),
            "sms" => sms(view),
            "webPush" => self.web_push(view),
            _ => push(view, view.subject.as_deref(), view.text.as_deref()),
        };
        let headers = view.headers.iter().flat_map(|(name, values)| {
            values.iter().map(move |value| format!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value)))
        });
        let headers = headers.collect::<String>();
        let headers = if headers.is_empty() {
            String::new()
        } else {
            format!("<details><summary>Headers</summary><dl>{headers}</dl></details>\n")
        };
        format!(
            "<a class=\"back\" href=\"{}\">All messages</a>\n{}<h2>{}</h2>\n\
             <dl><dt>From</dt><dd>{}</dd><dt>To</dt><dd>{}</dd><dt>Received</dt><dd>{}</dd></dl>\n\
             {content}{headers}<details><summary>Raw</summary>{}</details>\n\
             <p><a href=\"/messages/{}/raw\">The whole message as text</a></p>\n",
            escaped(&back),
            tag(view),
            escaped(&heading(view)),
            escaped(view.from),
            escaped(&view.to.join(", ")),
            time(view, " data-whole"),
            pre(&view.raw_text()),
            view.id,
        )
    }

    fn web_push(&self, view: &CaptureView<'_>) -> String {
        let payload = push_payload(view).unwrap_or_default();
        let card = push(view, payload["title"].as_str(), payload["body"].as_str());
        let pretty = serde_json::to_string_pretty(&payload).unwrap_or_default();
        let back = format!("/messages/{}", view.id);
        let endpoint = view.to.first().map(String::as_str).unwrap_or_default();
        format!(
            "{card}<details open><summary>Message, decrypted</summary>{}</details>\n{}\
             <form method=\"post\" action=\"/faults\"><input type=\"hidden\" name=\"fault\" value=\"{BROWSER_GONE}\">\
             <input type=\"hidden\" name=\"times\" value=\"{MOST}\"><input type=\"hidden\" name=\"to\" value=\"{}\">\
             <input type=\"hidden\" name=\"back\" value=\"{back}\">\
             <p><button>From now on, answer 410 for this browser</button></p></form>\n",
            pre(&pretty),
            self.ordered(&back),
            escaped(endpoint),
        )
    }
}

fn email(view: &CaptureView<'_>) -> String {
    let mut content = String::new();
    if view.html.is_some() {
        content.push_str(&format!(
            "<iframe sandbox=\"\" src=\"/messages/{0}/html\" title=\"The email as HTML\"></iframe>\n\
             <p><a href=\"/messages/{0}/html\">Only the email</a></p>\n",
            view.id
        ));
    }
    if let Some(text) = &view.text {
        let open = if view.html.is_none() { " open" } else { "" };
        content.push_str(&format!("<details{open}><summary>Text</summary>{}</details>\n", pre(text)));
    }
    if !view.attachments.is_empty() {
        let files = view.attachments.iter().enumerate().map(|(number, file)| {
            let name = file.name.as_deref().unwrap_or("without a name");
            let kind = file.content_type.as_deref().unwrap_or("unknown type");
            format!(
                "<li><a href=\"/messages/{}/attachments/{number}\" download=\"{}\">{}</a> ({}, {} bytes)</li>",
                view.id,
                escaped(name),
                escaped(name),
                escaped(kind),
                file.size
            )
        });
        content.push_str(&format!(
            "<h3>Attachments</h3><ul class=\"files\">{}</ul>\n",
            files.collect::<String>()
        ));
    }
    content
}

fn sms(view: &CaptureView<'_>) -> String {
    let text = view.text.as_deref().unwrap_or_default();
    let segments = SegmentedText::of(text);
    let alphabet = match segments.alphabet {
        Alphabet::Gsm7 => "GSM 7 bit",
        Alphabet::Ucs2 => "UCS-2",
    };
    let count = segments.count();
    let bubbles: String =
        segments.parts.iter().map(|part| format!("<p class=\"bubble\">{}</p>\n", escaped(part))).collect();
    let (plural, characters) = (if count == 1 { "" } else { "s" }, text.chars().count());
    format!("{bubbles}<p class=\"facts\">{count} segment{plural}, {alphabet}, {characters} characters</p>\n")
}

fn push(view: &CaptureView<'_>, title: Option<&str>, body: Option<&str>) -> String {
    let header = |name: &str| view.headers.get(name).and_then(|values| values.first());
    let facts =
        ["ttl", "urgency", "topic", "apns-priority", "apns-push-type", "apns-collapse-id", "apns-topic"];
    let facts = facts.iter().filter_map(|name| Some(format!("{name} {}", header(name)?)));
    let facts = facts.collect::<Vec<_>>().join(" · ");
    format!(
        "<div class=\"push\"><i></i><small>{}</small><b>{}</b><p>{}</p></div>\n<p class=\"facts\">{}</p>\n",
        tag_name(view.channel),
        escaped(title.unwrap_or("(no title)")),
        escaped(body.unwrap_or_default()),
        escaped(&facts),
    )
}

/// Message to a service worker. None for other channels.
fn push_payload(view: &CaptureView<'_>) -> Option<Value> {
    if view.channel != "webPush" {
        return None;
    }
    serde_json::from_str(view.text.as_deref()?).ok()
}

fn heading(view: &CaptureView<'_>) -> String {
    let subject = view.subject.as_deref().filter(|subject| !subject.trim().is_empty());
    match (subject, view.channel) {
        (Some(subject), _) => subject.to_owned(),
        (None, "sms") => format!("SMS from {}", view.from),
        (None, _) => "(no subject)".to_owned(),
    }
}

/// Recipient for the list. The endpoint of a browser is cut.
fn short_target(capture: &Capture) -> String {
    let to = capture.to.join(", ");
    let cut = match capture.channel.as_str() {
        "webPush" => {
            to.rsplit_once('/').map(|(_, id)| format!("browser {}…", id.chars().take(8).collect::<String>()))
        }
        _ => None,
    };
    cut.unwrap_or(to)
}

fn tag(view: &CaptureView<'_>) -> String {
    format!("<span class=\"tag {}\">{}</span>", escaped(view.channel), escaped(tag_name(view.channel)))
}

fn tag_name(channel: &str) -> &str {
    CHANNELS.iter().find(|(known, _)| *known == channel).map_or(channel, |(_, name)| name)
}

fn time(view: &CaptureView<'_>, attribute: &str) -> String {
    let at = view.received_at.to_string();
    let shown = at.get(11..19).unwrap_or_default();
    format!("<time datetime=\"{at}\"{attribute}>{shown} UTC</time>")
}

/// Shows the beginning of a text.
fn pre(text: &str) -> String {
    let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= EXCERPT);
    let (shown, more) = match end.and_then(|end| text.get(..end)) {
        Some(shown) => (shown, "\n…"),
        None => (text, ""),
    };
    // HTML drops a first line end.
    format!("<pre tabindex=\"0\">\n{}{more}</pre>", escaped(shown))
}

/// For use between tags or in a quoted attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
