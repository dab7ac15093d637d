//! The files beside a config: certificates and keys of every kind, a secret, and one whose text is a part of the input.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The file that the input writes.
const OWN: &str = "beside";
/// A file with a secret.
pub(super) const SECRET: &str = "secret.txt";
/// Most lines of any other file here.
pub(super) const LINES_MAX: usize = 40;

/// A certificate of X.509 version 1, which no certificate library makes.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUNQJa3sFiJ879l6nHgumN/IOJMZYwCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTEyOTE5NTQ0NloYDzIxMjYxMTA1MTk1NDQ2WjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQSYapSYADrZj8Z
Yo8TklY6JgNie2KsBy8xlMRVFuNNxI+PlyzlRFmlu8PiGPY0L27wO2LUJfu6oX8y
hw5Kq6wSMAoGCCqGSM49BAMCA0gAMEUCIQDWEsKhjwKaQhJnVbT3xFCz3+uMpujn
zAbho0vHeuLRGwIgGRb6NlfYF/3AUAvZv52aXQmdEy6uDeUAIzZ8Khm/Wso=
-----END CERTIFICATE-----
";

struct Files {
    folder: PathBuf,
    /// A part of each private key, as it stands in its file.
    keys: Vec<String>,
}

/// The folder, which holds the files that never change.
pub(crate) fn folder() -> &'static Path {
    &files().folder
}

/// Writes the input's own file, or takes it away.
pub(super) fn put(text: Option<&[u8]>) {
    let path = folder().join(OWN);
    let done = match text {
        Some(text) => fs::write(&path, text),
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => done,
        },
    };
    done.expect("a temporary file");
}

/// Whether a private key shows in what is told. What a fuzzer has learnt of one, it may write where names stand.
pub(super) fn shows_key((text, beside): (&str, &str), told: &str) -> bool {
    let learnt = |key: &str| text.contains(key) || beside.contains(key);
    files().keys.iter().any(|key| told.contains(key) && !learnt(key))
}

fn files() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(write)
}

/// `good`, `old` (expired), `soon` (about to), `young` (not yet), `ca` (an authority): each a `.pem` with its `.key`.
fn write() -> Files {
    let folder = std::env::temp_dir().join(format!("weighbridge-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let put = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a temporary file");
    let mut keys = Vec::new();
    let now = jiff::Timestamp::now();
    let soon = now + jiff::SignedDuration::from_hours(7 * 24);
    let part = |format: &str| soon.strftime(format).to_string();
    let day = |format: &str| part(format).parse::<u8>().expect("a part of a date");
    let soon = (part("%Y").parse().expect("a year"), day("%m"), day("%d"));
    let made = [
        ("good", (2019, 1, 1), (4000, 1, 1)),
        ("old", (2019, 1, 1), (2020, 2, 3)),
        ("soon", (2019, 1, 1), soon),
        ("young", (3000, 1, 1), (4000, 1, 1)),
        ("ca", (2019, 1, 1), (4000, 1, 1)),
    ];
    for (name, from, to) in made {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(to.0, to.1, to.2);
        if name == "ca" {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let certificate = params.self_signed(&key).expect("a certificate");
        put(&format!("{name}.pem"), &certificate.pem());
        let pem = key.serialize_pem();
        put(&format!("{name}.key"), &pem);
        keys.extend(pem.lines().nth(1).map(|line| line[20..60].to_owned()));
    }
    put("v1.pem", VERSION_1);
    put(
        "sealed.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    put("empty.pem", "");
    put("large.pem", &"#".repeat((1 << 20) + 1));
    put("large.txt", &"a".repeat((16 << 10) + 1));
    put(SECRET, "wbSECRET-from-file\r\n");
    Files { folder, keys }
}
