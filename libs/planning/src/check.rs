use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use domain::Problem;
use domain::content::Object;
use minijinja::Environment;
use serde_json::Value;

use crate::Template;
use crate::channels::Channels;
use crate::growth::{self, UnboundedText};
use crate::template::environment;

/// A quarter of the stack of the services' threads (2 MiB), so that every service can compile and render a template that is stored. Without
/// optimisation, the engine needs about twice the stack.
const CHECKING_STACK: usize = if cfg!(debug_assertions) { 1 << 20 } else { 512 << 10 };

/// Problems of syntax name their line.
pub fn check(channels: &Value) -> Result<(), Vec<Problem>> {
    on_small_stack(|| check_texts(channels))
}

fn check_texts(channels: &Value) -> Result<(), Vec<Problem>> {
    let parsed: Channels = match serde_json::from_value(channels.clone()) {
        Ok(parsed) => parsed,
        Err(error) => {
            return Err(vec![Problem::new("channels", "invalid", format!("channels: {error}"))]);
        }
    };
    let mut problems = Vec::new();
    let mut environment = environment();
    for (name, text) in parsed.texts() {
        problems.extend(add_text(&mut environment, &name, text).err());
    }
    if parsed.offered_channels().is_empty() {
        problems.push(Problem::new(
            "channels",
            "required",
            "channels must have content for at least one channel",
        ));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn add_text(environment: &mut Environment<'static>, name: &str, text: &str) -> Result<(), Problem> {
    let path = format!("channels.{name}");
    if let Err(UnboundedText { line, advice }) = growth::bound(text) {
        let message = format!("{path} has an error in line {line}: {advice}");
        return Err(Problem::new(path, "template_unbounded", message));
    }
    environment.add_template_owned(name.to_owned(), text.to_owned()).map_err(|error| {
        let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
        let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        Problem::new(&path, "template_syntax", format!("{path} has an error{line}{detail}"))
    })
}

/// Checks one text, which need not be that of a channel.
pub(crate) fn check_text(name: &str, text: &str) -> Result<(), Problem> {
    let checked =
        on_small_stack(|| add_text(&mut environment(), name, text).map_err(|problem| vec![problem]));
    checked.map_err(|mut problems| problems.remove(0))
}

/// Returns the texts of a template by name, such as `email.subject`. Returns none if the content has invalid members.
#[must_use]
pub fn texts(channels: &Value) -> Vec<(String, String)> {
    let parsed: Option<Channels> = serde_json::from_value(channels.clone()).ok();
    let owned =
        |parsed: &Channels| parsed.texts().into_iter().map(|(name, text)| (name, text.to_owned())).collect();
    parsed.as_ref().map(owned).unwrap_or_default()
}

/// Returns the variables that each text uses, such as `order.total`, by the name of the text. Leaves out texts that [`check`] refuses.
#[must_use]
pub fn variables(channels: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut environment = environment();
    let mut found = BTreeMap::new();
    for (name, text) in texts(channels) {
        if growth::bound(&text).is_ok()
            && environment.add_template_owned(name.clone(), text).is_ok()
            && let Ok(template) = environment.get_template(&name)
        {
            let variables = template.undeclared_variables(true).into_iter().collect();
            found.insert(name, variables);
        }
    }
    found
}

/// Renders every text of a template that passed [`check`] with sample variables: `data`, `recipient`, `app` and `category`. Without a
/// sample, most variables are undefined, so only excessive work or size counts as a problem.
pub fn check_sample(channels: &Value, sample: Option<&Object>) -> Result<(), Vec<Problem>> {
    on_small_stack(|| render_sample(channels, sample))
}

fn on_small_stack(check: impl FnOnce() -> Result<(), Vec<Problem>> + Send) -> Result<(), Vec<Problem>> {
    let refusal = |cause: &str| Err(vec![Problem::new("channels", "invalid", format!("channels: {cause}"))]);
    thread::scope(|scope| {
        let checking = thread::Builder::new().stack_size(CHECKING_STACK).spawn_scoped(scope, check);
        match checking.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => refusal("checking the template failed; this is a defect of Tidings"),
            Err(error) => refusal(&format!("cannot start a thread that checks the template: {error}")),
        }
    })
}

fn render_sample(channels: &Value, sample: Option<&Object>) -> Result<(), Vec<Problem>> {
    let template = match Template::compile(channels) {
        Ok(template) => template,
        Err(error) => return Err(vec![Problem::new("channels", "invalid", format!("channels: {error}"))]),
    };
    let nothing = Object::new();
    let variables = minijinja::Value::from(minijinja::value::Serde(sample.unwrap_or(&nothing)));
    let mut problems = Vec::new();
    for (name, _) in template.channels.texts() {
        if let Err(error) = template.render(&name, &variables)
            && (sample.is_some() || error.is_too_much())
        {
            let path = format!("channels.{name}");
            let message = format!("{path} cannot be rendered: {error}");
            problems.push(Problem::new(path, "template_error", message));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}
