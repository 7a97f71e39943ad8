use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use domain::Channel;
use domain::content::Object;
use operations::templates::{self, Preview, Sample};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::VersionArguments;
use crate::app::AppRow;
use crate::document::DocumentSource;
use crate::place::Place;
use crate::refused::{InvalidInput, OrMissing as _};

/// Render a template as a recipient would get it, without sending anything.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"The data:
  {"order": 7, "recipient": {"identifier": "ada", "name": "Ada", "app": {"name": "Ada"}}}
                                   the `data` of a send, and the profile of one recipient
  {"title": "Shipped", "message": "It is on its way", "url": "https://shop.example/7"}
                                   for the layout of the app (`tidings app set shop email-layout=…`): a send without a template

Examples:
  tidings template preview shop welcome --data sample.json
  tidings template preview shop welcome --data sample.json --to preview
  echo '{"recipient":{"app":{"name":"Ada"}}}' | tidings template preview shop welcome --version 3 --data -"#)]
pub(crate) struct Arguments {
    #[command(flatten)]
    version: VersionArguments,
    /// JSON file with the data, or `-` for standard input [default: no data]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Folder for one file per channel (the HTML of the email as a page)
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

/// Content of each channel of a version.
struct Shown {
    version: i32,
    /// In the order of the channels. Content that cannot be rendered has the member `error`.
    channels: BTreeMap<Channel, Value>,
    missing: Vec<Missing>,
}

/// A variable without a value, and the first text that shows it.
#[derive(Serialize, Deserialize)]
struct Missing {
    variable: String,
    text: String,
}

/// A preview in the admin API.
#[derive(Deserialize)]
struct PreviewBody {
    version: i32,
    channels: Map<String, Value>,
    missing: Vec<Missing>,
}

impl From<PreviewBody> for Shown {
    fn from(body: PreviewBody) -> Shown {
        let channels = body.channels.into_iter();
        let channels = channels.filter_map(|(name, content)| Some((name.parse().ok()?, content)));
        Shown { version: body.version, channels: channels.collect(), missing: body.missing }
    }
}

impl TryFrom<Preview> for Shown {
    type Error = serde_json::Error;

    fn try_from(preview: Preview) -> Result<Shown, serde_json::Error> {
        let mut channels = BTreeMap::new();
        for (channel, content) in preview.contents {
            let shown = match content {
                Ok(content) => content.to_json()?,
                Err(error) => json!({"error": error.to_string()}),
            };
            channels.insert(channel, shown);
        }
        let missing = preview.missing.into_iter().map(|(variable, text)| Missing { variable, text });
        Ok(Shown { version: preview.version, channels, missing: missing.collect() })
    }
}

async fn preview(arguments: &Arguments) -> anyhow::Result<(AppRow, Shown)> {
    let VersionArguments { template, version } = &arguments.version;
    let data = data(arguments.data.as_deref())?;
    let (place, app) = template.options.open_app(&template.app).await?;
    let missing = || template.missing(&app.name, *version);
    let identifier = &template.identifier;
    let shown = match place {
        Place::Database(database) => {
            let of = database.app(&template.app).await?;
            let (operations, caller, sample) = (&database.operations, &database.caller, Sample::new(data));
            let found = templates::preview(operations, caller, &of, identifier, *version, sample).await;
            found.or_missing(missing)?.try_into()?
        }
        Place::Console(api) => {
            let mut body = json!({"data": data});
            if let Some(version) = version {
                body["version"] = json!(version);
            }
            let found = api.post(&[&"apps", &app.id, &"templates", identifier, &"preview"], &body).await;
            found.map(|found: PreviewBody| found.into()).or_missing(missing)?
        }
    };
    Ok((app, shown))
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let template = &arguments.version.template;
    let (app, shown) = preview(arguments).await?;
    let mut text =
        format!("Template {} of app {}, version {}\n", template.identifier, app.name, shown.version);
    for (channel, content) in &shown.channels {
        match &arguments.to {
            Some(folder) if content.get("error").is_none() => {
                for file in write(folder, *channel, content)? {
                    writeln!(text, "{}", file.display())?;
                }
            }
            _ => write!(text, "\n{channel}\n{}", lines(content))?,
        }
    }
    if !shown.missing.is_empty() {
        let named = shown.missing.iter().map(|Missing { variable, text }| format!("{variable} in {text}"));
        writeln!(
            text,
            "\nEmpty, because the data lacks it or templates do not see it: {}",
            named.collect::<Vec<_>>().join(", ")
        )?;
    }
    let report = json!({
        "identifier": template.identifier, "version": shown.version, "channels": shown.channels,
        "missing": shown.missing,
    });
    Ok(template.options.report(&report, text))
}

fn data(file: Option<&Path>) -> anyhow::Result<Object> {
    let Some(file) = file else { return Ok(Object::new()) };
    let source = DocumentSource::of(file);
    match source.read()? {
        Value::Object(data) => Ok(data),
        _ => Err(InvalidInput(format!("{} must be a JSON object", source.name())).into()),
    }
}

/// Writes each member as a line, or below its name if it has several lines.
fn lines(content: &Value) -> String {
    let mut text = String::new();
    for (name, value) in content.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if value.contains('\n') {
            let indented: Vec<_> = value.lines().map(|line| format!("    {line}")).collect();
            text.push_str(&format!("  {name}\n{}\n", indented.join("\n")));
        } else {
            text.push_str(&format!("  {name}  {value}\n"));
        }
    }
    text
}

/// Writes the files of a channel, and returns their paths.
fn write(folder: &Path, channel: Channel, content: &Value) -> anyhow::Result<Vec<PathBuf>> {
    let member = |name: &str| content[name].as_str();
    let files: Vec<(String, String)> = match channel {
        Channel::Email => {
            let subject = member("subject").unwrap_or_default();
            let text = member("text")
                .map(|text| ("email.txt".to_owned(), format!("Subject: {subject}\n\n{text}\n")));
            let html = member("html").map(|html| ("email.html".to_owned(), html.to_owned()));
            text.into_iter().chain(html).collect()
        }
        Channel::Sms => vec![("sms.txt".to_owned(), format!("{}\n", member("text").unwrap_or_default()))],
        channel => vec![(format!("{channel}.json"), format!("{content:#}\n"))],
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut written = Vec::with_capacity(files.len());
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
    }
    Ok(written)
}
