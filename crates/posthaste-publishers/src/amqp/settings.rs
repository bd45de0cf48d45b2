//! Settings that were checked, for everything that connects or sends.

use lapin::tcp::RustlsConnector;

use super::login::Login;
use super::management::Management;
use crate::address::Address;
use crate::hidden::Hidden;
use crate::settings::CommonSettings;
use crate::template::Template;

/// The most bytes of what AMQP calls a short string.
pub(super) const MAX_SHORT_STRING_BYTES: usize = 255;

/// Settings that were checked.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) common: CommonSettings,
    pub(super) hosts: Vec<Address>,
    pub(super) login: Hidden<Login>,
    pub(super) vhost: String,
    pub(super) tls: Option<Hidden<RustlsConnector>>,
    pub(super) exchange: Option<Template>,
    pub(super) routing_key: Template,
    pub(super) management: Option<Hidden<Management>>,
}
