//! Certificates and keys that the config names: what is wrong with them is told with its place, and before the gateway
//! trips over it.

use crate::common::{bad, warnings};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A certificate of X.509 version 1, with its key.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUNQJa3sFiJ879l6nHgumN/IOJMZYwCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTEyOTE5NTQ0NloYDzIxMjYxMTA1MTk1NDQ2WjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQSYapSYADrZj8Z
Yo8TklY6JgNie2KsBy8xlMRVFuNNxI+PlyzlRFmlu8PiGPY0L27wO2LUJfu6oX8y
hw5Kq6wSMAoGCCqGSM49BAMCA0gAMEUCIQDWEsKhjwKaQhJnVbT3xFCz3+uMpujn
zAbho0vHeuLRGwIgGRb6NlfYF/3AUAvZv52aXQmdEy6uDeUAIzZ8Khm/Wso=
-----END CERTIFICATE-----
";
const VERSION_1_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgM9SuCBErBEFGB8I6
H3GBcYu9/Pq3pdGk5EDsjdtunUOhRANCAAQSYapSYADrZj8ZYo8TklY6JgNie2Ks
By8xlMRVFuNNxI+PlyzlRFmlu8PiGPY0L27wO2LUJfu6oX8yhw5Kq6wS
-----END PRIVATE KEY-----
";

/// `good.pem` and `good.key`, `old.pem` and `old.key` (expired), `v1.pem` and `v1.key`, `other.key`, `empty.pem`.
fn files() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    for (name, until) in [("good", 4000), ("old", 2020)] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(until, 2, 3);
        put(&format!("{name}.pem"), &params.self_signed(&key).unwrap().pem());
        put(&format!("{name}.key"), &key.serialize_pem());
    }
    put("v1.pem", VERSION_1);
    put("v1.key", VERSION_1_KEY);
    put("other.key", &KeyPair::generate().unwrap().serialize_pem());
    put("empty.pem", "");
    directory
}

/// `DIR` stands for the directory of the files.
fn server(directory: &Path, tls: &str) -> String {
    let text = format!("server:\n  tls: {{{tls}}}\npools: [{{name: a, endpoints: [http://h:1]}}]\n");
    text.replace("DIR", &directory.display().to_string())
}

fn upstream(directory: &Path, tls: &str) -> String {
    let text = format!("pools:\n  - name: a\n    endpoints: [https://h:1]\n    tls: {{{tls}}}\n");
    text.replace("DIR", &directory.display().to_string())
}

fn expect(text: &str, expect: &[(&str, &str)]) {
    let found = bad(text);
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), expect.len(), "{text}: {shown:#?}");
    for ((problem, shown), (path, words)) in found.iter().zip(&shown).zip(expect) {
        assert_eq!(problem.path, *path, "{shown}");
        assert!(problem.line > 1 && shown.contains(words), "{words}: {shown}");
        assert!(!shown.contains("Other("), "{shown}");
    }
}

#[test]
fn what_the_gateway_could_not_load_towards_engines_is_refused_with_its_place() {
    let files = files();
    for (tls, wrong) in [
        (
            "ca: DIR/empty.pem",
            ("pools[0].tls.ca", "no certificate in the file"),
        ),
        (
            "ca: DIR/good.key",
            ("pools[0].tls.ca", "no certificate in the file"),
        ),
        (
            "client_cert: DIR/good.pem, client_key: DIR/other.key",
            ("pools[0].tls.client_key", "does not belong to the certificate"),
        ),
        (
            "client_cert: DIR/good.pem, client_key: DIR/empty.pem",
            ("pools[0].tls.client_key", "no private key in the file"),
        ),
        (
            "client_cert: DIR/v1.pem, client_key: DIR/v1.key",
            ("pools[0].tls.client_cert", "X.509 version 1"),
        ),
        (
            "server_name: 'a b'",
            ("pools[0].tls.server_name", "no name that a certificate can hold"),
        ),
    ] {
        expect(&upstream(files.path(), tls), &[wrong]);
    }
    let good = "ca: DIR/good.pem, client_cert: DIR/good.pem, client_key: DIR/good.key, server_name: a.b";
    assert_eq!(warnings(&upstream(files.path(), good)), Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_a_certificate_is_said_in_words() {
    let files = files();
    let with = |tls: &str| server(files.path(), tls);
    expect(
        &with("cert: DIR/v1.pem, key: DIR/v1.key"),
        &[("server.tls.cert", "X.509 version 1: make one of version 3")],
    );
    expect(
        &with("cert: DIR/good.pem, key: DIR/good.key, client_ca: DIR/empty.pem"),
        &[(
            "server.tls.client_ca",
            "the authorities that sign what the other side shows",
        )],
    );
    expect(
        &with("cert: DIR/empty.pem, key: DIR/good.key"),
        &[("server.tls.cert", "the certificate of the key first")],
    );
}

#[test]
fn a_certificate_that_ends_is_told() {
    let files = files();
    let told = warnings(&server(files.path(), "cert: DIR/old.pem, key: DIR/old.key"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("server.tls.cert: the certificate has expired on 2020-02-03"),
        "{told:?}"
    );
    let told = warnings(&upstream(
        files.path(),
        "client_cert: DIR/old.pem, client_key: DIR/old.key",
    ));
    assert!(
        told[0].contains("pools[0].tls.client_cert: the certificate has expired"),
        "{told:?}"
    );
    let soon = std::time::SystemTime::now() + std::time::Duration::from_hours(24 * 5);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = soon.into();
    fs::write(
        files.path().join("soon.pem"),
        params.self_signed(&key).unwrap().pem(),
    )
    .unwrap();
    fs::write(files.path().join("soon.key"), key.serialize_pem()).unwrap();
    let told = warnings(&server(files.path(), "cert: DIR/soon.pem, key: DIR/soon.key"));
    assert!(told[0].contains("the certificate expires on 20"), "{told:?}");
    let told = warnings(&server(files.path(), "cert: DIR/good.pem, key: DIR/good.key"));
    assert_eq!(told, Vec::<String>::new());
}
