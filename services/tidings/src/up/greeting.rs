use std::path::{Path, PathBuf};

use crate::data_directory;
use crate::dev_file::DevFile;
use crate::shell;

/// Text that `tidings up` prints when it is ready. Each address answers a browser with a page.
pub(super) fn text(dev: &DevFile, data_directory: &Path) -> String {
    let DevFile { api, shop, console, metrics, outbox, api_key, api_secret, header_prefix: prefix, .. } = dev;
    let metrics = metrics.trim_end_matches("/metrics");
    let commands = commands(data_directory);
    let steps = steps(&Steps { api, outbox, api_key, api_secret, prefix, commands: &commands });
    format!(
        r#"
Tidings is running.

  Start here     {api}
  Guide          {api}/guide
  API reference  {api}/docs
  Demo shop      {shop}   a page with an inbox; open it in two windows
  Console        {console}   what became of every send; the link signs you in, once
  Outbox         {outbox}   every email, SMS and push, as it looks
  Metrics        {metrics}
{steps}
Ctrl-C stops everything; the next start continues with the same data.
"#
    )
}

/// Commands of the program, for the directory in which `tidings up` was started.
fn commands(data_directory: &Path) -> String {
    let is_default = std::path::absolute(data_directory::DEFAULT).is_ok_and(|path| path == data_directory);
    let option = if is_default { String::new() } else { format!(" --data-dir {}", quoted(data_directory)) };
    let path = std::env::current_exe().ok().as_deref().and_then(directory_to_add);
    let path = path.map(|path| format!("  export PATH={}:$PATH\n", quoted(&path))).unwrap_or_default();
    format!("{path}  tidings demo send{option}\n\nOr with the API:\n\n")
}

/// Returns the directory of the program, unless `PATH` finds the program already.
fn directory_to_add(program: &Path) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|path| path.join("tidings")).find(|path| path.is_file());
    let is_found = found.is_some_and(|found| found.canonicalize().ok() == program.canonicalize().ok());
    if is_found { None } else { program.parent().map(Path::to_owned) }
}

fn quoted(path: &Path) -> String {
    shell::quoted(&path.display().to_string())
}

pub(crate) struct Steps<'a> {
    pub(crate) api: &'a str,
    pub(crate) outbox: &'a str,
    pub(crate) api_key: &'a str,
    pub(crate) api_secret: &'a str,
    pub(crate) prefix: &'a str,
    /// Lines before those with `curl`.
    pub(crate) commands: &'a str,
}

pub(crate) fn steps(steps: &Steps<'_>) -> String {
    let Steps { api, outbox, api_key, api_secret, prefix, commands } = steps;
    format!(
        r#"
Try it in another terminal:

{commands}  KEY={api_key} SECRET={api_secret}
  API={api} OUTBOX={outbox}
  api() {{
    curl -sS -H "{prefix}-API-KEY: $KEY" -H "{prefix}-API-SECRET: $SECRET" \
      -H 'Content-Type: application/json' "$@"; echo
  }}

  # A user with an email address
  api -X PUT $API/v3/users/ada -d '{{"email": "ada@example.com"}}'

  # A send
  SENT=$(api $API/v3/notifications -d '{{"sendTo": {{"recipients": ["ada"]}},
    "notification": {{"title": "Hello Ada", "message": "Your parcel is on its way."}}}}')
  echo "$SENT"; sleep 1

  # The user's inbox; the email, as the stand-in for a mail server received it
  curl -sS $API/v3/notifications -H "{prefix}-API-KEY: $KEY" -H '{prefix}-USER-ID: ada'; echo
  curl -sS "$OUTBOX/messages?channel=email&to=ada@example.com"; echo

  # The outcome of the send
  api $API/v3/requests/$(echo "$SENT" | cut -d '"' -f 4)/deliveries

  # The API reference, with these credentials in its examples
  echo "$API/docs#KEY=$KEY&SECRET=$SECRET&USER=ada"
"#
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Steps, quoted, steps};

    #[test]
    fn the_printed_steps_fit_into_a_terminal_and_name_each_credential_once() {
        let (api_key, api_secret) = ("k".repeat(24), "s".repeat(48));
        let text = steps(&Steps {
            api: "http://127.0.0.1:31999",
            outbox: "http://127.0.0.1:31999",
            api_key: &api_key,
            api_secret: &api_secret,
            prefix: "X-SERVICE",
            commands: "",
        });
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        assert_eq!((text.matches(&api_key).count(), text.matches(&api_secret).count()), (1, 1));
    }

    #[test]
    fn paths_are_quoted_only_if_a_shell_would_change_them() {
        assert_eq!(quoted(Path::new("/srv/tidings-1.0/bin")), "/srv/tidings-1.0/bin");
        assert_eq!(quoted(Path::new("/home/ada's files")), r"'/home/ada'\''s files'");
    }
}
