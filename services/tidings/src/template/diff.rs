use operations::templates;
use serde_json::json;

use super::TemplateArguments;
use super::listing::find;
use crate::refused::InvalidInput;

/// Show what changed between two versions of a template.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings template diff shop welcome
  tidings template diff shop welcome --from 3 --to 7")]
pub(crate) struct Arguments {
    #[command(flatten)]
    template: TemplateArguments,
    /// Number of the earlier version [default: the one before the later version]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    from: Option<i32>,
    /// Number of the later version [default: the latest]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    to: Option<i32>,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let Arguments { template, from, to } = arguments;
    let (place, app) = template.options.open_app(&template.app).await?;
    let later = find(&place, &app, template, *to).await?;
    let from = from.unwrap_or(later.version - 1);
    if from == 0 {
        return Err(InvalidInput("version 1 has no earlier version; name one with --from".to_owned()).into());
    }
    let earlier = find(&place, &app, template, Some(from)).await?;
    let text = templates::diff(Some(&(&earlier).into()), &(&later).into());
    let report = json!({
        "identifier": template.identifier, "from": earlier.version, "to": later.version, "diff": text,
    });
    let same = format!("Versions {from} and {} have the same content.\n", later.version);
    Ok(template.options.report(&report, if text.is_empty() { same } else { text }))
}
