//! The checked settings of an AMQP publisher.

use lapin::tcp::RustlsConnector;

use super::login::Login;
use super::management::Management;
use crate::host_port::Address;
use crate::redacted::Redacted;
use crate::settings::CommonSettings;
use crate::template::Template;

/// The largest size of an AMQP short string, in bytes.
pub(super) const MAX_SHORT_STRING_BYTES: usize = 255;

/// Settings that the builder has checked. They do not change afterwards.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) common: CommonSettings,
    pub(super) hosts: Vec<Address>,
    pub(super) login: Redacted<Login>,
    pub(super) vhost: String,
    /// `None` without TLS.
    pub(super) tls: Option<Redacted<RustlsConnector>>,
    /// `None` for the default exchange.
    pub(super) exchange: Option<Template>,
    pub(super) routing_key: Template,
    /// `None` if no URL of the management plugin is set.
    pub(super) management: Option<Redacted<Management>>,
}
