//! Certificates of the members: read from files, checked before anything is connected with them, and read again when the
//! files change. No session is resumed, so every connection verifies the other side's certificate as of now.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The files of a member's certificates, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Certificates of the authority that signs the members' ones; only these are believed.
    pub ca: PathBuf,
    /// This member's certificate, for server and client, and those between it and the authority's.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why certificates can't be used: one line that names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}; {advice}", file = file.display())]
pub struct TlsError {
    file: PathBuf,
    problem: String,
    advice: &'static str,
}

const ADVICE_CA: &str = "cluster.tls.ca names a PEM file with the certificate of the members' authority";
const ADVICE_CERTIFICATE: &str = "cluster.tls.certificate names a PEM file with this member's certificate, signed by the \
                                  authority of cluster.tls.ca, for use as server and as client";
const ADVICE_KEY: &str =
    "cluster.tls.key names a PEM file with the private key of the certificate of cluster.tls.certificate";

fn wrong(file: &Path, problem: impl Display, advice: &'static str) -> TlsError {
    TlsError { file: file.to_path_buf(), problem: problem.to_string(), advice }
}

/// What tells a file from the one that was in its place before: when it changed, and its length.
type Stamp = Option<(SystemTime, u64)>;

/// Certificates that follow their files.
pub(super) struct Certificates {
    options: TlsOptions,
    current: Mutex<([Stamp; 3], Arc<Tls>)>,
}

impl Certificates {
    /// Reads the files for the first time.
    pub(super) fn load(options: &TlsOptions) -> Result<Self, TlsError> {
        // Before the files are read: a change meanwhile is then seen at the next connection.
        let stamps = stamps(options);
        let tls = Arc::new(Tls::load(options)?);
        Ok(Self { options: options.clone(), current: Mutex::new((stamps, tls)) })
    }

    /// Those for a new connection. Files that can't be used, as while only one of two was replaced, change nothing.
    pub(super) fn current(&self) -> Arc<Tls> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.options);
        if stamps != current.0 {
            current.0 = stamps;
            match Tls::load(&self.options) {
                Ok(tls) => {
                    tracing::info!("new certificates are used from here on");
                    current.1 = Arc::new(tls);
                }
                Err(error) => {
                    tracing::warn!(%error, "new certificates can't be used, so those from before stay in use");
                }
            }
        }
        Arc::clone(&current.1)
    }
}

fn stamps(options: &TlsOptions) -> [Stamp; 3] {
    let stamp = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    [&options.ca, &options.certificate, &options.key].map(stamp)
}

/// Both sides' settings.
pub(super) struct Tls {
    pub(super) connector: TlsConnector,
    pub(super) acceptor: TlsAcceptor,
}

impl Tls {
    /// Reads the files and checks that other members would believe what is in them.
    pub(super) fn load(options: &TlsOptions) -> Result<Self, TlsError> {
        let TlsOptions { ca, certificate, key } = options;
        let mut roots = RootCertStore::empty();
        for root in certificates(ca, ADVICE_CA)? {
            roots.add(root).map_err(|error| wrong(ca, error, ADVICE_CA))?;
        }
        let chain = certificates(certificate, ADVICE_CERTIFICATE)?;
        let private =
            PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, pem(error), ADVICE_KEY))?;
        let roots = Arc::new(roots);
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| wrong(ca, error, ADVICE_CA))?;
        let (own, between) =
            chain.split_first().ok_or_else(|| wrong(certificate, "no certificate", ADVICE_CERTIFICATE))?;
        verifier
            .verify_client_cert(own, between, UnixTime::now())
            .map_err(|error| wrong(certificate, refused(&error), ADVICE_CERTIFICATE))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(certificate, error, ADVICE_CERTIFICATE))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), private.clone_key())
            .map_err(|error| wrong(key, error, ADVICE_KEY))?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(certificate, error, ADVICE_CERTIFICATE))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, private)
            .map_err(|error| wrong(key, error, ADVICE_KEY))?;
        client.resumption = Resumption::disabled();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
        })
    }
}

fn certificates(file: &Path, advice: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(file, pem(error), advice))?;
    if all.is_empty() { Err(wrong(file, "no certificate is in it", advice)) } else { Ok(all) }
}

/// What is wrong with a file, without the words of the library's types.
fn pem(error: rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "nothing of the kind is in it".to_owned(),
        other => other.to_string(),
    }
}

/// Why other members would refuse a certificate.
fn refused(error: &rustls::Error) -> String {
    use rustls::CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    match error {
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => "it is expired".to_owned(),
        rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => {
            "it is not valid yet by this machine's clock".to_owned()
        }
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            "the authority did not sign it".to_owned()
        }
        other => other.to_string(),
    }
}
