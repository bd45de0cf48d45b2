//! The checked settings of a NATS publisher, and its login.

use std::path::{Path, PathBuf};

use async_nats::{ConnectOptions, ServerAddr};
use rustls::ClientConfig;

use crate::check_error::UNREACHABLE_ADVICE;
use crate::redacted::Redacted;
use crate::settings::CommonSettings;
use crate::template::Template;

/// Settings that the builder has checked. They do not change afterwards.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) common: CommonSettings,
    pub(super) servers: Vec<ServerAddr>,
    /// The servers as `host:port,host:port`, for error texts.
    pub(super) server_list: String,
    pub(super) tls: Redacted<ClientConfig>,
    pub(super) login: Redacted<Login>,
    pub(super) subject: Template,
    /// The stream that must store the events; `None` for any.
    pub(super) stream: Option<String>,
    /// Whether to use core NATS, which acknowledges nothing, instead of JetStream.
    pub(super) core: bool,
}

impl Settings {
    /// The error text for servers that cannot be reached.
    pub(super) fn no_connection(&self) -> String {
        let (server_list, timeout) = (&self.server_list, self.common.timeout);
        format!("no connection to NATS at {server_list} within {timeout:?}: {UNREACHABLE_ADVICE}")
    }
}

/// The login at the server.
#[derive(Clone)]
pub(super) enum Login {
    Anonymous,
    User(String, String),
    Token(String),
    /// Files are read for each connection, because the operator may renew them.
    Credentials(PathBuf),
    Nkey(PathBuf),
}

impl Login {
    /// The client's options for this login. Errors contain nothing of the contents of the files.
    pub(super) fn options(&self) -> Result<ConnectOptions, String> {
        let options = ConnectOptions::new();
        Ok(match self {
            Self::Anonymous => options,
            Self::User(user, password) => options.user_and_password(user.clone(), password.clone()),
            Self::Token(token) => options.token(token.clone()),
            Self::Credentials(path) => {
                let text = read(path, "the credentials file")?;
                let wrong = "the credentials file contains no JWT or no seed: create it again with nsc";
                options.credentials(&text).map_err(|_| wrong.to_owned())?
            }
            Self::Nkey(path) => {
                let seed = read(path, "the nkey file")?;
                let seed = seed.trim();
                if !seed.starts_with("SU") || seed.len() != 58 {
                    return Err("the nkey file contains no seed of a user, which begins with SU".to_owned());
                }
                options.nkey(seed.to_owned())
            }
        })
    }
}

/// Reads a file. The error names the kind of file and not its contents.
fn read(path: &Path, what: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{what} cannot be read: {error}"))
}
