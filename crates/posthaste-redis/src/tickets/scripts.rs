//! The scripts about tickets.

use crate::keys::EXPIRY_KEYS;
use crate::scripts::{ScriptKind, scripts};

const EXPIRY: &ScriptKind = &ScriptKind {
    prelude: concat!(
        include_str!("../../scripts/prelude.lua"),
        "\n",
        include_str!("../../scripts/tickets/prelude.lua")
    ),
    more_keys: EXPIRY_KEYS,
};

scripts! {
    /// All scripts about tickets.
    ExpiryScripts, EXPIRY, "../../scripts/tickets/":
    claim,
    decide,
    find,
    prune,
    revoke,
}
