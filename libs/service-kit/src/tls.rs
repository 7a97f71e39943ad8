//! The TLS provider of the process.

/// Makes aws-lc-rs the provider of every TLS connection of this process. Only the first call has an effect.
pub fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // It fails only if another thread was first, and the workspace has only one provider.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    }
}
