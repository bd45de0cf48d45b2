//! Reads a file up to a size limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The whole file. A file larger than `max_bytes` is an error of the kind `FileTooLarge` with the text `too_large`.
pub(super) fn read(path: impl AsRef<Path>, max_bytes: u64, too_large: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large));
    }
    Ok(bytes)
}
