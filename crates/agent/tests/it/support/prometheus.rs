//! A Prometheus server in a lab's node, which scrapes the agent there. It ends with its value.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ip_masq_agent::lab::namespace::Namespace;
use serde_json::Value;

use super::agent::wait_until;
use super::directory::Directory;
use super::http::Client;

/// Where it listens: the namespace is the lab's own, so nobody else has the port.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9090));

/// A running server.
#[derive(Debug)]
pub struct Prometheus<'a> {
    namespace: &'a Namespace,
    child: Child,
    _directory: Directory,
}

impl<'a> Prometheus<'a> {
    /// Starts a server that scrapes `target` twice a second as the job "ip-masq-agent" and evaluates `rules`. Waits until it
    /// answers.
    pub fn start(namespace: &'a Namespace, target: &str, rules: &Path) -> Prometheus<'a> {
        let directory = Directory::new();
        let config = directory.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs: [{{job_name: ip-masq-agent, static_configs: [{{targets: ['{target}']}}]}}]\n",
            rules.display()
        );
        fs::write(&config, text).unwrap();
        // It would outlive a test that is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "prometheus", "--log.level=error"]);
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg(format!("--web.listen-address={ADDRESS}")).stdin(Stdio::null());
        let child = namespace.run(move || command.spawn()).unwrap();
        let prometheus = Prometheus { namespace, child, _directory: directory };
        wait_until("Prometheus to answer", || {
            let connected = prometheus.namespace.run(|| TcpStream::connect(ADDRESS).is_ok());
            connected && prometheus.ask("/-/ready").0 == 200
        });
        prometheus
    }

    /// The series that an expression has now.
    ///
    /// # Errors
    /// Prometheus does not understand the expression.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let (status, body) = self.ask(&format!("/api/v1/query?query={}", encoded(expression)));
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        match status {
            200 => Ok(answer["data"]["result"].as_array().unwrap().clone()),
            _ => Err(answer["error"].to_string()),
        }
    }

    /// What the server makes of each of its rules.
    pub fn rules(&self) -> Vec<Value> {
        let answer: Value = serde_json::from_str(&self.ask("/api/v1/rules").1).unwrap();
        let groups = answer["data"]["groups"].as_array().unwrap();
        groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
    }

    fn ask(&self, path: &str) -> (u16, String) {
        let mut client = Client::connect(self.namespace, ADDRESS);
        // With HTTP/1.0 the body comes in one piece, up to the end of the connection.
        client.send(&format!("GET {path} HTTP/1.0\r\n\r\n"));
        (client.head().0, client.rest())
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        // Either fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
