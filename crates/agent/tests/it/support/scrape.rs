//! What the running daemon answers over HTTP, asked in its namespace.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use ip_masq_agent::lab::link::Rtnetlink;
use ip_masq_agent::lab::namespace::Namespace;

use super::agent::holds_in_time;
use super::http::{Answer, Client};

/// The flag that has the daemon serve where a [`Scraper`] asks.
pub const HTTP: &str = "--http-bind-address=127.0.0.1:10268";

/// Whoever asks the daemon of a namespace.
pub struct Scraper<'n> {
    namespace: &'n Namespace,
}

impl<'n> Scraper<'n> {
    /// Makes addresses of the namespace itself reachable in it.
    pub fn new(namespace: &'n Namespace) -> Scraper<'n> {
        namespace.run(|| Rtnetlink::open().unwrap().set_up("lo").unwrap());
        Scraper { namespace }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.namespace, SocketAddr::from((Ipv4Addr::LOCALHOST, 10268)))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.client().get(path, "")
    }

    /// All samples of the page of metrics, by name and labels as they are written.
    pub fn samples(&self) -> BTreeMap<String, f64> {
        let page = self.get("/metrics");
        assert_eq!(page.status, 200, "{page:?}");
        let lines = page.body.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
        lines.map(|line| sample(line).unwrap_or_else(|| panic!("no sample: {line}"))).collect()
    }

    /// The value of a sample of ours, named without the common prefix; `None` if there is no such sample.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.samples().get(&format!("ip_masq_agent_{name}")).copied()
    }

    /// How much was healed, of whatever kind.
    pub fn drifts(&self) -> f64 {
        let samples = self.samples();
        samples.iter().filter(|(name, _)| name.starts_with("ip_masq_agent_drifts_total{")).map(|(_, count)| count).sum()
    }

    /// Waits until an endpoint answers with a status and a line that contains `text`.
    pub fn wait_for(&self, path: &str, status: u16, text: &str) {
        let mut last = None;
        let mut is_so = || {
            let answer = self.get(path);
            let found = answer.status == status && answer.body.contains(text);
            last = Some(answer);
            found
        };
        let held = holds_in_time(&mut is_so);
        assert!(held, "waited for {status} {text:?} of {path}, the last answer is {last:?}");
    }
}
