use operations::templates;
use serde_json::json;

use super::TemplateArguments;
use crate::control_plane::ControlPlane;
use crate::refused::{InvalidInput, OrMissing as _};

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
    let (control_plane, app) = template.options.open_app(&template.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let find = |version| templates::find(&operations, &caller, app.id, &template.identifier, version);
    let later = find(*to).await.or_missing(|| template.missing(&app.name, *to))?;
    let from = from.unwrap_or(later.version - 1);
    if from == 0 {
        return Err(InvalidInput("version 1 has no earlier version; name one with --from".to_owned()).into());
    }
    let earlier = find(Some(from)).await.or_missing(|| template.missing(&app.name, Some(from)))?;
    let text = templates::diff(Some(&(&earlier).into()), &(&later).into());
    let report = json!({
        "identifier": template.identifier, "from": earlier.version, "to": later.version, "diff": text,
    });
    let same = format!("Versions {from} and {} have the same content.\n", later.version);
    Ok(template.options.report(&report, if text.is_empty() { same } else { text }))
}
