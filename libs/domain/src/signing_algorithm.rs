use crate::text_enum::text_enum;

text_enum! {
    /// A signature algorithm, by its name in a token (RFC 7518, section 3.1).
    SigningAlgorithm {
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        Rs256 = "RS256",
        /// ECDSA on P-256 with SHA-256.
        Es256 = "ES256",
        /// HMAC with SHA-256: the key that verifies can also sign.
        Hs256 = "HS256",
    }
}
