/// Makes aws-lc-rs the provider of every TLS connection of this process. Only the first call has an effect.
pub fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // The call fails only if another thread has installed a provider first. That is the same provider, because the workspace
        // has only one.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    }
}
