//! `Publisher` for webhooks: `check` connects as a request would, without sending one.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::BoxError;
use posthaste::admin::Finding;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{HttpPublisher, Inner, transport_error};
use crate::check_error::{CheckError, UNREACHABLE_ADVICE};
use crate::publisher::Publisher;

#[async_trait]
impl Publisher for HttpPublisher {
    async fn check(&self) -> Result<(), CheckError> {
        let (shown, limit) = (&self.inner.endpoint.shown, self.inner.connect_timeout);
        match timeout(limit, self.inner.connect()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(CheckError::new(transport_error::no_connection(&*error, shown))),
            Err(_) => Err(CheckError::new(format!(
                "no connection to {shown} within {limit:?}: {UNREACHABLE_ADVICE}"
            ))),
        }
    }

    /// Reports only whether the endpoint is reachable: HTTP offers no way to find out what it does with events.
    async fn diagnose(&self) -> Vec<Finding> {
        self.check().await.err().map(Finding::from).into_iter().collect()
    }
}

impl Inner {
    /// Connects, and closes the connection: the client can only reuse connections that it has opened for requests.
    async fn connect(&self) -> Result<(), BoxError> {
        let host = self.endpoint.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let stream = TcpStream::connect(&*self.addresses(host).await?).await?;
        if self.endpoint.url.scheme() == "https" {
            let name = ServerName::try_from(host.to_owned())?;
            TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await?;
        }
        Ok(())
    }

    /// Returns the permitted addresses of the host. A literal address was checked when the publisher was built.
    async fn addresses(&self, host: &str) -> Result<Vec<SocketAddr>, BoxError> {
        let mut addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, 0)],
            Err(_) => self.address_filter.clone().addresses(host.to_owned()).await?,
        };
        let port = self.endpoint.url.port_or_known_default().unwrap_or_default();
        addresses.iter_mut().for_each(|address| address.set_port(port));
        Ok(addresses)
    }
}
