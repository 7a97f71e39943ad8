//! Tests of TLS, client certificates and `.creds` files, on a server that requires them.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use event_log::{Access, EventLog, Settings};
use local_servers::NatsServer;
use nkeys::KeyPair;
use serde_json::{Value, json};
use stand_ins::tls::{Authority, CertificatePem};

use crate::world::settings;

fn with(server: &NatsServer, access: &Access) -> Settings {
    Settings { access: access.clone(), ..settings(server.url()) }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn write_pair(folder: &Path, name: &str, pair: &CertificatePem) -> (PathBuf, PathBuf) {
    let certificate = write(folder, &format!("{name}.pem"), &pair.certificate);
    (certificate, write(folder, &format!("{name}.key"), &pair.key))
}

#[tokio::test]
async fn a_private_authority_is_trusted_by_its_file_and_the_server_requires_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let ca_file = write(folder.path(), "ca.pem", ours.pem());
    let (certificate, key) = write_pair(folder.path(), "server", ours.server_pem());
    let server = NatsServer::start_with(&format!(
        "tls {{ cert_file: {certificate:?}, key_file: {key:?}, ca_file: {ca_file:?}, verify: true }}\n"
    ))
    .await
    .unwrap();

    let client = write_pair(folder.path(), "client", ours.client());
    let access = Access { ca_file: Some(ca_file), certificate: Some(client), credentials_file: None };
    EventLog::connect(with(&server, &access)).await.unwrap().ping().await.unwrap();

    let unknown_authority =
        Access { ca_file: Some(write(folder.path(), "other.pem", other.pem())), ..access.clone() };
    let no_certificate = Access { certificate: None, ..access.clone() };
    let absent = Access { ca_file: Some("/absent/ca.pem".into()), ..access };
    for (access, cause) in [
        (unknown_authority, "invalid peer certificate"),
        (no_certificate, "ertificate"),
        (absent, "No such file"),
    ] {
        let error = EventLog::connect(with(&server, &access)).await.err().unwrap();
        assert!(error.is_permanent() && error.reason.contains(cause), "{error}");
    }
}

/// Creates a JWT for nats-server, signed with the key of the issuer.
fn jwt(issuer: &KeyPair, subject: &KeyPair, name: &str, claims: &Value) -> String {
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let payload = json!({
        "jti": name, "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject.public_key(), "name": name,
        "nats": claims,
    });
    let signed = [header, payload].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test]
async fn a_credentials_file_logs_in_by_jwt_and_seed() {
    let folder = tempfile::tempdir().unwrap();
    let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
    let (system, user) = (KeyPair::new_account(), KeyPair::new_user());
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
        "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let of_account = json!({"type": "account", "version": 2, "limits": limits});
    let of_system = json!({"type": "account", "version": 2, "limits": {
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
    }});
    let of_operator = json!({
        "type": "operator", "version": 2, "system_account": system.public_key(),
    });
    let of_user =
        json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}});
    let server = NatsServer::start_with(&format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}\n",
        jwt(&operator, &operator, "operator", &of_operator),
        system.public_key(),
        account.public_key(),
        jwt(&operator, &account, "tidings", &of_account),
        system.public_key(),
        jwt(&operator, &system, "system", &of_system),
    ))
    .await
    .unwrap();

    let credentials = |user: &KeyPair, jwt: &str| {
        let seed = user.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    };
    let login = jwt(&account, &user, "services", &of_user);
    let right = write(folder.path(), "right.creds", &credentials(&user, &login));
    let access = Access { credentials_file: Some(right), ..Access::default() };
    EventLog::connect(with(&server, &access)).await.unwrap().ping().await.unwrap();

    let stolen = write(folder.path(), "stolen.creds", &credentials(&KeyPair::new_user(), &login));
    for (file, cause) in [(stolen, "authorization violation"), ("/absent/creds".into(), "/absent/creds")] {
        let access = Access { credentials_file: Some(file), ..Access::default() };
        let error = EventLog::connect(with(&server, &access)).await.err().unwrap();
        assert!(error.is_permanent() && error.reason.contains(cause), "{error}");
    }
}
