//! Makes authorities and members' certificates for tests.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use replicator::tcp::TlsOptions;

/// An authority, and the folder that its members' files are put in.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ca"), issuer.pem()).expect("written");
        Self { issuer, folder }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.path().join("ca")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The files of a member with this host name.
    pub(crate) fn member(&self, host: &str) -> TlsOptions {
        self.sign(host, CertificateParams::new(vec![host.to_owned()]).expect("parameters"))
    }

    /// The files of a member whose certificate was valid once.
    pub(crate) fn expired(&self, host: &str) -> TlsOptions {
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign("expired", params)
    }

    fn sign(&self, name: &str, params: CertificateParams) -> TlsOptions {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let write = |what: &str, text: String| {
            let path = self.path(&format!("{name}-{what}"));
            std::fs::write(&path, text).expect("written");
            path
        };
        TlsOptions {
            ca: self.ca(),
            certificate: write("certificate", certificate.pem()),
            key: write("key", key.serialize_pem()),
        }
    }
}

/// The certificates of a PEM file.
pub(crate) fn read(path: &Path) -> Vec<rustls::pki_types::CertificateDer<'static>> {
    use rustls::pki_types::pem::PemObject;
    rustls::pki_types::CertificateDer::pem_file_iter(path)
        .expect("a file")
        .collect::<Result<_, _>>()
        .expect("certificates")
}
