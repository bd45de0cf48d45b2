//! Access control: bearer tokens with roles. Without tokens, requests from this machine only.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::error::ApiError;
use crate::Secret;

/// The permissions of a token. An operator may do all that a viewer may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// Reads everything except the headers and payloads of events.
    Viewer,
    /// Reads everything, replays, discards, purges, pauses and resumes.
    Operator,
}

/// The role that an endpoint needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequiredRole {
    /// No token at all.
    Nothing,
    Viewer,
    Operator,
}

/// One bearer token. It serializes as in a configuration, under its name and without the secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Token {
    /// The name of its holder. The audit has it as `api:NAME`.
    #[serde(skip)]
    pub name: String,
    /// The permissions.
    pub role: Role,
    /// The token itself. It should be long and random.
    #[serde(rename = "token")]
    pub secret: Secret,
}

impl Token {
    /// A token with this name of its holder, this role and this secret.
    pub fn new(name: impl Into<String>, role: Role, secret: impl Into<String>) -> Self {
        Self { name: name.into(), role, secret: Secret::new(secret) }
    }
}

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// `None` at endpoints that need no token.
    pub(super) role: Option<Role>,
    /// The name for the audit.
    pub(super) actor: String,
}

/// The tokens. Only their digests are kept.
pub(super) struct Access {
    entries: Vec<TokenEntry>,
}

struct TokenEntry {
    digest: [u8; 32],
    caller: Caller,
}

impl Access {
    pub(super) fn new(tokens: &[Token]) -> Self {
        Self { entries: tokens.iter().map(TokenEntry::new).collect() }
    }

    /// Admits or refuses a request to an endpoint with this method and this required role.
    pub(super) fn admit(
        &self,
        required_role: RequiredRole,
        method: &Method,
        request: &Request,
    ) -> Result<Caller, ApiError> {
        let headers = request.headers();
        if self.entries.is_empty() {
            is_local(request)?;
            is_not_passed_on(headers)?;
            is_no_foreign_page(method, headers)?;
            return Ok(Caller { role: Some(Role::Operator), actor: "api:local".to_owned() });
        }
        let needed = match required_role {
            RequiredRole::Nothing => return Ok(Caller { role: None, actor: "api:unknown".to_owned() }),
            RequiredRole::Viewer => Role::Viewer,
            RequiredRole::Operator => Role::Operator,
        };
        let caller = bearer(headers).and_then(|token| self.holder(token)).ok_or_else(no_token)?;
        if caller.role < Some(needed) { Err(too_low()) } else { Ok(caller.clone()) }
    }

    /// The error for a request to an unknown path or method. Without tokens, other machines get the refusal instead,
    /// and so learn nothing about the paths.
    pub(super) fn refuse(&self, request: &Request, error: ApiError) -> ApiError {
        match self.entries.is_empty() {
            true => is_local(request).err().unwrap_or(error),
            false => error,
        }
    }

    /// The holder of this token. All digests are compared in constant time, so that the duration reveals nothing.
    fn holder(&self, token: &str) -> Option<&Caller> {
        let digest = digest(token);
        let mut found = u64::MAX;
        for (place, entry) in (0u64..).zip(&self.entries) {
            found.conditional_assign(&place, entry.digest.ct_eq(&digest));
        }
        let entry = self.entries.get(usize::try_from(found).ok()?)?;
        Some(&entry.caller)
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| &entry.caller)).finish()
    }
}

impl TokenEntry {
    fn new(token: &Token) -> Self {
        let caller = Caller { role: Some(token.role), actor: format!("api:{}", token.name) };
        Self { digest: digest(token.secret.expose()), caller }
    }
}

/// A digest has the same length for every token, as the comparison in constant time needs.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (all.next()?, all.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}

fn no_token() -> ApiError {
    let advice = "send the header Authorization: Bearer TOKEN with a token of the relay's configuration";
    ApiError::new(StatusCode::UNAUTHORIZED, "this needs a token that the relay knows", advice)
}

fn too_low() -> ApiError {
    let error = "this needs the role operator";
    ApiError::new(StatusCode::FORBIDDEN, error, "use a token with this role")
}

fn is_local(request: &Request) -> Result<(), ApiError> {
    is_local_peer(request)?;
    is_local_name(request.uri(), request.headers())
}

/// Without tokens, the peer of the connection must be on this machine. A request without a known peer is refused,
/// because the server may listen on any address.
fn is_local_peer(request: &Request) -> Result<(), ApiError> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    if peer.as_ref().is_some_and(IpAddr::is_loopback) {
        return Ok(());
    }
    let advice = "give the API a token; a service that mounts its router and serves loopback alone can use \
                  into_make_service_with_connect_info::<SocketAddr>() instead";
    Err(ApiError::new(StatusCode::FORBIDDEN, "without tokens only this machine is served", advice))
}

/// Without tokens, the name in `Host` must be one of this machine. This prevents DNS rebinding: a web page can make its
/// own name resolve to this machine, and the browser would then let the page read the responses.
fn is_local_name(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let named = headers.get_all(header::HOST).iter().map(|host| host.to_str().ok());
    let all_local = named.chain(uri.authority().map(|authority| Some(authority.as_str()))).all(|host| {
        host.and_then(|host| host.parse::<Authority>().ok()).is_some_and(|host| is_loopback(host.host()))
    });
    if all_local {
        return Ok(());
    }
    let advice = "send it to 127.0.0.1, [::1] or localhost, or give the relay a token";
    Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "without tokens only this machine is served", advice))
}

/// Headers that a proxy adds. Without tokens such requests are refused: the proxy may be on this machine while its
/// clients are not.
const PROXY_HEADERS: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

fn is_not_passed_on(headers: &HeaderMap) -> Result<(), ApiError> {
    if !PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)) {
        return Ok(());
    }
    let error = "without tokens only this machine is served, and this request came through a proxy";
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        error,
        "configure a token, and give it to the clients behind the proxy",
    ))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Without tokens, a web page in a browser on this machine must not change anything. Browsers mark such requests with
/// these headers.
fn is_no_foreign_page(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let from_page = headers.contains_key(header::ORIGIN) || site.is_some_and(|site| site != b"none");
    if method.is_safe() || !from_page {
        return Ok(());
    }
    let advice = "send it from a program, or give the relay a token";
    Err(ApiError::new(StatusCode::FORBIDDEN, "without tokens a web page may not change anything", advice))
}
