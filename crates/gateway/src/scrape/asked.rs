//! Who is asked for pages, and with what.

use crate::snapshot::{PoolEntry, Upstream};
use crate::upstream::addresses::Addresses;
use crate::upstream::tls;
use http::HeaderValue;
use std::net::SocketAddr;
use std::sync::Arc;
use weighbridge_config::resolved::{self, HttpVersion};
use weighbridge_wire::metrics::GpuSelect;

impl PoolEntry {
    /// Loads what the pages of a pool's engines and of its GPUs' exporters are asked for with.
    pub(crate) fn prepare_pages(&mut self) -> Result<(), String> {
        // A connection of HTTP/1.1 is kept from page to page; over TLS a new one would cost more than the page.
        if self.tls.is_some() && self.config.scrape.is_some() && self.config.http == HttpVersion::Auto {
            let config = resolved::Pool {
                http: HttpVersion::One,
                ..self.config.clone()
            };
            self.for_pages = Some(Arc::new(Self {
                credentials: self.credentials.clone(),
                bell: self.bell.clone(),
                ..self.asking(config, true)?
            }));
        }
        let gpus = || {
            self.config
                .endpoints
                .iter()
                .filter_map(|endpoint| endpoint.gpus.as_ref())
        };
        if gpus().next().is_some() {
            // They get none of the pool's keys, and have no name of its certificates.
            let mut config = resolved::Pool {
                http: HttpVersion::One,
                ..self.config.clone()
            };
            config.tls.server_name = None;
            let https = gpus().any(|gpus| gpus.url.https);
            self.for_exporters = Some(Arc::new(self.asking(config, https)?));
        }
        Ok(())
    }

    fn asking(&self, mut config: resolved::Pool, https: bool) -> Result<Self, String> {
        let tls = match https {
            true => Some(
                tls::client_config(&config.tls, config.http)
                    .map_err(|error| format!("pool `{}`: {error}", config.name))?,
            ),
            false => None,
        };
        config.endpoints.clear();
        config.api_keys.clear();
        Ok(Self {
            config,
            tls,
            own: self.own.clone(),
            credentials: Vec::new(),
            secrets: Vec::new(),
            bell: None,
            blocks: Arc::default(),
            names: None,
            for_pages: None,
            for_exporters: None,
        })
    }
}

impl Upstream {
    /// Finds out who is asked for its metrics.
    pub(crate) fn find_metrics(&mut self, endpoint: &resolved::Endpoint) {
        let port = self.pool.config.scrape.as_ref().and_then(|scrape| scrape.port);
        if port.is_some() || self.pool.for_pages.is_some() {
            let port = port.unwrap_or(self.url.port);
            let elsewhere = |address: &SocketAddr| match port == self.url.port {
                true => *address,
                false => SocketAddr::new(address.ip(), port),
            };
            let addresses: Vec<_> = endpoint.addresses.iter().map(elsewhere).collect();
            let url = match port == self.url.port {
                true => self.url.clone(),
                false => self.url.at_port(port),
            };
            let pool = self.pool.for_pages.as_ref().unwrap_or(&self.pool);
            self.metrics_at = self.standing_in(pool, url, &addresses);
        }
        if let (Some(gpus), Some(pool)) = (&endpoint.gpus, &self.pool.for_exporters) {
            self.gpus_at = self.standing_in(pool, gpus.url.clone(), &[]);
            self.gpus = Some(GpuSelect {
                indexes: gpus.indexes.clone(),
                uuids: gpus.uuids.clone(),
            });
        }
    }

    /// Somebody at another address, or with other settings, who is asked in its place.
    fn standing_in(
        &self,
        pool: &Arc<PoolEntry>,
        url: resolved::BaseUrl,
        addresses: &[SocketAddr],
    ) -> Option<Arc<Self>> {
        // The host was a header's value before, and a port makes it no other.
        let host = HeaderValue::try_from(url.authority.as_str()).ok()?;
        Some(Arc::new(Self {
            rank: self.rank,
            ranks: self.ranks,
            id: self.id,
            name: self.name.clone(),
            labels: Vec::new(),
            pool: pool.clone(),
            addresses: Addresses::new(&url, addresses),
            url,
            host,
            kv_events: None,
            last_byte: self.last_byte.clone(),
            attempts: self.attempts.clone(),
            signals: self.signals.clone(),
            metrics_at: None,
            gpus_at: None,
            gpus: None,
        }))
    }
}
