//! Reads files that are small, and no more of one that is not.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// All of a file. One that is larger is an error of the kind `FileTooLarge`, which says `too_large`.
pub(super) fn read(path: impl AsRef<Path>, max_bytes: u64, too_large: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large));
    }
    Ok(bytes)
}
