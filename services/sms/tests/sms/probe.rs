use domain::Outcome;
use serde_json::json;
use stand_ins::smsc::{Reaction, Rule, Stage};
use worker::Outbound;

use crate::fixture::{assert_answer, captures, http, probe, smsc, twilio};

#[tokio::test]
async fn a_probe_verifies_the_credential_without_sending() {
    let outbound = Outbound::new(true);
    let (server, line) = twilio().await;
    let proved = probe(outbound, &line.provider).await.unwrap();
    assert!(proved.starts_with("Twilio accepted the credential of account AC"), "{proved}");
    assert_eq!(server.requests(), 1);
    let (server, line) = http().await;
    assert_eq!(probe(outbound, &line.provider).await.unwrap(), "settings.probeUrl answered 200");
    assert!(captures(server.outbox()).is_empty());
    let (server, line) = smsc().await;
    let proved = probe(outbound, &line.provider).await.unwrap();
    assert_eq!(proved, "127.0.0.1 accepted a bind of shop as a transceiver");
    assert_eq!((server.binds(), server.unbinds(), server.submissions()), (1, 1, 0));
}

#[tokio::test]
async fn a_probe_reports_the_problem() {
    let outbound = Outbound::new(true);
    let z = Outcome::PauseProvider;
    let (_server, mut line) = twilio().await;
    line.provider.settings["authToken"] = json!("wrong");
    assert_answer(&probe(outbound, &line.provider).await.unwrap_err(), &z, "20003");
    let (_server, mut line) = http().await;
    line.provider.settings["secretHeaders"] = json!({"authorization": "Bearer wrong"});
    assert_answer(&probe(outbound, &line.provider).await.unwrap_err(), &z, "401");
    line.provider.settings["probeUrl"] = json!(null);
    assert_answer(&probe(outbound, &line.provider).await.unwrap_err(), &Outcome::Failed, "no_probe");
    let (server, mut line) = smsc().await;
    line.provider.settings["password"] = json!("wrong");
    assert_answer(&probe(outbound, &line.provider).await.unwrap_err(), &z, "ESME_RINVPASWD");
    server.script(Rule::new(Stage::Bind, Reaction::CutBefore));
    assert_answer(&probe(outbound, &line.provider).await.unwrap_err(), &Outcome::RETRY, "connect");
    line.provider.kind = "fax".to_owned();
    assert_answer(&probe(outbound, &line.provider).await.unwrap_err(), &z, "settings");
}
