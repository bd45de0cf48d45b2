//! Settings that were checked, for everything that connects or sends.

use std::path::{Path, PathBuf};

use async_nats::{ConnectOptions, ServerAddr};
use rustls::ClientConfig;

use crate::hidden::Hidden;
use crate::settings::CommonSettings;
use crate::template::Template;
use crate::unreached::UNREACHABLE_ADVICE;

/// What a publisher is built of; everything in it was checked.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) common: CommonSettings,
    pub(super) servers: Vec<ServerAddr>,
    /// The servers as an operator knows them.
    pub(super) server_list: String,
    pub(super) tls: Hidden<ClientConfig>,
    pub(super) login: Hidden<Login>,
    pub(super) subject: Template,
    pub(super) stream: Option<String>,
    pub(super) core: bool,
}

impl Settings {
    /// The text for a server that is out of reach.
    pub(super) fn no_connection(&self) -> String {
        let (server_list, timeout) = (&self.server_list, self.common.timeout);
        format!("no connection to NATS at {server_list} within {timeout:?}: {UNREACHABLE_ADVICE}")
    }
}

/// Who we are.
#[derive(Clone)]
pub(super) enum Login {
    Anonymous,
    User(String, String),
    Token(String),
    /// Files are read with each connection: somebody may renew them.
    Credentials(PathBuf),
    Nkey(PathBuf),
}

impl Login {
    /// What the client needs to know. Its texts tell nothing of what is in the files.
    pub(super) fn options(&self) -> Result<ConnectOptions, String> {
        let options = ConnectOptions::new();
        Ok(match self {
            Self::Anonymous => options,
            Self::User(user, password) => options.user_and_password(user.clone(), password.clone()),
            Self::Token(token) => options.token(token.clone()),
            Self::Credentials(path) => {
                let text = read(path, "the credentials file")?;
                let wrong = "the credentials file has no JWT or no seed in it: make it anew with nsc";
                options.credentials(&text).map_err(|_| wrong.to_owned())?
            }
            Self::Nkey(path) => {
                let seed = read(path, "the file of the nkey")?;
                let seed = seed.trim();
                if !seed.starts_with("SU") || seed.len() != 58 {
                    return Err(
                        "the file of the nkey has no seed of a user in it: it begins with SU".to_owned()
                    );
                }
                options.nkey(seed.to_owned())
            }
        })
    }
}

/// The text of a file; the error names what it is, not what is in it.
fn read(path: &Path, what: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{what} cannot be read: {error}"))
}
