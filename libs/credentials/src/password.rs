//! Passwords of operators, hashed with Argon2id (RFC 9106).

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use secrecy::ExposeSecret;

use crate::secrets::{SecretsError, constant_time_eq, random_bytes};

/// Memory in KiB, passes and lanes, as OWASP recommends for a server.
const COST: [u32; 3] = [19 * 1024, 2, 1];
/// Costs beyond these are not computed: a changed row could otherwise exhaust the memory of the process.
const MOST: [u32; 3] = [256 * 1024, 16, 4];
const SALT_LENGTH: usize = 16;
const HASH_LENGTH: usize = 32;

/// Hashes a password with a new salt, into a PHC string. Takes some 20 ms and 19 MiB.
pub fn hash(password: &str) -> Result<String, SecretsError> {
    let salt = random_bytes(SALT_LENGTH)?;
    let salt = salt.expose_secret();
    let hash = derive(password, salt, COST).ok_or(SecretsError::Random)?;
    let [memory, passes, lanes] = COST;
    let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
    Ok(format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${hash}"))
}

/// Returns true if `stored`, a string of [`hash`], was made from the password.
#[must_use]
pub fn verify(password: &str, stored: &str) -> bool {
    let Some((cost, salt, expected)) = parse(stored) else { return false };
    derive(password, &salt, cost).is_some_and(|hash| constant_time_eq(&hash, &expected))
}

fn derive(password: &str, salt: &[u8], [memory, passes, lanes]: [u32; 3]) -> Option<[u8; HASH_LENGTH]> {
    let params = Params::new(memory, passes, lanes, Some(HASH_LENGTH)).ok()?;
    let mut hash = [0; HASH_LENGTH];
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon.hash_password_into(password.as_bytes(), salt, &mut hash).ok()?;
    Some(hash)
}

fn parse(stored: &str) -> Option<([u32; 3], Vec<u8>, Vec<u8>)> {
    let mut parts = stored.strip_prefix("$argon2id$v=19$")?.split('$');
    let mut costs = parts.next()?.split(',');
    let mut cost = |name: &str, most: u32| {
        let cost: u32 = costs.next()?.strip_prefix(name)?.parse().ok()?;
        (cost <= most).then_some(cost)
    };
    let [memory, passes, lanes] = MOST;
    let cost = [cost("m=", memory)?, cost("t=", passes)?, cost("p=", lanes)?];
    let mut bytes = || STANDARD_NO_PAD.decode(parts.next()?).ok();
    Some((cost, bytes()?, bytes()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_that_was_hashed_is_verified() {
        let stored = hash("correct horse battery").unwrap();
        assert!(verify("correct horse battery", &stored));
        assert!(!verify("correct horse batterz", &stored));
        assert_ne!(stored, hash("correct horse battery").unwrap(), "each hash has its own salt");
    }

    #[test]
    fn a_hash_of_the_reference_implementation_is_verified() {
        let stored = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        assert!(verify("password", stored));
        assert!(!verify("Password", stored));
    }

    #[test]
    fn a_damaged_hash_verifies_no_password() {
        let stored = hash("secret").unwrap();
        for damaged in ["", "secret", &stored[..stored.len() - 8], &stored.replace("m=19456", "m=4000000000")]
        {
            assert!(!verify("secret", damaged), "{damaged}");
        }
    }
}
