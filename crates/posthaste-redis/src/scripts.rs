//! The Lua scripts, one per operation, and how they are called: EVALSHA, and EVAL if the server does not know the
//! script.

use posthaste::{StoreError, Timestamp};
use redis::{Arg, Cmd, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs};

use crate::connection::RedisConnections;
use crate::error::failed;
use crate::keys::{KeyType, Shard};

/// What all scripts about events, or all about tickets, have in common.
#[derive(Debug)]
pub(crate) struct ScriptKind {
    /// Lua source in front of each script.
    pub(crate) prelude: &'static str,
    /// Keys behind those that every script gets.
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
    /// `before`: Lua source in front of the prelude.
    pub(crate) fn new(kind: &'static ScriptKind, before: &str, body: &str) -> Self {
        let text = format!("{before}{}\n{body}", kind.prelude);
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { kind, text, sha }
    }

    /// Starts a call with the keys of one shard. `now`: the clock of a test; `None` for the server's clock.
    pub(crate) fn on<'s>(&'s self, shard: &Shard, now: Option<Timestamp>) -> ScriptCall<'s> {
        let (keys, more) = (shard.keys(), self.kind.more_keys);
        let more: Vec<String> = more.iter().map(|(name, _)| shard.key(name)).collect();
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(keys.len() + more.len()).arg(keys).arg(more);
        cmd.arg(now.map(|now| now.as_micros().to_string()).unwrap_or_default());
        ScriptCall { script: self, cmd }
    }
}

/// Declares a struct with one script per field. The source of each is the file of its name in `$folder`.
macro_rules! scripts {
    ($(#[$doc:meta])* $scripts:ident, $kind:expr, $folder:literal: $($name:ident,)*) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $scripts {
            $(pub(crate) $name: $crate::scripts::Script,)*
        }

        impl $scripts {
            /// `before`: Lua source in front of each script. Empty, except for the faults that tests inject.
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
    /// All scripts about events.
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

/// A call of a script. Arguments are added before it is run.
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

    /// Runs the script. The wait for the reply is bounded.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        connections: &RedisConnections,
    ) -> Result<T, StoreError> {
        self.run_on(connections, None).await
    }

    /// Runs a script whose reply contains bodies. The wait is not bounded here; the caller must bound it.
    pub(crate) async fn run_for_bodies<T: FromRedisValue>(
        &self,
        connections: &RedisConnections,
        shard: &Shard,
    ) -> Result<T, StoreError> {
        self.run_on(connections, Some(shard)).await
    }

    /// Sends the hash of the script. If the server does not know it, after a restart or SCRIPT FLUSH, sends the source:
    /// nothing has been executed then, so nothing is executed twice.
    async fn run_on<T: FromRedisValue>(
        &self,
        connections: &RedisConnections,
        bodies_of: Option<&Shard>,
    ) -> Result<T, StoreError> {
        match self.send(connections, bodies_of, &self.cmd).await {
            Err(error) if is_unknown(&error) => self.send(connections, bodies_of, &self.with_text()).await,
            reply => reply,
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

    /// The same call with the source of the script. Not `SCRIPT LOAD`, because a cluster sends that to every node, and
    /// it fails if one of them is down.
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

/// Lua source that makes a script fail before its command number `n`.
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
