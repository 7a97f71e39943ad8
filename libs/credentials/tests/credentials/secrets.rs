use std::fs;
use std::os::unix::fs::PermissionsExt;

use credentials::secrets::{self, MasterKey, SecretsError};
use secrecy::ExposeSecret;
use service_kit::Config;

#[test]
fn a_sealed_secret_opens_only_for_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let key = MasterKey::generate_file(&folder.path().join("key")).unwrap();
    let sealed = key.seal("provider:1:main", b"password").unwrap();
    assert!(!sealed.windows(8).any(|window| window == b"password"));
    assert_ne!(sealed, key.seal("provider:1:main", b"password").unwrap(), "each call uses a new record key");
    assert_eq!(key.open("provider:1:main", &sealed).unwrap().expose_secret(), b"password");
    assert!(matches!(key.open("provider:2:main", &sealed), Err(SecretsError::Damaged { .. })));
    let empty = key.seal("a", b"").unwrap();
    assert_eq!(key.open("a", &empty).unwrap().expose_secret(), b"");
}

#[test]
fn every_changed_or_missing_byte_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let key = MasterKey::generate_file(&folder.path().join("key")).unwrap();
    let sealed = key.seal("a", b"secret").unwrap();
    for place in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[place] ^= 1;
        assert!(key.open("a", &changed).is_err(), "opened with byte {place} changed");
        assert!(key.open("a", &sealed[..place]).is_err(), "opened from only the first {place} bytes");
    }
}

#[test]
fn a_secret_of_another_master_key_is_reported_with_its_key_id() {
    let folder = tempfile::tempdir().unwrap();
    let one = MasterKey::generate_file(&folder.path().join("one")).unwrap();
    let two = MasterKey::generate_file(&folder.path().join("two")).unwrap();
    let sealed = one.seal("a", b"secret").unwrap();
    let error = two.open("a", &sealed).unwrap_err();
    assert!(matches!(&error, SecretsError::OtherKey { .. }), "{error}");
    assert!(error.to_string().contains(&one.id()) && error.to_string().contains(&two.id()), "{error}");
    let loaded = MasterKey::load(&folder.path().join("one")).unwrap();
    assert_eq!(loaded.open("a", &sealed).unwrap().expose_secret(), b"secret");
}

#[test]
fn during_a_rotation_both_keys_open_and_the_new_one_seals() {
    let folder = tempfile::tempdir().unwrap();
    let (old_file, new_file) = (folder.path().join("old"), folder.path().join("new"));
    let (old, new) =
        (MasterKey::generate_file(&old_file).unwrap(), MasterKey::generate_file(&new_file).unwrap());
    let mut security = Config::default().security;
    assert!(matches!(MasterKey::configured(&security), Err(SecretsError::NotConfigured)));
    security.master_key_file = Some(new_file);
    security.previous_master_key_file = Some(old_file);
    let both = MasterKey::configured(&security).unwrap();
    assert_eq!((both.id(), both.previous_id()), (new.id(), Some(old.id())));

    let before = old.seal("a", b"secret").unwrap();
    assert_eq!(both.open("a", &before).unwrap().expose_secret(), b"secret");
    assert!(both.open("b", &before).is_err() && both.reseal("b", &before).is_err());
    let after = both.reseal("a", &before).unwrap();
    assert!(after.starts_with(&both.header()) && !before.starts_with(&both.header()));
    assert_eq!(new.open("a", &after).unwrap().expose_secret(), b"secret");
    assert!(matches!(old.open("a", &after), Err(SecretsError::OtherKey { .. })));
    security.previous_master_key_file = Some(folder.path().join("absent"));
    assert!(MasterKey::configured(&security).is_err(), "a configured key file must exist");
}

#[test]
fn a_key_file_is_private_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    MasterKey::generate_file(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    assert!(matches!(MasterKey::generate_file(&path), Err(SecretsError::File { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    // A unit test in `secrets` covers files owned by root that a group may read.
    for mode in [0o660, 0o604, 0o620] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = MasterKey::load(&path).unwrap_err();
        assert!(matches!(error, SecretsError::Exposed { .. }), "{mode:o}: {error}");
    }
}

#[test]
fn an_invalid_key_file_is_refused_without_showing_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    for text in ["", "hunter2", "aHVudGVyMg==", &"A".repeat(88)] {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = MasterKey::load(&path).unwrap_err();
        assert!(matches!(error, SecretsError::NotAKey { .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[test]
fn tokens_differ_and_are_safe_in_a_url() {
    let one = secrets::random_token("sk_", 32).unwrap();
    assert_ne!(one, secrets::random_token("sk_", 32).unwrap());
    assert_eq!(one.len(), 3 + 43);
    assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{one}");
}

#[test]
fn hashes_and_comparisons_match_known_values() {
    assert_eq!(secrets::sha256(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
    // RFC 4231, test case 2.
    let tag = secrets::hmac_sha256(b"Jefe", b"what do ya want for nothing?");
    assert_eq!(tag[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    assert!(secrets::constant_time_eq(b"abc", b"abc") && secrets::constant_time_eq(b"", b""));
    assert!(!secrets::constant_time_eq(b"abc", b"abd") && !secrets::constant_time_eq(b"abc", b"ab"));
}

#[test]
fn redacted_values_are_not_printed() {
    let value = service_kit::Redacted("a@example.org");
    assert_eq!(format!("{value} {value:?} {:?}", Some(&value)), "[redacted] [redacted] Some([redacted])");
}
