//! The Lua scripts, one per mutation, and how they are called.

use posthaste::StoreError;
use redis::{Arg, Cmd, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs};

use crate::connection::RedisConnections;
use crate::error::failed;
use crate::keys::Shard;

/// One script with what stands before all of its kind.
#[derive(Debug)]
pub(crate) struct Script {
    kind: ScriptKind,
    text: String,
    sha: String,
}

/// What a script is about.
#[derive(Clone, Copy, Debug)]
enum ScriptKind {
    Events,
    /// Tickets that expire, and the events about that.
    Expiry,
}

impl ScriptKind {
    /// What stands before a script.
    fn prelude(self) -> &'static str {
        match self {
            Self::Events => include_str!("../scripts/prelude.lua"),
            Self::Expiry => {
                concat!(include_str!("../scripts/prelude.lua"), "\n", include_str!("../scripts/expiry.lua"))
            }
        }
    }

    /// What its scripts have behind the keys that all have.
    fn more_keys(self, shard: &Shard) -> &[String] {
        match self {
            Self::Events => &[],
            Self::Expiry => shard.expiry_keys(),
        }
    }
}

impl Script {
    /// `before` stands in front of everything.
    fn new(kind: ScriptKind, before: &str, body: &str) -> Self {
        let text = format!("{before}{}\n{body}", kind.prelude());
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { kind, text, sha }
    }

    /// Begins a call on the keys of one shard.
    pub(crate) fn on<'s>(&'s self, shard: &Shard) -> ScriptCall<'s> {
        let (keys, more) = (shard.keys(), self.kind.more_keys(shard));
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(keys.len() + more.len()).arg(keys).arg(more);
        ScriptCall { script: self, cmd }
    }
}

macro_rules! scripts {
    ($($kind:ident: $($name:ident,)*;)*) => {
        /// Every script of the store.
        #[derive(Debug)]
        pub(crate) struct Scripts {
            $($(pub(crate) $name: Script,)*)*
        }

        impl Scripts {
            fn after(before: &str) -> Self {
                let new = |kind, body| Script::new(kind, before, body);
                Self {
                    $($($name: new(
                        ScriptKind::$kind,
                        include_str!(concat!("../scripts/", stringify!($name), ".lua")),
                    ),)*)*
                }
            }
        }
    };
}

scripts! {
    Events:
        audit,
        change,
        claim,
        control,
        count,
        enqueue,
        get,
        lease,
        note,
        oldest,
        page,
        promote,
        purge,
        repair,
        settle,
        unpark,
    ;
    Expiry:
        expiry_claim,
        expiry_decide,
        expiry_find,
        expiry_prune,
        expiry_revoke,
    ;
}

impl Default for Scripts {
    fn default() -> Self {
        Self::after("")
    }
}

#[cfg(test)]
impl Scripts {
    /// The same scripts, each of which fails when it is about to send its command number `n`.
    pub(crate) fn failing_at(n: usize) -> Self {
        Self::after(&fault(n))
    }
}

/// A script on its way, to which arguments are added.
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

    /// Runs a script whose answer holds bodies, and waits for as long as the server sends. The caller bounds that.
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

/// Counts the commands of a script, and fails before the one with this number.
#[cfg(test)]
fn fault(n: usize) -> String {
    format!(
        "local server, sent = redis, 0\n\
         local redis = setmetatable({{ call = function(...)\n\
           sent = sent + 1\n\
           if sent == {n} then error('FAULT injected') end\n\
           return server.call(...)\n\
         end }}, {{ __index = server }})\n"
    )
}
