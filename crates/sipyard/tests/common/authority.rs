//! An authority of a test's own, and the certificates that it issues.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// One whose own certificate is `NAME.pem` in a folder, where those that it issues will be, too.
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            folder: folder.to_path_buf(),
        }
    }

    /// Writes `FILE.pem` and `FILE.key`: a certificate of these names.
    pub fn issue(&self, file: &str, names: &[&str]) {
        self.issue_until(file, names, 2_090);
    }

    /// The same with a certificate that ends with this year.
    pub fn issue_until(&self, file: &str, names: &[&str], year: i32) {
        self.issue_with(file, names, |params| {
            params.not_after = date_time_ymd(year, 12, 31);
        });
    }

    /// The same with a certificate that ends after this time.
    pub fn issue_for(&self, file: &str, names: &[&str], left: Duration) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.issue_with(file, names, |params| {
            params.not_after = date_time_ymd(1_970, 1, 1) + now + left;
        });
    }

    /// The same with a certificate that `LIST.pem` has among those that are revoked.
    pub fn issue_revoked(&self, file: &str, names: &[&str], list: &str) {
        let serial = SerialNumber::from(7);
        self.issue_with(file, names, |params| {
            params.serial_number = Some(serial.clone());
        });
        let revoked = RevokedCertParams {
            serial_number: serial.clone(),
            revocation_time: date_time_ymd(2_026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2_026, 1, 1),
            next_update: date_time_ymd(2_090, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let text = params.signed_by(&self.issuer).unwrap().pem().unwrap();
        fs::write(self.folder.join(format!("{list}.pem")), text).unwrap();
    }

    fn issue_with(&self, file: &str, names: &[&str], adjust: impl Fn(&mut CertificateParams)) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, file);
        params.not_before = date_time_ymd(2_000, 1, 1);
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let write = |end: &str, text: &str| {
            fs::write(self.folder.join(format!("{file}.{end}")), text).unwrap();
        };
        write("pem", &certificate.pem());
        write("key", &key.serialize_pem());
    }
}
