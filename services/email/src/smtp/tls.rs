use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_rustls::TlsConnector;

#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub(crate) struct TlsError(pub(super) String);

/// Creates a connector. It trusts only the authorities in `ca_certificate` (PEM); if that is None, it trusts the
/// authorities of the system.
pub(super) fn connector(ca_certificate: Option<&str>) -> Result<TlsConnector, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    let builder = match ca_certificate {
        Some(pem) => {
            let roots = roots(pem).ok_or_else(|| TlsError("cannot read the CA certificates".to_owned()))?;
            builder.with_root_certificates(roots)
        }
        None => builder.with_platform_verifier().map_err(|error| TlsError(error.to_string()))?,
    };
    Ok(TlsConnector::from(Arc::new(builder.with_no_client_auth())))
}

/// Reads the certificates of a PEM text. Returns None if the text contains no certificate or an invalid one.
pub(super) fn roots(pem: &str) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.ok()?).ok()?;
    }
    (!roots.is_empty()).then_some(roots)
}
