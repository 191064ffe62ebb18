//! Metrics as text, in the Prometheus format or in OpenMetrics.

use std::borrow::Cow;
use std::fmt::{Display, Write};

use super::catalogue::{Kind, Metric};
use super::histogram::{Histogram, LIMITS};
use crate::accept::Offer;

/// A format that a scraper can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The Prometheus text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

/// What is offered to scrapers; the first one if they do not care.
pub const OFFERS: [Offer<Format>; 2] = [
    Offer { answer: Format::Prometheus, media_type: "text/plain", versions: &["0.0.4"] },
    Offer { answer: Format::OpenMetrics, media_type: "application/openmetrics-text", versions: &["1.0.0", "0.0.1"] },
];

impl Format {
    /// The value of the header Content-Type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page of metrics that is being written.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    text: String,
}

impl Exposition {
    /// An empty page.
    pub fn new(format: Format) -> Exposition {
        Exposition { format, text: String::new() }
    }

    /// Writes a metric without labels; nothing at all if its value is not known.
    pub fn value(&mut self, metric: &Metric, value: Option<f64>) {
        self.family(metric, value.map(|value| ([], value)));
    }

    /// Writes a metric: for each sample the values of its labels, in the order of their names, and its own. Without samples nothing
    /// is written.
    pub fn family<'l, const N: usize>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([&'l str; N], f64)>,
    ) {
        for (index, (labels, value)) in samples.into_iter().enumerate() {
            if index == 0 {
                self.head(metric);
            }
            let labels = metric.labels.iter().copied().zip(labels);
            self.sample(metric.name, "", labels, value);
        }
    }

    /// Writes a histogram of durations.
    pub fn histogram(&mut self, metric: &Metric, observed: &Histogram) {
        self.head(metric);
        let mut below = 0;
        for (limit, count) in LIMITS.iter().zip(observed.counts()) {
            below += count;
            // Of numbers in labels OpenMetrics wants one way to write them, with a fraction.
            self.sample(metric.name, "_bucket", [("le", &*format!("{limit:?}"))], below as f64);
        }
        self.sample(metric.name, "_bucket", [("le", "+Inf")], observed.count() as f64);
        self.sample(metric.name, "_sum", [], observed.sum().as_secs_f64());
        self.sample(metric.name, "_count", [], observed.count() as f64);
    }

    /// The finished page.
    pub fn finish(mut self) -> String {
        match self.format {
            Format::Prometheus => {}
            Format::OpenMetrics => self.text.push_str("# EOF\n"),
        }
        self.text
    }

    fn head(&mut self, metric: &Metric) {
        let (family, word) = match (self.format, metric.kind) {
            (Format::Prometheus, kind) => (metric.name, kind.word()),
            (Format::OpenMetrics, Kind::Counter) => (without(metric.name, "_total"), "counter"),
            (Format::OpenMetrics, Kind::Info) => (without(metric.name, "_info"), "info"),
            (Format::OpenMetrics, kind @ (Kind::Gauge | Kind::Histogram)) => (metric.name, kind.word()),
        };
        self.write(format_args!("# HELP {family} {}\n# TYPE {family} {word}\n", metric.help));
    }

    fn sample<'l>(
        &mut self,
        name: &str,
        suffix: &str,
        labels: impl IntoIterator<Item = (&'l str, &'l str)>,
        value: f64,
    ) {
        self.write(format_args!("{name}{suffix}"));
        let mut bracket = '{';
        for (label, value) in labels {
            self.write(format_args!("{bracket}{label}=\"{}\"", escaped(value)));
            bracket = ',';
        }
        let end = if bracket == '{' { "" } else { "}" };
        self.write(format_args!("{end} {value}\n"));
    }

    fn write(&mut self, text: impl Display) {
        write!(self.text, "{text}").expect("a String takes any text");
    }
}

fn without<'n>(name: &'n str, suffix: &str) -> &'n str {
    name.strip_suffix(suffix).unwrap_or(name)
}

/// Both formats escape the same three characters in the values of labels.
fn escaped(value: &str) -> Cow<'_, str> {
    if value.contains(['\\', '"', '\n']) {
        value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into()
    } else {
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::catalogue;
    use super::*;

    fn page(format: Format) -> String {
        let mut page = Exposition::new(format);
        page.family(&catalogue::BUILD_INFO, [(["a\"b\\c\n"], 1.0)]);
        page.value(&catalogue::IN_SYNC, Some(1.0));
        page.value(&catalogue::CONNTRACK_LIMIT, None);
        page.family(&catalogue::CONNECTIONS, [(["ipv4", "exempt"], 12_345_678_901.0)]);
        page.finish()
    }

    #[test]
    fn the_prometheus_format_names_counters_and_infos_in_full() {
        let lines = [
            "# HELP ip_masq_agent_build_info Version of ip-masq-agent",
            "# TYPE ip_masq_agent_build_info gauge",
            r#"ip_masq_agent_build_info{version="a\"b\\c\n"} 1"#,
        ];
        let text = page(Format::Prometheus);
        assert!(text.starts_with(&lines.join("\n")), "{text}");
        assert!(text.contains("# TYPE ip_masq_agent_connections_total counter\n"), "{text}");
        assert!(text.ends_with("connections_total{family=\"ipv4\",verdict=\"exempt\"} 12345678901\n"), "{text}");
        assert!(!text.contains("conntrack_limit"), "what is not known is left out: {text}");
    }

    #[test]
    fn openmetrics_names_the_family_without_the_suffix_and_ends_with_eof() {
        let text = page(Format::OpenMetrics);
        assert!(text.contains("# TYPE ip_masq_agent_build info\nip_masq_agent_build_info{"), "{text}");
        assert!(text.contains("# TYPE ip_masq_agent_connections counter\nip_masq_agent_connections_total{"), "{text}");
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn the_buckets_of_a_histogram_hold_all_that_is_smaller() {
        let mut observed = Histogram::default();
        [100, 101, 20_000_000].into_iter().for_each(|micros| observed.observe(Duration::from_micros(micros)));
        let mut page = Exposition::new(Format::OpenMetrics);
        page.histogram(&catalogue::SYNC_DURATION, &observed);
        let text = page.finish();
        let sample = |rest: &str| format!("\nip_masq_agent_sync_duration_seconds{rest}\n");
        for rest in [
            "_bucket{le=\"0.0001\"} 1",
            "_bucket{le=\"0.00025\"} 2",
            "_bucket{le=\"10.0\"} 2",
            "_bucket{le=\"+Inf\"} 3",
            "_count 3",
            "_sum 20.000201",
        ] {
            assert!(text.contains(&sample(rest)), "{rest} is not in {text}");
        }
    }
}
