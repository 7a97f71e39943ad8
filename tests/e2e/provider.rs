//! `tidings provider`: documents from files and standard input, with secrets stored separately.

use std::time::Duration;

use domain::Channel;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use service_kit::{Config, Context};
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{Rule, SmtpSettings, SmtpStandIn, Stage};
use testkit::eventually;

use crate::directory::{Answer, Directory};
use crate::installation::Installation;

const SOON: Duration = Duration::from_secs(60);

fn document() -> Value {
    json!({
        "identifier": "main", "channel": "email", "kind": "smtp", "priority": 5,
        "settings": {
            "host": "mail.example.com", "port": 587, "security": "starttls",
            "username": "shop", "password": "hunter2", "from": "shop@example.com",
        },
    })
}

#[tokio::test]
async fn a_provider_is_set_listed_and_set_again_without_its_secret() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let file = installation.file("main.json", &document());
    let set = installation.run(&["provider", "set", "shop", &file, "--json"]).json();
    assert_eq!(set, json!({"identifier": "main", "version": 1}));

    let listed = installation.run(&["provider", "list", "shop", "--json"]);
    assert!(!listed.output.contains("hunter2"));
    let listed = listed.json();
    assert_eq!(listed[0]["settings"]["username"], "shop");
    assert_eq!((&listed[0]["hasSecret"], &listed[0]["priority"]), (&json!(true), &json!(5)));

    let mut again = document();
    again["settings"].as_object_mut().unwrap().remove("password");
    again["settings"]["host"] = json!("mail2.example.com");
    let refused = installation.run_with_input(&["provider", "set", "shop"], &again.to_string());
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("settings.password must be given again"), "{}", refused.errors);

    again["settings"]["host"] = document()["settings"]["host"].clone();
    again["settings"]["fromName"] = json!("The shop");
    let set = installation.run_with_input(&["provider", "set", "shop"], &again.to_string());
    assert_eq!(set.code, 0, "{}", set.errors);
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    let row = installation.store.control().providers(app, Channel::Email).await.unwrap().remove(0);
    assert_eq!((row.version, &row.settings["fromName"]), (2, &json!("The shop")));
    let opened = installation.master_key.open(&format!("provider:{app}:main"), &row.sealed.unwrap()).unwrap();
    let opened: Value = serde_json::from_slice(opened.expose_secret()).unwrap();
    assert_eq!(opened, json!({"password": "hunter2"}));

    again["settings"].as_object_mut().unwrap().remove("username");
    let refused = installation.run_with_input(&["provider", "set", "shop", "-"], &again.to_string());
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("null removes one"), "{}", refused.errors);

    again["settings"]["password"] = Value::Null;
    let set = installation.run_with_input(&["provider", "set", "shop", "-"], &again.to_string());
    assert_eq!(set.code, 0, "{}", set.errors);
    let row = installation.store.control().providers(app, Channel::Email).await.unwrap().remove(0);
    assert!(row.sealed.is_none(), "a server without a login needs no secret");
}

#[tokio::test]
async fn an_invalid_document_exits_2_with_every_problem_and_changes_nothing() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let mut wrong = document();
    wrong["priority"] = json!("high");
    wrong["settings"]["port"] = json!(0);
    wrong["settings"]["from"] = json!("nobody");
    let refused = installation.run_with_input(&["provider", "set", "shop"], &wrong.to_string());
    assert_eq!(refused.code, 2);
    for field in ["priority", "settings.port", "settings.from"] {
        assert!(refused.errors.contains(field), "{field} is missing in {}", refused.errors);
    }
    assert!(!refused.errors.contains("hunter2"));

    let mut unknown = document();
    unknown["channel"] = json!("sms");
    let refused = installation.run_with_input(&["provider", "set", "shop"], &unknown.to_string());
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("email/smtp"), "{}", refused.errors);

    let mut keeps_nothing = document();
    keeps_nothing["settings"].as_object_mut().unwrap().remove("password");
    let refused = installation.run_with_input(&["provider", "set", "shop"], &keeps_nothing.to_string());
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("settings.password"), "{}", refused.errors);

    let refused = installation.run_with_input(&["provider", "set", "shop"], "{\n  \"identifier\" \"main\"}");
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("line 2"), "{}", refused.errors);
    assert_eq!(installation.run(&["provider", "set", "shop", "absent.json"]).code, 1);
    assert_eq!(installation.run_with_input(&["provider", "set", "shoe"], &document().to_string()).code, 1);
    assert_eq!(installation.run(&["provider", "list", "shop", "--json"]).json(), json!([]));
}

#[tokio::test]
async fn a_dry_run_reports_the_effect_of_a_document_and_changes_nothing() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let file = installation.file("main.json", &document());
    let set = ["provider", "set", "shop", &file, "--dry-run"];
    let foretold = installation.run(&set);
    assert_eq!(foretold.code, 0, "{}", foretold.errors);
    assert!(foretold.output.contains("would be created") && foretold.output.contains("password"));
    assert!(!foretold.output.contains("hunter2"));
    assert_eq!(installation.run(&["provider", "list", "shop", "--json"]).json(), json!([]));

    installation.run(&set[..4]);
    let mut again = document();
    again["settings"].as_object_mut().unwrap().remove("password");
    let foretold = installation
        .run_with_input(&["provider", "set", "shop", "--dry-run", "--json"], &again.to_string())
        .json();
    let expected = json!({
        "identifier": "main", "version": 2, "dryRun": true, "secretsGiven": [], "secretsKept": ["password"],
    });
    assert_eq!(foretold, expected);
    again["settings"]["port"] = json!(0);
    let refused = installation.run_with_input(&["provider", "set", "shop", "--dry-run"], &again.to_string());
    assert_eq!(refused.code, 2);
    assert_eq!(installation.run(&["provider", "list", "shop", "--json"]).json()[0]["version"], 1);
}

#[tokio::test]
async fn a_shown_document_can_be_set_again_and_a_provider_can_be_disabled_and_removed() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    installation.run_with_input(&["provider", "set", "shop"], &document().to_string());
    let shown = installation.run(&["provider", "show", "shop", "main"]);
    assert!(!shown.output.contains("hunter2"));
    let set = installation.run_with_input(&["provider", "set", "shop", "--json"], &shown.output);
    assert_eq!(set.json(), json!({"identifier": "main", "version": 2}));
    assert_eq!(installation.run(&["provider", "show", "shop", "main", "--json"]).json()["hasSecret"], true);

    let disabled = installation.run(&["provider", "disable", "shop", "main", "--json"]).json();
    assert_eq!(disabled, json!({"identifier": "main", "enabled": false, "version": 3}));
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    assert!(installation.store.control().providers(app, Channel::Email).await.unwrap().is_empty());
    assert!(installation.run(&["provider", "enable", "shop", "main"]).output.contains("Enabled"));
    assert_eq!(installation.store.control().providers(app, Channel::Email).await.unwrap().len(), 1);

    assert_eq!(installation.run(&["provider", "remove", "shop", "main"]).code, 0);
    for command in ["show", "enable", "disable", "remove", "test"] {
        let unknown = installation.run(&["provider", command, "shop", "main"]);
        assert_eq!(unknown.code, 1, "{command}");
        assert!(unknown.errors.contains("tidings provider list"), "{}", unknown.errors);
    }
}

/// Runs commands on the servers of an installation whose email worker runs in this process.
struct Tested {
    installation: testkit::Installation,
    directory: Directory,
    environment: Vec<(String, String)>,
}

impl Tested {
    async fn start() -> Tested {
        let installation = testkit::Installation::start(|_| {}).await;
        let environment = installation.servers.environment();
        Tested { installation, directory: Directory::new(), environment }
    }

    fn run(&self, arguments: &[&str], input: &Value) -> Answer {
        let variables = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.directory.run_with(arguments, &variables.collect::<Vec<_>>(), &input.to_string())
    }

    fn test(&self, further: &[&str]) -> (Answer, Value) {
        let arguments = [&["provider", "test", "shop", "main", "--json"], further].concat();
        let answer = self.run(&arguments, &Value::Null);
        let reported = serde_json::from_str(&answer.output).unwrap_or_else(|_| panic!("{answer:?}"));
        (answer, reported)
    }

    fn set(&self, document: &Value) {
        let set = self.run(&["provider", "set", "shop"], document);
        assert_eq!(set.code, 0, "{}", set.errors);
    }

    /// Starts a worker, and waits until it answers.
    async fn serve(&self, allow_private: bool) -> Context {
        let mut config = Config::clone(&self.installation.context.config);
        config.outbound.allow_private = allow_private;
        let context = Context::connect(config).await.unwrap();
        context.serve("email", email::run);
        eventually(SOON, "the worker answers", async || {
            (self.test(&[]).1["code"] != "no_worker").then_some(())
        })
        .await;
        context
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_test_is_made_by_a_worker_and_reports_the_answer() {
    let login = Some(("shop".to_owned(), "hunter2".to_owned()));
    let settings = SmtpSettings { login, ..SmtpSettings::default() };
    let server = SmtpStandIn::start(settings, Outbox::in_memory()).await.unwrap();
    let tested = Tested::start().await;
    tested.run(&["app", "create", "shop"], &Value::Null);
    let mut document = document();
    document["settings"]["host"] = json!("127.0.0.1");
    document["settings"]["port"] = json!(server.address().port());
    document["settings"]["security"] = json!("none");
    tested.set(&document);
    let (answer, reported) = tested.test(&[]);
    assert_eq!((answer.code, &reported["code"]), (1, &json!("no_worker")));
    assert!(answer.errors.contains("is `tidings run email` running?"), "{}", answer.errors);

    // The configuration of the worker counts, not that of the command.
    let guarding = tested.serve(false).await;
    let (_, guarded) = tested.test(&[]);
    assert_eq!((&guarded["passed"], &guarded["code"]), (&json!(false), &json!("insecure_login")));
    assert!(guarded["advice"].as_str().unwrap().contains("TLS"), "{guarded}");
    document["settings"]["security"] = json!("tls");
    tested.set(&document);
    let (_, guarded) = tested.test(&[]);
    assert_eq!((&guarded["passed"], &guarded["code"]), (&json!(false), &json!("not_public")));
    guarding.tasks.stop();
    guarding.finish().await.unwrap();
    document["settings"]["security"] = json!("none");
    tested.set(&document);
    let worker = tested.serve(true).await;
    reports_answers(&tested, &server, document);
    worker.tasks.stop();
}

fn reports_answers(tested: &Tested, server: &SmtpStandIn, mut document: Value) {
    let (answer, passed) = tested.test(&[]);
    assert_eq!((answer.code, &passed["passed"], &passed["identifier"]), (0, &json!(true), &json!("main")));
    assert!(passed["proved"].as_str().unwrap().contains("accepted the password of shop"), "{passed}");
    assert!(server.outbox().captures().is_empty(), "a provider test must not send an email");

    server.script(Rule::stall(Stage::Connect));
    let (answer, reported) = tested.test(&["--timeout", "300ms"]);
    assert_eq!(
        (answer.code, &reported["code"], &reported["outcome"]),
        (1, &json!("timeout"), &json!("retry"))
    );

    document["settings"]["password"] = json!("wrong-canary");
    tested.set(&document);
    let (refused, reported) = tested.test(&[]);
    assert_eq!((refused.code, &reported["outcome"]), (1, &json!("pause_provider")));
    assert!(reported["code"].as_str().unwrap().starts_with("535"), "{reported}");
    assert!(refused.errors.contains("check the credentials"), "{}", refused.errors);
    assert!(!(refused.output + &refused.errors).contains("wrong-canary"));
}

#[tokio::test]
async fn no_command_and_no_column_shows_a_secret() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let document = document().to_string().replace("hunter2", "canary-7f3a");
    let mut said = String::new();
    for arguments in [
        &["provider", "set", "shop", "--dry-run"][..],
        &["provider", "set", "shop"],
        &["provider", "set", "shop", "--json"],
        &["provider", "list", "shop"],
        &["provider", "list", "shop", "--json"],
        &["provider", "show", "shop", "main"],
        &["provider", "test", "shop", "main", "--timeout", "1ms", "--json"],
        &["provider", "disable", "shop", "main"],
    ] {
        let variables = [("TIDINGS_LOG__LEVEL", "trace"), ("RUST_LOG", "trace")];
        let answer = installation.run_configured(arguments, &variables, &document);
        said += &(answer.output + &answer.errors);
    }
    assert!(said.contains("main") && !said.contains("canary-7f3a"), "{said}");
    let broken = document.replace("587", "0");
    let refused = installation.run_with_input(&["provider", "set", "shop"], &broken);
    assert!(refused.code == 2 && !refused.errors.contains("canary-7f3a"), "{}", refused.errors);
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    let listed = format!("{:?}", installation.store.control().list_providers(app).await.unwrap());
    let sealed =
        installation.store.control().provider(app, "main").await.unwrap().unwrap().row.sealed.unwrap();
    assert!(!listed.contains("canary-7f3a"));
    assert!(!String::from_utf8_lossy(&sealed).contains("canary-7f3a"));
}
