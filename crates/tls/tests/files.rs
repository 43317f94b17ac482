//! What is wrong with files is told so that the operator can mend it.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use std::{fs, slice, time::Duration};

use common::{Authority, SECRET, load, wall};
use rcgen::date_time_ymd;
use tls::{Clients, Identity, Server, Trust};

#[test]
fn unusable_files_are_told() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("good", &["example.com"], |_| ());
    let (_, other_key) = authority.issue("other", &["example.com"], |_| ());
    let empty = authority.write("empty.pem", "");
    let text = fs::read_to_string(&certificate).unwrap();
    let cut = authority.write("cut.pem", &text[..text.len() / 2]);
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let encrypted = authority.write("encrypted.key", encrypted);
    let odd = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let odd = authority.write("odd.key", odd);
    let foreign = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let foreign = authority.write("foreign.pem", foreign);
    let missing = authority.path("missing.pem");
    let folder = authority.folder.path().join("folder");
    fs::create_dir(&folder).unwrap();

    let cases = [
        (
            &missing,
            &key,
            "/missing.pem: can't be read: No such file or directory (os error 2); check the path",
        ),
        (
            &folder,
            &key,
            "/folder: can't be read: Is a directory (os error 21); check the file",
        ),
        (&empty, &key, "/empty.pem: has no certificate; it must have"),
        (&key, &key, "/good.key: has no certificate; it must have"),
        (&cut, &key, "/cut.pem: is not PEM ("),
        (
            &foreign,
            &key,
            "/foreign.pem: has a certificate that can't be understood (",
        ),
        (
            &certificate,
            &certificate,
            "/good.pem: has no private key; it must have",
        ),
        (
            &certificate,
            &encrypted,
            "/encrypted.key: has a private key that needs a password; decrypt it",
        ),
        (
            &certificate,
            &odd,
            "/odd.key: has a private key that can't be used (",
        ),
        (
            &certificate,
            &other_key,
            "/other.key: has a private key that is not the certificate's",
        ),
    ];
    for (certificate, key, expected) in cases {
        let told = load(&authority, (certificate, key));
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn unusable_trust_is_told() {
    let authority = Authority::new();
    let empty = authority.write("empty.pem", "");
    assert!(Trust::of_file(&empty).is_err());
    let certificate = authority.path("ca.pem");
    let told = authority.trust().with_revocations(&certificate);
    let told = told.unwrap_err().to_string();
    assert!(
        told.contains("has no list of revoked certificates"),
        "{told}"
    );
    let told = Server::new(&[], &Clients::Any, SECRET, wall()).unwrap_err();
    assert_eq!(
        told.to_string(),
        "there is no certificate to show; name at least one"
    );
}

#[test]
fn a_certificate_tells_its_end_and_its_names() {
    let authority = Authority::new();
    let names = ["Example.com", "sip:Example.org", "192.0.2.1"];
    let (certificate, key) = authority.issue("dated", &names, |params| {
        params.not_after = date_time_ymd(2027, 1, 1);
    });
    let identity = Identity::load(&certificate, &key).unwrap();
    let end = Duration::from_secs(1_798_761_600);
    assert_eq!(identity.not_after(), end);
    let server = Server::new(slice::from_ref(&identity), &Clients::Any, SECRET, wall()).unwrap();
    assert_eq!(server.not_after(), end);
    assert_eq!(identity.names().dns, ["example.com"]);
    assert_eq!(identity.names().domains(), ["example.org"]);
    assert_eq!(identity.names().addresses.len(), 1);
    let text = fs::read_to_string(&certificate).unwrap() + &fs::read_to_string(&key).unwrap();
    let both = authority.write("both.pem", &text);
    assert!(Identity::load(&both, &both).is_ok());
}
