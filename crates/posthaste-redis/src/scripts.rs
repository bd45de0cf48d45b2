//! The Lua scripts, one per mutation, and how they are called.

use posthaste::{StoreError, Timestamp};
use redis::{Arg, Cmd, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs};

use crate::connection::RedisConnections;
use crate::error::failed;
use crate::keys::{KeyType, Shard};

/// What the scripts of one kind have in common.
#[derive(Debug)]
pub(crate) struct ScriptKind {
    /// The text before each script.
    pub(crate) prelude: &'static str,
    /// The names of the keys behind those that every script has.
    pub(crate) more_keys: &'static [KeyType],
}

/// The scripts about events.
const EVENTS: &ScriptKind = &ScriptKind { prelude: include_str!("../scripts/prelude.lua"), more_keys: &[] };

/// One script with its prelude.
#[derive(Debug)]
pub(crate) struct Script {
    kind: &'static ScriptKind,
    text: String,
    sha: String,
}

impl Script {
    /// `before` is put in front of everything.
    pub(crate) fn new(kind: &'static ScriptKind, before: &str, body: &str) -> Self {
        let text = format!("{before}{}\n{body}", kind.prelude);
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { kind, text, sha }
    }

    /// Begins a call on the keys of one shard. `now`: the clock of a test; `None` for the server's own.
    pub(crate) fn on<'s>(&'s self, shard: &Shard, now: Option<Timestamp>) -> ScriptCall<'s> {
        let (keys, more) = (shard.keys(), self.kind.more_keys);
        let more: Vec<String> = more.iter().map(|(name, _)| shard.key(name)).collect();
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(keys.len() + more.len()).arg(keys).arg(more);
        cmd.arg(now.map(|now| now.as_micros().to_string()).unwrap_or_default());
        ScriptCall { script: self, cmd }
    }
}

/// Declares a struct with one script per field, each read from the file of its name in `$folder`.
macro_rules! scripts {
    ($(#[$doc:meta])* $scripts:ident, $kind:expr, $folder:literal: $($name:ident,)*) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $scripts {
            $(pub(crate) $name: $crate::scripts::Script,)*
        }

        impl $scripts {
            /// `before` is put in front of each: a fault, in tests.
            pub(crate) fn after(before: &str) -> Self {
                Self {
                    $($name: $crate::scripts::Script::new(
                        $kind,
                        before,
                        include_str!(concat!($folder, stringify!($name), ".lua")),
                    ),)*
                }
            }
        }
    };
}
#[cfg(feature = "tickets")]
pub(crate) use scripts;

scripts! {
    /// Every script about events.
    Scripts, EVENTS, "../scripts/":
    audit_page,
    claim,
    count,
    get,
    index_arrivals,
    insert_events,
    lease,
    oldest_due_age,
    page,
    pause,
    purge,
    record_audit,
    repair,
    replay_or_discard,
    settle,
    unpark,
}

/// A call of a script, to which arguments are added.
#[derive(Debug)]
pub(crate) struct ScriptCall<'s> {
    script: &'s Script,
    cmd: Cmd,
}

impl ScriptCall<'_> {
    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.cmd.arg(arg);
        self
    }

    pub(crate) fn push(&mut self, arg: impl ToRedisArgs) {
        self.cmd.arg(arg);
    }

    /// Runs the script.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        connections: &RedisConnections,
    ) -> Result<T, StoreError> {
        self.run_on(connections, None).await
    }

    /// Runs a script whose reply holds bodies, and waits for as long as the server sends. The caller bounds that.
    pub(crate) async fn run_for_bodies<T: FromRedisValue>(
        &self,
        connections: &RedisConnections,
        shard: &Shard,
    ) -> Result<T, StoreError> {
        self.run_on(connections, Some(shard)).await
    }

    /// A server that does not know the script, because it was restarted or told to forget, is given its text:
    /// nothing was done yet, so nothing is done twice.
    async fn run_on<T: FromRedisValue>(
        &self,
        connections: &RedisConnections,
        bodies_of: Option<&Shard>,
    ) -> Result<T, StoreError> {
        match self.send(connections, bodies_of, &self.cmd).await {
            Err(error) if is_unknown(&error) => self.send(connections, bodies_of, &self.with_text()).await,
            answer => answer,
        }
        .map_err(failed)
    }

    async fn send<T: FromRedisValue>(
        &self,
        connections: &RedisConnections,
        bodies_of: Option<&Shard>,
        cmd: &Cmd,
    ) -> RedisResult<T> {
        match bodies_of {
            Some(shard) => connections.query_bodies(cmd, shard.entries()).await,
            None => connections.query(cmd).await,
        }
    }

    /// The same call with the whole script in place of its hash. `SCRIPT LOAD` would be sent to every node of a
    /// cluster, and fail with any of them.
    fn with_text(&self) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(&self.script.text);
        for arg in self.cmd.args_iter().skip(2) {
            if let Arg::Simple(arg) = arg {
                cmd.arg(arg);
            }
        }
        cmd
    }
}

fn is_unknown(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// What makes a script fail before its command with this number.
#[cfg(test)]
pub(crate) fn fault(n: usize) -> String {
    format!(
        "local server, sent = redis, 0\n\
         local redis = setmetatable({{ call = function(...)\n\
           sent = sent + 1\n\
           if sent == {n} then error('FAULT injected') end\n\
           return server.call(...)\n\
         end }}, {{ __index = server }})\n"
    )
}
