// SPDX-License-Identifier: Apache-2.0

//! Certificates and keys from files, in PEM.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::{Error, Options};

/// Where distributions keep the certificates of authorities in one file: Debian, Fedora, Alpine.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A file with certificates or a key is at most this long.
const LONGEST: u64 = 8 << 20;

/// What secure connections are made with.
///
/// # Errors
/// A file that is named cannot be read, or key and certificate do not belong together.
pub(crate) fn config(options: &Options) -> Result<TlsConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(authorities(options.ca.as_deref())?)))
        .unversioned_rustls_crypto_provider(provider.clone());
    if let Some((certificate, key)) = &options.client {
        config = config.client_cert(Some(own(certificate, key, provider)?));
    }
    Ok(config.build())
}

/// The authorities that are trusted: those of the file, or those of the system, which may have none.
fn authorities(file: Option<&Path>) -> Result<Vec<Certificate<'static>>, Error> {
    let own = |path: &Path| {
        let found = certificates(path)?;
        match found.is_empty() {
            true => Err(wrong(path, "there is no certificate in it")),
            false => Ok(found),
        }
    };
    let found = match file {
        Some(path) => own(path)?,
        None => {
            let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
            let usual = || SYSTEM.iter().map(PathBuf::from).find(|path| path.exists());
            named.or_else(usual).map_or(Ok(Vec::new()), |path| certificates(&path))?
        }
    };
    Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

/// The certificate that the client shows, and its key.
fn own(certificate: &Path, key: &Path, provider: Arc<CryptoProvider>) -> Result<ClientCert, Error> {
    let chain = certificates(certificate)?;
    let none = |_| wrong(key, "there is no private key in it");
    let text = read(key)?;
    let secret = PrivateKeyDer::from_pem_slice(&text).map_err(none)?;
    // They are tried out here, where a mistake is an error.
    let tried = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .map(|builder| builder.with_root_certificates(RootCertStore::empty()))
        .and_then(|builder| builder.with_client_auth_cert(chain.clone(), secret));
    tried.map_err(|e| wrong(certificate, &format!("with the key {}: {e}", key.display())))?;
    let chain: Vec<_> = chain.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let secret = PrivateKey::from_pem(&text)
        .map_err(|_| wrong(key, "there is no private key of a known form in it"))?;
    Ok(ClientCert::new_with_certs(&chain, secret))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(path)?;
    CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| wrong(path, &e.to_string()))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let length = std::fs::metadata(path).map_err(|e| wrong(path, &e.to_string()))?.len();
    if length > LONGEST {
        return Err(wrong(path, "it is too long"));
    }
    std::fs::read(path).map_err(|e| wrong(path, &e.to_string()))
}

fn wrong(path: &Path, why: &str) -> Error {
    Error::File { path: path.to_owned(), why: why.to_owned() }
}
