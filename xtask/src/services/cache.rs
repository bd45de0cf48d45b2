//! The folder for downloads: kept between runs, and shared by all checkouts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{env_var, process};

/// Returns the folder of this name. If it does not exist, `fill` fills a new one first.
pub(super) fn obtain(name: &str, fill: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    let home = env_var("HOME").unwrap_or_default();
    let cache = folder(env_var("XDG_CACHE_HOME").as_deref(), &home, process::is_root());
    obtain_in(&cache, name, fill)
}

/// The folder of all downloads. For root it is the system's: the servers do not run as root, and cannot read root's
/// home.
fn folder(chosen: Option<&str>, home: &str, is_root: bool) -> PathBuf {
    let cache = match chosen {
        Some(chosen) => PathBuf::from(chosen),
        None if is_root => PathBuf::from("/var/cache"),
        None => Path::new(home).join(".cache"),
    };
    cache.join("posthaste")
}

fn obtain_in(
    cache: &Path,
    name: &str,
    fill: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let complete = cache.join(name);
    if complete.is_dir() {
        return Ok(complete);
    }
    let writing = |error| format!("{} cannot be written: {error}", complete.display());
    fs::create_dir_all(cache).map_err(writing)?;
    // A temporary name until it is complete, so that an interrupted download is not used.
    let template = cache.join(format!("{name}.XXXXXX"));
    let partial = process::run(Command::new("mktemp").arg("-d").arg(template))?;
    let partial = Path::new(partial.trim_end());
    let filled = fill(partial).and_then(|()| {
        // The servers may run as another user.
        process::run(Command::new("chmod").args(["-R", "a+rX"]).arg(partial))?;
        fs::rename(partial, &complete).map_err(writing)
    });
    if filled.is_err() {
        // If it cannot be removed, it only takes up space.
        let _ = fs::remove_dir_all(partial);
    }
    // Another process may have filled it in the meantime.
    if complete.is_dir() { Ok(complete) } else { filled.map(|()| complete) }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folder_is_in_the_home_of_every_user_but_root() {
        assert_eq!(folder(None, "/home/me", false), Path::new("/home/me/.cache/posthaste"));
        assert_eq!(folder(None, "/root", true), Path::new("/var/cache/posthaste"));
        assert_eq!(folder(Some("/c"), "/root", true), Path::new("/c/posthaste"));
    }

    #[test]
    fn folder_is_filled_once_and_every_user_can_read_it() {
        let cache = tempfile::tempdir().unwrap();
        let fill = |folder: &Path| fs::write(folder.join("file"), "text").map_err(|error| error.to_string());
        let folder = obtain_in(cache.path(), "name", fill).unwrap();
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "text");
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(obtain_in(cache.path(), "name", |_| Err("again".to_owned())), Ok(folder));
    }

    #[test]
    fn failed_download_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(obtain_in(cache.path(), "name", |_| Err("no".to_owned())), Err("no".to_owned()));
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }
}
