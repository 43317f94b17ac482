//! Whom `https` believes.

use std::{fs, path::Path, sync::Arc};

use rustls::crypto::aws_lc_rs;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// TLS that believes the authorities of a file, or else those of the system.
///
/// # Errors
/// Why there is nobody to believe.
pub(crate) fn security(authorities: Option<&Path>) -> Result<TlsConfig, String> {
    let authorities = match authorities {
        Some(file) => of_file(file).map_err(|problem| format!("{}: {problem}", file.display()))?,
        None => of_system()?,
    };
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(authorities)))
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .build())
}

fn of_file(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let text = fs::read(file).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for item in parse_pem(&text) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(format!("is not PEM: {error}")),
        }
    }
    if found.is_empty() {
        let advice = "has no certificate: name a PEM file of the authorities to believe";
        return Err(advice.to_owned());
    }
    Ok(found)
}

fn of_system() -> Result<Vec<Certificate<'static>>, String> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        let advice =
            "the system has no authorities to believe: install ca-certificates, or name a file";
        return Err(advice.to_owned());
    }
    let owned = |der: &[u8]| Certificate::from_der(der).to_owned();
    Ok(found.iter().map(|der| owned(der)).collect())
}

/// What helps against a failure of TLS.
pub(crate) fn advice(failure: &str) -> &'static str {
    const ISSUER: &str = ": name the file of the authority that issued the node's certificate, by --ca or SIPYARD_CA";
    const ADVICE: [(&str, &str); 6] = [
        (
            "CaUsedAsEndEntity",
            ": the node's certificate is an authority's own; one of `openssl req -x509` needs -addext \
             basicConstraints=CA:FALSE",
        ),
        ("UnknownIssuer", ISSUER),
        // Another authority of the same name.
        ("BadSignature", ISSUER),
        (
            "not valid for name",
            ": ask for the node by a name or an address that its certificate has",
        ),
        ("certificate expired", ": renew the node's certificate"),
        (
            "InvalidContentType",
            ": nobody speaks TLS there; write http://",
        ),
    ];
    let known = ADVICE.iter().find(|(word, _)| failure.contains(word));
    known.map_or("", |(_, advice)| advice)
}
