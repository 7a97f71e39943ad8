use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PKCS_RSA_SHA256, RsaKeySize,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate authority for tests, with a client certificate, and a server certificate for `localhost` and
/// `127.0.0.1`.
pub struct Authority {
    pem: String,
    server: ServerConfig,
    server_for_clients: ServerConfig,
    server_pem: CertificatePem,
    client: CertificatePem,
}

#[derive(Clone)]
pub struct CertificatePem {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> anyhow::Result<Authority> {
        Authority::with(&KeyPair::generate()?)
    }

    /// Creates an authority whose server certificate has an RSA key, for servers that know no other keys.
    pub fn rsa() -> anyhow::Result<Authority> {
        Authority::with(&KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?)
    }

    fn with(key: &KeyPair) -> anyhow::Result<Authority> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let certificate = CertificateParams::new(names)?.signed_by(key, &issuer)?;
        let server_pem = CertificatePem { certificate: certificate.pem(), key: key.serialize_pem() };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.clone_key())?;

        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone())?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
        let server_for_clients = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(["client.example".to_owned()])?;
        params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ClientAuth);
        let certificate = params.signed_by(&key, &issuer)?;
        let client = CertificatePem { certificate: certificate.pem(), key: key.serialize_pem() };
        Ok(Authority { pem: issuer.pem(), server, server_for_clients, server_pem, client })
    }

    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// TLS configuration of a server. `alpn` are the protocols that it offers by ALPN, such as `h2`, in order of
    /// preference.
    #[must_use]
    pub fn server(&self, alpn: &[&str]) -> Arc<ServerConfig> {
        with_alpn(&self.server, alpn)
    }

    /// TLS configuration of a server to which clients must present a certificate of this authority.
    #[must_use]
    pub fn server_for_clients(&self, alpn: &[&str]) -> Arc<ServerConfig> {
        with_alpn(&self.server_for_clients, alpn)
    }

    #[must_use]
    pub fn server_pem(&self) -> &CertificatePem {
        &self.server_pem
    }

    #[must_use]
    pub fn client(&self) -> &CertificatePem {
        &self.client
    }
}

fn with_alpn(config: &ServerConfig, alpn: &[&str]) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}
