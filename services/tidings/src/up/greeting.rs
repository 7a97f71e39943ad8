use crate::dev_file::DevFile;

pub(super) fn text(dev: &DevFile, prefix: &str) -> String {
    let DevFile { api, shop, metrics, outbox, push_service, app_id, api_key, api_secret, .. } = dev;
    let steps = steps(&Steps { api, outbox, api_key, api_secret, prefix });
    format!(
        r#"
Tidings is running.

  API      {api}/v3
  docs     {api}/docs#KEY={api_key}&SECRET={api_secret}&USER=ada (its examples have the demo app's credentials)
  demo     {shop} (a page with the inbox; open it in two windows)
  metrics  {metrics}
  outbox   {outbox}/messages
  push     {push_service}
  app      {app_id} (demo)
{steps}
Ctrl-C stops everything; the next start continues with the same data.
"#
    )
}

pub(crate) struct Steps<'a> {
    pub(crate) api: &'a str,
    pub(crate) outbox: &'a str,
    pub(crate) api_key: &'a str,
    pub(crate) api_secret: &'a str,
    pub(crate) prefix: &'a str,
}

pub(crate) fn steps(Steps { api, outbox, api_key, api_secret, prefix }: &Steps<'_>) -> String {
    let app = format!("-H '{prefix}-API-KEY: {api_key}' -H '{prefix}-API-SECRET: {api_secret}'");
    let user = format!("-H '{prefix}-API-KEY: {api_key}' -H '{prefix}-USER-ID: ada'");
    let json = "-H 'Content-Type: application/json'";
    let send = r#"{"notification":{"title":"Hello Ada","message":"Your parcel is on its way."},"sendTo":{"recipients":["ada"]}}"#;
    format!(
        r#"
Try it in another terminal:

  # A user with an email address
  curl -sS -X PUT {api}/v3/users/ada {app} {json} -d '{{"email":"ada@example.com"}}'; echo

  # A send
  SENT=$(curl -sS -X POST {api}/v3/notifications {app} {json} -d '{send}'); echo "$SENT"; sleep 1

  # The user's inbox
  curl -sS {api}/v3/notifications {user}; echo

  # The email, as the local provider stand-in received it
  curl -sS '{outbox}/messages?channel=email&to=ada@example.com'; echo

  # The outcome of the send
  REQUEST=$(echo "$SENT" | cut -d '"' -f 4)
  curl -sS {api}/v3/requests/$REQUEST {app}; echo
  curl -sS {api}/v3/requests/$REQUEST/deliveries {app}; echo
"#
    )
}
