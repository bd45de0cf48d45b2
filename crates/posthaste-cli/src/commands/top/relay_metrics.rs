//! Figures that only a relay's metrics contain: which destinations are unreachable, and how often each was called.

use std::collections::HashMap;

/// The metrics of all outboxes of a relay.
#[derive(Debug, Default)]
pub(super) struct RelayMetrics {
    delivered: HashMap<String, u64>,
    routes: HashMap<(String, String), RouteMetrics>,
}

/// The metrics of one route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RouteMetrics {
    pub(super) unreachable: bool,
    pub(super) calls: Option<u64>,
}

impl RelayMetrics {
    /// Parses the text of `/metrics`. The prefix of the names is configurable, so only their ends are compared.
    pub(super) fn read(text: &str) -> Self {
        let mut metrics = Self::default();
        for metric in text.lines().filter_map(MetricLine::read) {
            metrics.add(&metric);
        }
        metrics
    }

    fn add(&mut self, metric: &MetricLine<'_>) {
        let Some(outbox) = metric.label("outbox") else { return };
        if metric.name.ends_with("_dispatch_success") {
            self.delivered.insert(outbox, metric.value as u64);
            return;
        }
        let Some(route) = metric.label("route") else { return };
        let metrics = self.routes.entry((outbox, route)).or_default();
        if metric.name.ends_with("_breaker_open") {
            metrics.unreachable = metric.value > 0.0;
        } else if metric.name.ends_with("_dispatch_duration_seconds_count") {
            metrics.calls = Some(metric.value as u64);
        }
    }

    pub(super) fn delivered(&self, outbox: &str) -> Option<u64> {
        self.delivered.get(outbox).copied()
    }

    pub(super) fn route(&self, outbox: &str, route: &str) -> RouteMetrics {
        self.routes.get(&(outbox.to_owned(), route.to_owned())).copied().unwrap_or_default()
    }
}

/// One line, such as `outbox_breaker_open{outbox="shop",route="mail"} 1`.
struct MetricLine<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl<'a> MetricLine<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (name, rest) = line.split_once('{')?;
        let (labels, value) = rest.rsplit_once('}')?;
        let value = value.trim().parse().ok()?;
        (!name.starts_with('#')).then_some(Self { name, labels, value })
    }

    /// The value of a label. In it `\`, `"` and line breaks are escaped.
    fn label(&self, wanted: &str) -> Option<String> {
        let mut rest = self.labels;
        loop {
            let (name, value) = rest.split_once("=\"")?;
            let (value, end) = unescape(value)?;
            if name.trim_start_matches([',', ' ']) == wanted {
                return Some(value);
            }
            rest = end;
        }
    }
}

/// Returns the text up to its closing quote, unescaped, and the rest.
fn unescape(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_parsed_with_any_prefix() {
        let text = r#"# TYPE shop_breaker_open gauge
shop_breaker_open{outbox="orders",route="mail"} 1
shop_breaker_open{outbox="orders",route="a \"b\", c=\"d\\"} 0
shop_dispatch_duration_seconds_count{outbox="orders",route="mail"} 17
shop_dispatch_duration_seconds_bucket{outbox="orders",route="mail",le="0.001"} 3
shop_dispatch_success{outbox="orders"} 12
shop_dispatch_success{outbox="bills"} 5
posthaste_build_info{version="1"} 1
"#;
        let metrics = RelayMetrics::read(text);
        assert_eq!(metrics.delivered("orders"), Some(12));
        assert_eq!(metrics.delivered("other"), None);
        assert_eq!(metrics.route("orders", "mail"), RouteMetrics { unreachable: true, calls: Some(17) });
        assert_eq!(metrics.route("orders", r#"a "b", c="d\"#), RouteMetrics::default());
        assert!(metrics.routes.contains_key(&("orders".into(), r#"a "b", c="d\"#.into())));
    }

    #[test]
    fn text_without_metrics_has_no_values() {
        for text in ["", "{", "}{", "a{outbox=\"} 1", "a_breaker_open{outbox=\"x\\", "<html>{}</html>"] {
            let metrics = RelayMetrics::read(text);
            assert!(metrics.delivered.is_empty() && metrics.routes.is_empty(), "{text}");
        }
    }
}
