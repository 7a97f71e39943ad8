//! Templates: checked when they are stored, compiled once per version, and rendered for each recipient.

use std::collections::HashMap;
use std::io;

use domain::Channel;
use domain::content::{EmailContent, InAppContent, PushContent, SmsContent};
use domain::overrides::{EmailOverride, PushOverride};
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde_json::Value;

use crate::channels::Channels;
use crate::filters;
use crate::growth::{self, Growth, UnboundedText};
use crate::link;
use crate::needs::TemplateNeeds;

/// Instructions that one rendering may execute.
const FUEL: u64 = 100_000;
/// Length of a rendered text, in bytes.
const MAX_OUTPUT: usize = 256 * 1024;
/// Total size of the values that one rendering creates, in bytes, without its variables.
const MAX_VALUES: u64 = 64 * 1024 * 1024;
/// Bytes that the instructions of one rendering may process. The larger the values of a text can be, the fewer instructions it may execute.
const MAX_WORK: u64 = 4 * 1024 * 1024 * 1024;
/// Overhead of a value in addition to its text, in bytes.
const VALUE: u64 = 32;
/// The only text whose variables are escaped as HTML.
const HTML: &str = "email.html";

/// A template version, ready to be rendered.
#[derive(Debug)]
pub struct Template {
    pub(crate) channels: Channels,
    pub(crate) needs: TemplateNeeds,
    environment: Environment<'static>,
    /// Bound by name of the text. Texts without one are not rendered; they exist only in versions that were stored before bounds were
    /// checked.
    growth: HashMap<String, Result<Growth, UnboundedText>>,
}

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("{0}")]
    Shape(#[from] serde_json::Error),
    /// Invalid syntax, a failing expression, too much work or an overlong result.
    #[error("{0}")]
    Text(#[from] minijinja::Error),
    #[error("line {line}: {advice}")]
    Unbounded { line: u32, advice: String },
    #[error("{0} is empty after rendering")]
    Empty(&'static str),
    #[error("{0} was rendered to a link that clients must not open")]
    Link(&'static str),
    /// The pinned version is missing or can no longer be compiled.
    #[error("the template is missing or cannot be compiled")]
    Missing,
    #[error("the result would have {size} bytes; at most {most} are allowed")]
    TooLarge { size: usize, most: usize },
}

impl TemplateError {
    /// True if a text needs more work or memory than allowed.
    pub(crate) fn is_too_much(&self) -> bool {
        match self {
            TemplateError::Unbounded { .. } | TemplateError::TooLarge { .. } => true,
            TemplateError::Text(error) => error.kind() == ErrorKind::OutOfFuel,
            _ => false,
        }
    }
}

impl Template {
    /// A text without a bound leads to an error only when it is rendered.
    pub fn compile(channels: &Value) -> Result<Template, TemplateError> {
        let needs = TemplateNeeds::of(channels);
        let channels: Channels = serde_json::from_value(channels.clone())?;
        let mut environment = environment();
        let mut growth = HashMap::new();
        for (name, text) in channels.texts() {
            let bound = growth::bound(text);
            // Compile only texts with a bound, because the engine evaluates constants while compiling.
            if bound.is_ok() {
                environment.add_template_owned(name.clone(), text.to_owned())?;
            }
            growth.insert(name, bound);
        }
        Ok(Template { channels, needs, environment, growth })
    }

    #[must_use]
    pub fn offered_channels(&self) -> Vec<Channel> {
        self.channels.offered_channels()
    }

    /// `plain` is the send's own content. It supplies fields that the template lacks, and the keys of its `data` replace those of the
    /// template's `data`.
    pub fn in_app(
        &self,
        variables: &minijinja::Value,
        plain: InAppContent,
    ) -> Result<InAppContent, TemplateError> {
        let Some(texts) = &self.channels.in_app else {
            return Ok(plain);
        };
        let field = |name: &str, text: &Option<String>, plain: Option<String>| match text {
            Some(_) => self.render(&format!("inApp.{name}"), variables).map(Some),
            None => Ok(plain),
        };
        let mut data = texts.data.clone();
        for (key, value) in &mut data {
            self.render_leaves(&format!("inApp.data.{key}"), value, variables)?;
        }
        data.extend(plain.data);
        let mut blocks = texts.blocks.clone();
        for (index, block) in blocks.iter_mut().enumerate() {
            self.render_leaves(&format!("inApp.blocks.{index}"), block, variables)?;
        }
        let content = InAppContent {
            title: field("title", &texts.title, plain.title)?,
            message: field("message", &texts.message, plain.message)?,
            icon: field("icon", &texts.icon, plain.icon)?,
            url: field("url", &texts.url, plain.url)?,
            data,
            blocks: if blocks.is_empty() { plain.blocks } else { blocks },
        };
        link::check(content.icon.as_deref(), content.url.as_deref()).map_err(TemplateError::Link)?;
        let empty = content.title.as_deref().unwrap_or_default().trim().is_empty();
        if empty { Err(TemplateError::Empty("the title")) } else { Ok(content) }
    }

    /// Fields of `own` replace fields of the template. None if the template has no email content.
    pub fn email(
        &self,
        variables: &minijinja::Value,
        own: &EmailOverride,
    ) -> Result<Option<EmailContent>, TemplateError> {
        let Some(texts) = &self.channels.email else {
            return Ok(None);
        };
        let subject = match &own.subject {
            Some(subject) => one_line(subject),
            None => one_line(&self.render("email.subject", variables)?),
        };
        if subject.is_empty() {
            return Err(TemplateError::Empty("the subject"));
        }
        let (text, html) = if own.has_body() {
            (own.text.clone(), own.html.clone())
        } else {
            let text = texts.text.as_ref().map(|_| self.render("email.text", variables)).transpose()?;
            let html = texts.html.as_ref().map(|_| self.render(HTML, variables)).transpose()?;
            (text, html)
        };
        Ok(Some(EmailContent { subject, text, html, ..EmailContent::default() }))
    }

    /// None if the template has no SMS content.
    pub fn sms(&self, variables: &minijinja::Value) -> Result<Option<SmsContent>, TemplateError> {
        let texts = self.channels.sms.as_ref();
        texts.map(|_| Ok(SmsContent { text: self.render("sms.text", variables)?, from: None })).transpose()
    }

    /// Fields of `own` replace fields of the template. None if the template has no content for `channel`.
    pub fn push(
        &self,
        channel: Channel,
        variables: &minijinja::Value,
        own: &PushOverride,
    ) -> Result<Option<PushContent>, TemplateError> {
        let texts =
            if channel == Channel::WebPush { &self.channels.web_push } else { &self.channels.mobile_push };
        let Some(texts) = texts else { return Ok(None) };
        let field = |name: &str, text: &Option<String>, own: &Option<String>| match own {
            Some(own) => Ok(Some(own.clone())),
            None => text.as_ref().map(|_| self.render(&format!("{channel}.{name}"), variables)).transpose(),
        };
        let content = PushContent {
            title: field("title", &texts.title, &own.title)?,
            body: field("body", &texts.body, &own.body)?,
            icon: field("icon", &texts.icon, &own.icon)?,
            url: field("url", &texts.url, &own.url)?,
            ..PushContent::default()
        };
        link::check(content.icon.as_deref(), content.url.as_deref()).map_err(TemplateError::Link)?;
        Ok(Some(content))
    }

    pub(crate) fn render(&self, name: &str, variables: &minijinja::Value) -> Result<String, TemplateError> {
        let mut output = BoundedBuffer(Vec::new());
        let fuel = self.fuel(name, variables)?;
        filters::begin();
        if fuel < FUEL {
            let mut environment = self.environment.clone();
            environment.set_fuel(Some(fuel));
            environment.get_template(name)?.render_captured_to(variables, &mut output)?;
        } else {
            self.environment.get_template(name)?.render_captured_to(variables, &mut output)?;
        }
        Ok(String::from_utf8_lossy(&output.0).into_owned())
    }

    /// Instructions for rendering a text with these variables. Fails if the text has no bound, or one above [`MAX_VALUES`].
    fn fuel(&self, name: &str, variables: &minijinja::Value) -> Result<u64, TemplateError> {
        let growth = match self.growth.get(name) {
            Some(Ok(growth)) => *growth,
            Some(Err(UnboundedText { line, advice })) => {
                return Err(TemplateError::Unbounded { line: *line, advice: advice.clone() });
            }
            None => Growth::default(),
        };
        let size = if growth.depends_on_variables() { size(variables) } else { 0 };
        let bytes = growth.bytes(size);
        if bytes > MAX_VALUES {
            let [size, most] = [bytes, MAX_VALUES].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            return Err(TemplateError::TooLarge { size, most });
        }
        Ok(FUEL.min(MAX_WORK / bytes.max(1)))
    }

    fn render_leaves(
        &self,
        name: &str,
        value: &mut Value,
        variables: &minijinja::Value,
    ) -> Result<(), TemplateError> {
        match value {
            Value::String(text) => *text = self.render(name, variables)?,
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.render_leaves(&format!("{name}.{index}"), item, variables)?;
                }
            }
            Value::Object(members) => {
                for (key, item) in members {
                    self.render_leaves(&format!("{name}.{key}"), item, variables)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }
}

pub(crate) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(
        |name| {
            if name == HTML { AutoEscape::Html } else { AutoEscape::None }
        },
    );
    environment.set_fuel(Some(FUEL));
    filters::add_bounded_filters(&mut environment);
    environment
}

/// Estimate in bytes.
fn size(value: &minijinja::Value) -> u64 {
    if let Some(text) = value.as_str() {
        return VALUE + text.len() as u64;
    }
    let members = match value.kind() {
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => value.try_iter(),
        _ => return VALUE,
    };
    let of = |member: minijinja::Value| match value.kind() {
        ValueKind::Map => size(&member) + value.get_item(&member).map_or(0, |item| size(&item)),
        _ => size(&member),
    };
    members.map_or(VALUE, |members| members.fold(VALUE, |all, member| all.saturating_add(of(member))))
}

/// An email header must not contain line breaks or other control characters.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> =
        text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Refuses to grow beyond [`MAX_OUTPUT`].
struct BoundedBuffer(Vec<u8>);

impl io::Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!("the text is longer than {MAX_OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
