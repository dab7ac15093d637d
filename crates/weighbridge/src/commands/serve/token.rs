//! The admin token that is made where the config names none, and where the command line finds it again.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;

/// Where the token of the gateway with this admin port is.
pub(crate) fn path(admin_port: u16) -> PathBuf {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))
        .unwrap_or_else(std::env::temp_dir);
    state
        .join("weighbridge")
        .join(format!("admin-{admin_port}.token"))
}

/// The file of a token that was made: removed when it is dropped, because its token opens nothing then.
pub(crate) struct File(PathBuf);

impl File {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Somebody may have removed it before; nothing depends on it any more.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Makes a token and writes it to its file, which nobody else can read.
pub(crate) fn make(admin_port: u16) -> io::Result<(String, File)> {
    let mut random = [0_u8; TOKEN_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = path(admin_port);
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // An old file may have been made readable by someone; a new one cannot have been.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    let made = File(path);
    file.write_all(token.as_bytes())?;
    Ok((token, made))
}

/// Reads the token of the gateway with this admin port.
pub(crate) fn find(admin_port: u16) -> io::Result<String> {
    Ok(std::fs::read_to_string(path(admin_port))?.trim().to_owned())
}
