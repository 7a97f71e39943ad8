use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use domain::Channel;
use domain::content::{Content, EmailContent, Object};
use operations::sends::dry_run::RenderedContent;
use operations::templates::{self, Sample};
use serde::Serialize;
use serde_json::{Value, json};

use super::VersionArguments;
use crate::control_plane::ControlPlane;
use crate::document::DocumentSource;
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

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let VersionArguments { template, version } = &arguments.version;
    let sample = Sample::new(data(arguments.data.as_deref())?);
    let (control_plane, app) = template.options.open_app(&template.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let preview =
        templates::preview(&operations, &caller, &app, &template.identifier, *version, sample).await;
    let preview = preview.or_missing(|| template.missing(&app.name, *version))?;
    let mut report = json!({"identifier": template.identifier, "version": preview.version, "channels": {}});
    let mut text =
        format!("Template {} of app {}, version {}\n", template.identifier, app.name, preview.version);
    for (channel, content) in &preview.contents {
        let shown = match content {
            Ok(content) => content.to_json()?,
            Err(error) => json!({"error": error.to_string()}),
        };
        match (&arguments.to, content) {
            (Some(folder), Ok(content)) => {
                for file in write(folder, *channel, content)? {
                    writeln!(text, "{}", file.display())?;
                }
            }
            _ => write!(text, "\n{channel}\n{}", lines(&shown))?,
        }
        report["channels"][channel.as_str()] = shown;
    }
    if !preview.missing.is_empty() {
        let named = preview.missing.iter().map(|(variable, shown)| format!("{variable} in {shown}"));
        writeln!(
            text,
            "\nEmpty, because the data lacks it or templates do not see it: {}",
            named.collect::<Vec<_>>().join(", ")
        )?;
    }
    let missing = preview.missing.iter().map(|(variable, text)| json!({"variable": variable, "text": text}));
    report["missing"] = missing.collect();
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
fn write(folder: &Path, channel: Channel, content: &RenderedContent) -> anyhow::Result<Vec<PathBuf>> {
    let files = match content {
        RenderedContent::External(Content::Email(email)) => of_email(email),
        RenderedContent::External(Content::Sms(sms)) => {
            vec![("sms.txt".to_owned(), format!("{}\n", sms.text))]
        }
        RenderedContent::InApp(content) => vec![(format!("{channel}.json"), pretty(content)?)],
        RenderedContent::External(Content::Push(content)) => {
            vec![(format!("{channel}.json"), pretty(content)?)]
        }
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

fn of_email(email: &EmailContent) -> Vec<(String, String)> {
    let text = email
        .text
        .as_ref()
        .map(|text| ("email.txt".to_owned(), format!("Subject: {}\n\n{text}\n", email.subject)));
    let html = email.html.as_ref().map(|html| ("email.html".to_owned(), html.clone()));
    text.into_iter().chain(html).collect()
}

fn pretty(content: &impl Serialize) -> serde_json::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(content)?))
}
