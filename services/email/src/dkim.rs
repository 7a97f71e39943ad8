//! DKIM signatures of emails (RFC 6376), with relaxed canonicalization and an RSA or Ed25519 key (RFC 8463).

use std::fmt::{self, Debug, Write};

use aws_lc_rs::digest::{Context, SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::settings::SettingsReader;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use crate::settings::line;

/// Header fields that a signature covers. If the email has a field N times, the tag `h=` lists its name N + 1 times. So
/// the signature breaks if another field of that name is added later.
const SIGNED: &[&str] = &[
    "From",
    "To",
    "Cc",
    "Reply-To",
    "Subject",
    "Date",
    "Message-ID",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
];
const LINE: usize = 70;

pub(crate) struct Signer {
    domain: String,
    selector: String,
    key: Key,
}

enum Key {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn read(reader: &mut SettingsReader) -> Option<Signer> {
        let domain = name(reader, "domain");
        let selector = name(reader, "selector");
        let key = reader.required_as("privateKey", SettingsReader::lines).and_then(|pem| {
            let key = Key::read(&pem);
            if key.is_none() {
                let says = "must be an RSA key of 2048 to 8192 bits or an Ed25519 key, as PEM";
                reader.problem("privateKey", "invalid", says);
            }
            key
        });
        Some(Signer { domain: domain?, selector: selector?, key: key? })
    }

    /// Builds the header field `DKIM-Signature` of an email. Each piece of `body` consists of whole lines; `at` is the
    /// Unix time in seconds. Returns None if the key cannot sign.
    pub(crate) fn sign<'a>(
        &self,
        headers: &str,
        body: impl Iterator<Item = &'a str>,
        at: u64,
    ) -> Option<String> {
        let fields = fields(headers);
        let (names, mut signed) = covered(&fields);
        let mut field = format!(
            "DKIM-Signature: v=1; a={}; c=relaxed/relaxed; d={};\r\n s={}; t={at};\r\n h={};\r\n bh={};\r\n b=",
            self.key.algorithm(),
            self.domain,
            self.selector,
            names.join(":\r\n "),
            STANDARD.encode(body_hash(body)),
        );
        // The signed text ends with the field `DKIM-Signature` itself, without its line end (RFC 6376 section 3.7).
        push_relaxed(&mut signed, &field);
        let signature = STANDARD.encode(self.key.sign(signed.as_bytes())?);
        let mut rest = signature.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(LINE));
            write!(field, "\r\n {line}").ok()?;
            rest = after;
        }
        field.push_str("\r\n");
        Some(field)
    }
}

impl Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("domain", &self.domain).field("selector", &self.selector).finish()
    }
}

impl Key {
    fn read(pem: &str) -> Option<Key> {
        match PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()? {
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()).ok().map(Key::Rsa),
            PrivateKeyDer::Pkcs8(key) => {
                let der = key.secret_pkcs8_der();
                let rsa = RsaKeyPair::from_pkcs8(der).ok().map(Key::Rsa);
                rsa.or_else(|| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(Key::Ed25519))
            }
            _ => None,
        }
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Key::Rsa(_) => "rsa-sha256",
            Key::Ed25519(_) => "ed25519-sha256",
        }
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match self {
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).ok()?;
                Some(signature)
            }
            // With Ed25519, the SHA-256 hash of the message is signed, not the message (RFC 8463 section 3).
            Key::Ed25519(key) => Some(key.sign(digest(&SHA256, message).as_ref()).as_ref().to_vec()),
        }
    }
}

fn name(reader: &mut SettingsReader, member: &str) -> Option<String> {
    let text = reader.required_as(member, line)?;
    let name = idna::domain_to_ascii(&text).ok().filter(|name| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        !name.is_empty() && name.len() <= 253 && name.bytes().all(fits)
    });
    if name.is_none() {
        reader.problem(member, "invalid", "must be a domain name");
    }
    name
}

/// Splits headers into fields. The text of a folded field keeps its line ends.
fn fields(headers: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    let mut start = 0;
    for (end, _) in headers.match_indices("\r\n") {
        let continues = headers.as_bytes().get(end + 2).is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        if !continues {
            fields.extend(headers.get(start..end));
            start = end + 2;
        }
    }
    fields
}

/// Returns the names for the tag `h=`, and the signed fields in canonical form. Fields of the same name are listed from
/// the last to the first.
fn covered(fields: &[&str]) -> (Vec<&'static str>, String) {
    let mut names = Vec::with_capacity(SIGNED.len() * 2);
    let mut signed = String::with_capacity(1024);
    for &name in SIGNED {
        for field in fields.iter().rev() {
            if field.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name)) {
                push_relaxed(&mut signed, field);
                signed.push_str("\r\n");
                names.push(name);
            }
        }
        names.push(name);
    }
    (names, signed)
}

/// Appends a field in relaxed canonical form (RFC 6376 section 3.4.2), without its line end.
fn push_relaxed(out: &mut String, field: &str) {
    let (name, value) = field.split_once(':').unwrap_or((field, ""));
    out.extend(name.trim_end().chars().map(|letter| letter.to_ascii_lowercase()));
    out.push(':');
    let words = value.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty());
    for (number, word) in words.enumerate() {
        if number > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
}

/// Hashes a body in relaxed canonical form (RFC 6376 section 3.4.4).
fn body_hash<'a>(pieces: impl Iterator<Item = &'a str>) -> impl AsRef<[u8]> {
    let mut hash = Context::new(&SHA256);
    let mut empty_lines = 0_usize;
    for piece in pieces {
        if is_canonical(piece) {
            hash.update(b"\r\n".repeat(std::mem::take(&mut empty_lines)).as_slice());
            hash.update(piece.as_bytes());
            continue;
        }
        for line in piece.split_terminator("\r\n") {
            let trimmed = line.trim_end_matches([' ', '\t']);
            if trimmed.is_empty() {
                empty_lines += 1;
                continue;
            }
            for _ in 0..std::mem::take(&mut empty_lines) {
                hash.update(b"\r\n");
            }
            let mut in_space = false;
            for run in trimmed.split_inclusive([' ', '\t']) {
                let word = run.trim_end_matches([' ', '\t']);
                if in_space && !word.is_empty() {
                    hash.update(b" ");
                    in_space = false;
                }
                hash.update(word.as_bytes());
                in_space |= word.len() < run.len();
            }
            hash.update(b"\r\n");
        }
    }
    hash.finish()
}

/// Returns true if the canonical form of a piece is the piece itself, as for a file in base64.
fn is_canonical(piece: &str) -> bool {
    let is_empty_line = || piece.starts_with("\r\n") || piece.contains("\r\n\r\n");
    piece.ends_with("\r\n") && !piece.contains(' ') && !piece.contains('\t') && !is_empty_line()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_hash_of_its_lines() {
        let hash = |pieces: &[&str]| body_hash(pieces.iter().copied()).as_ref().to_vec();
        let (head, file, end) = ("--a\r\nContent-Type: a/b\r\n\r\n", "QUJD\r\nQQ==\r\n", "\r\n--a--\r\n\r\n");
        // Spaces at line ends are left out, so these lines are hashed one by one.
        let by_lines = "QUJD \r\nQQ==\t\r\n";
        assert!(is_canonical(file) && !is_canonical(by_lines));
        assert_eq!(hash(&[head, file, end]), hash(&[head, by_lines, end]));
        assert_eq!(hash(&["\r\n\r\n", file, "\r\n"]), hash(&["\r\n\r\n", by_lines]));
        for other in ["", "\r\n", "a", "a b\r\n", "a\r\n\r\nb\r\n", "\r\na\r\n", "a\tb\r\n"] {
            assert!(!is_canonical(other), "{other:?}");
        }
    }
}
