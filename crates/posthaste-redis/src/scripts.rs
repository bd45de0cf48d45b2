//! The Lua scripts, one per mutation, and how they are called.

use posthaste::StoreError;
use redis::{Cmd, ErrorKind, FromRedisValue, ServerErrorKind, ToRedisArgs};

use crate::connection::Link;
use crate::error::failed;
use crate::keys::Shard;

/// One script with what stands before all of them.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    sha: String,
}

impl Script {
    pub(crate) fn new(body: &str) -> Self {
        Self::from_text(format!("{PRELUDE}\n{body}"))
    }

    fn from_text(text: String) -> Self {
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha }
    }

    /// Begins a call on the keys of one shard.
    pub(crate) fn on<'s>(&'s self, shard: &Shard) -> Call<'s> {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(shard.keys().len()).arg(shard.keys());
        Call { script: self, cmd }
    }
}

const PRELUDE: &str = include_str!("../scripts/prelude.lua");

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Every script of the store.
        #[derive(Debug)]
        pub(crate) struct Scripts {
            $($(#[$doc])* pub(crate) $name: Script,)*
        }

        impl Default for Scripts {
            fn default() -> Self {
                Self { $($name: Script::new(include_str!(concat!("../scripts/", stringify!($name), ".lua"))),)* }
            }
        }

        #[cfg(test)]
        impl Scripts {
            /// The same scripts, each of which fails when it is about to send its command number `n`.
            pub(crate) fn failing_at(n: usize) -> Self {
                let fault = fault(n);
                Self {
                    $($name: Script::from_text(format!(
                        "{fault}\n{PRELUDE}\n{}",
                        include_str!(concat!("../scripts/", stringify!($name), ".lua"))
                    )),)*
                }
            }
        }
    };
}

scripts! {
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
}

/// A script on its way, to which arguments are added.
#[derive(Debug)]
pub(crate) struct Call<'s> {
    script: &'s Script,
    cmd: Cmd,
}

impl Call<'_> {
    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.cmd.arg(arg);
        self
    }

    pub(crate) fn push(&mut self, arg: impl ToRedisArgs) {
        self.cmd.arg(arg);
    }

    /// Runs the script. A server that does not know it, because it was restarted or told to forget, is
    /// taught it: nothing was done yet, so nothing is done twice.
    pub(crate) async fn run<T: FromRedisValue>(&self, link: &Link) -> Result<T, StoreError> {
        const TRIES: usize = 3;
        let mut tries = 0;
        loop {
            tries += 1;
            match link.query(&self.cmd).await {
                Err(error) if is_unknown(&error) && tries < TRIES => {
                    let mut load = redis::cmd("SCRIPT");
                    load.arg("LOAD").arg(&self.script.text);
                    link.query::<redis::Value>(&load).await.map_err(failed)?;
                }
                answer => return answer.map_err(failed),
            }
        }
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
         end }}, {{ __index = server }})"
    )
}
