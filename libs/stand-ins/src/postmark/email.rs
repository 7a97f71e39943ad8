use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Maximum size of a request in bytes.
const LARGEST: usize = 10 << 20;
/// Maximum size in bytes of the text body, and of the HTML body.
const LARGEST_BODY: usize = 5 << 20;
/// Maximum length of a subject in bytes.
const LONGEST_SUBJECT: usize = 2_000;
const MOST_RECIPIENTS: usize = 50;
/// Limits of `Metadata`: maximum length of a name and of a value in characters, and maximum number of entries.
const METADATA: (usize, usize, usize) = (20, 80, 10);
const FORBIDDEN: &[&str] = &["exe", "bat", "com", "scr", "vbs", "js", "msi", "dll", "jar", "ps1"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Email {
    pub(super) from: String,
    pub(super) to: String,
    cc: Option<String>,
    bcc: Option<String>,
    reply_to: Option<String>,
    #[serde(default)]
    pub(super) subject: String,
    pub(super) text_body: Option<String>,
    html_body: Option<String>,
    #[serde(default)]
    headers: Vec<Header>,
    #[serde(default)]
    attachments: Vec<Attachment>,
    #[serde(default)]
    metadata: Map<String, Value>,
    tag: Option<String>,
    message_stream: Option<String>,
    #[serde(rename = "TrackOpens")]
    _track_opens: Option<bool>,
    #[serde(rename = "TrackLinks")]
    _track_links: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Header {
    name: String,
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Attachment {
    name: String,
    content: String,
    content_type: String,
    #[serde(rename = "ContentID")]
    _content_id: Option<String>,
}

pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) code: u32,
    pub(super) message: String,
}

impl Email {
    pub(super) fn read(body: &[u8]) -> Result<Email, Problem> {
        if body.len() > LARGEST {
            return Err(Problem { status: 413, code: 0, message: "Payload Too Large".to_owned() });
        }
        let value: Value = serde_json::from_slice(body).map_err(|error| problem(402, error.to_string()))?;
        let email: Email = serde_json::from_value(value).map_err(|error| problem(403, error.to_string()))?;
        match email.flaw() {
            Some((code, flaw)) => Err(problem(code, format!("Invalid email request: {flaw}"))),
            None => Ok(email),
        }
    }

    pub(super) fn recipients(&self) -> Vec<String> {
        let lists = [Some(&self.to), self.cc.as_ref(), self.bcc.as_ref()].into_iter().flatten();
        lists.flat_map(|list| list.split(',')).map(|one| address(one).to_owned()).collect()
    }

    fn flaw(&self) -> Option<(u32, String)> {
        let bodies = [&self.text_body, &self.html_body];
        let recipients = self.recipients();
        let too_long = |text: &str, most: usize| text.is_empty() || text.chars().count() > most;
        let (longest_name, longest_value, most) = METADATA;
        let metadata = |(name, value): (&String, &Value)| {
            too_long(name, longest_name) || value.as_str().is_none_or(|value| too_long(value, longest_value))
        };
        let general = if !is_address(address(&self.from)) {
            "From"
        } else if recipients.is_empty() || !recipients.iter().all(|to| is_address(to)) {
            "To, Cc or Bcc"
        } else if recipients.len() > MOST_RECIPIENTS {
            "too many recipients"
        } else if self.reply_to.as_ref().is_some_and(|to| !is_address(address(to))) {
            "ReplyTo"
        } else if self.subject.len() > LONGEST_SUBJECT || self.subject.contains(['\r', '\n']) {
            "Subject"
        } else if bodies.iter().all(|body| body.as_ref().is_none_or(String::is_empty)) {
            "neither TextBody nor HtmlBody"
        } else if bodies.iter().any(|body| body.as_ref().is_some_and(|body| body.len() > LARGEST_BODY)) {
            "a body is too large"
        } else if self.metadata.len() > most || self.metadata.iter().any(metadata) {
            "Metadata"
        } else if self.tag.as_ref().is_some_and(|tag| too_long(tag, 1_000)) {
            "Tag"
        } else if self.headers.iter().any(Header::is_wrong) {
            "Headers"
        } else if self.attachments.iter().any(Attachment::is_wrong) {
            "Attachments"
        } else {
            return self.special_flaw();
        };
        Some((300, general.to_owned()))
    }

    fn special_flaw(&self) -> Option<(u32, String)> {
        let is_forbidden = |file: &Attachment| {
            let ending = file.name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
            FORBIDDEN.contains(&ending.as_str())
        };
        if self.attachments.iter().any(is_forbidden) {
            return Some((411, "forbidden attachment type".to_owned()));
        }
        let is_known = |stream: &String| matches!(stream.as_str(), "outbound" | "broadcast");
        (!self.message_stream.as_ref().is_none_or(is_known))
            .then(|| (1235, "The 'MessageStream' provided does not exist on this server".to_owned()))
    }
}

impl Header {
    fn is_wrong(&self) -> bool {
        let owned = ["from", "to", "cc", "bcc", "subject", "reply-to", "date", "content-type"];
        self.name.is_empty()
            || owned.contains(&self.name.to_ascii_lowercase().as_str())
            || self.value.contains(['\r', '\n'])
    }
}

impl Attachment {
    fn is_wrong(&self) -> bool {
        self.name.is_empty() || self.content_type.is_empty() || STANDARD.decode(&self.content).is_err()
    }
}

fn problem(code: u32, message: String) -> Problem {
    Problem { status: 422, code, message }
}

/// Returns the address in `Name <address>`.
fn address(mailbox: &str) -> &str {
    let mailbox = mailbox.trim();
    mailbox.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>')).unwrap_or(mailbox)
}

fn is_address(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"<>,;:\"()[]\\".contains(&byte);
    text.bytes().all(fits)
        && text.split_once('@').is_some_and(|(local, domain)| !local.is_empty() && domain.contains('.'))
}
