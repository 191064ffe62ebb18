//! The measured behaviour of the reference, held against this crate: config files, CIDRs, durations and port ranges.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a vector of another shape fails the test")]

use std::fmt::Write as _;

use masq::cidr::{Cidr, CidrError, Family};
use masq::config::{Config, Flags, Parsed, Rejected, Source};
use masq::diagnostic::DiagnosticKind;
use masq::duration::GoDuration;
use masq::ports::{PortRange, PortRanges};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors.json")).expect("the vectors are JSON")
}

/// Collects every failure, so that one does not hide the rest.
#[derive(Default)]
struct Outcomes {
    held: usize,
    failures: String,
}

impl Outcomes {
    fn note(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.held += 1,
            Err(why) => writeln!(self.failures, "{name}: {why}").unwrap(),
        }
    }

    /// Fails with all that failed, or if suspiciously little was looked at.
    fn finish(self, at_least: usize) {
        assert!(self.failures.is_empty(), "{} held, but:\n{}", self.held, self.failures);
        assert!(self.held >= at_least, "only {} vectors were looked at", self.held);
    }
}

#[test]
fn every_document_is_taken_or_refused_as_measured() {
    let vectors = vectors();
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    let mut outcomes = Outcomes::default();
    for case in vectors["docs"].as_array().unwrap() {
        let doc = case["doc"].as_str().unwrap();
        outcomes.note(&format!("{doc:?}"), check_document(case, parse(doc.as_bytes(), &flags), &flags));
    }
    outcomes.finish(233);
}

fn check_document(case: &Value, parsed: Result<Parsed, Rejected>, flags: &Flags) -> Result<(), String> {
    if let Some(ours) = case["ours"].as_str() {
        return match (ours.starts_with("config-error"), parsed) {
            (true, Err(_)) => Ok(()),
            (false, Ok(parsed)) if ours.contains("warning") && parsed.warnings.is_empty() => {
                Err("no warning".to_owned())
            }
            (false, Ok(_)) => Ok(()),
            (_, other) => Err(format!("wanted {ours}, got {other:?}")),
        };
    }
    match (case["error_kind"].as_str(), parsed) {
        (Some(kind), Err(rejected)) => check_error_kind(kind, &rejected),
        (None, Ok(parsed)) => {
            let mut wanted: Value = serde_json::from_str(&Config::default_for(flags).to_reference_json()).unwrap();
            for (key, value) in case["config"].as_object().unwrap() {
                wanted[key] = value.clone();
            }
            let doc = case["doc"].as_str().unwrap();
            let is_remarked = parsed.warnings.iter().any(|warning| warning.kind == DiagnosticKind::UnknownKey);
            if has_unknown_key(doc) && !is_remarked {
                return Err("an unknown key without a warning".to_owned());
            }
            check_effective(&wanted, &parsed.config)
        }
        (wanted, got) => Err(format!("wanted {wanted:?}, got {got:?}")),
    }
}

/// Whether a line of the first document begins with a plain word and a colon, and the word is no key.
fn has_unknown_key(doc: &str) -> bool {
    const KEYS: [&str; 5] = ["nonmasqueradecidrs", "cidrlimit", "masqlinklocal", "masqlinklocalipv6", "resyncinterval"];
    let first = doc.strip_prefix("---\n").unwrap_or(doc);
    first.lines().take_while(|line| !line.starts_with("---") && !line.starts_with("...")).any(|line| {
        line.split_once(':').is_some_and(|(key, rest)| {
            let is_word = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_word && (rest.is_empty() || rest.starts_with(' ')) && !KEYS.contains(&key.to_ascii_lowercase().as_str())
        })
    })
}

#[test]
fn every_run_has_the_measured_outcome_and_effective_config() {
    let vectors = vectors();
    let mut outcomes = Outcomes::default();
    for case in vectors["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let Some(bytes) = config_bytes(case) else { continue };
        let Some(flags) = policy_flags(case) else { continue };
        outcomes.note(name, check_case(case, parse(&bytes, &flags)));
    }
    outcomes.finish(190);
}

fn check_case(case: &Value, parsed: Result<Parsed, Rejected>) -> Result<(), String> {
    let (expect, ours) = (&case["expect"], &case["ours"]);
    let outcome = ours["outcome"].as_str().or(expect["outcome"].as_str()).unwrap();
    let differs = ours["outcome"].as_str().is_some_and(|ours| expect["outcome"] != ours);
    match (outcome, parsed) {
        ("config-error", Err(_)) if differs => Ok(()),
        ("config-error", Err(rejected)) => check_error_kind(expect["error_kind"].as_str().unwrap(), &rejected),
        ("ok", Ok(parsed)) => {
            let mut wanted = expect["effective"].clone();
            if let (Some(interval), true) = (ours["resyncInterval"].as_str(), wanted.is_object()) {
                wanted["resyncInterval"] = interval.into();
            }
            let must_warn = ours["warn"].is_string() || (case["peer_weakness"].is_string() && !ours.is_object());
            if must_warn && parsed.warnings.is_empty() {
                return Err(format!("no warning about {} {}", ours["warn"], case["peer_weakness"]));
            }
            if wanted.is_object() { check_effective(&wanted, &parsed.config) } else { Ok(()) }
        }
        (wanted, got) => Err(format!("wanted {wanted}, got {got:?}")),
    }
}

fn parse(bytes: &[u8], flags: &Flags) -> Result<Parsed, Rejected> {
    Config::parse(&[Source { name: "test".to_owned(), bytes: bytes.to_vec() }], flags)
}

fn check_error_kind(wanted: &str, rejected: &Rejected) -> Result<(), String> {
    for error in &rejected.errors {
        if error.reason.is_empty() || error.remedy.is_empty() {
            return Err(format!("an error without reason or remedy: {error}"));
        }
    }
    // The reference falls over a null element when it takes it for a CIDR; ours names it.
    let name = |kind: DiagnosticKind| if kind == DiagnosticKind::NullElement { "cidr-parse" } else { kind.name() };
    let is_told = rejected.errors.iter().any(|error| name(error.kind) == wanted);
    if is_told { Ok(()) } else { Err(format!("wanted {wanted}, got {:?}", rejected.errors)) }
}

fn check_effective(wanted: &Value, config: &Config) -> Result<(), String> {
    let mut got: Value = serde_json::from_str(&config.to_reference_json()).map_err(|error| error.to_string())?;
    let mut wanted = wanted.clone();
    if wanted["nonMasqueradeCIDRs"].is_null() && wanted["nonMasqueradeCIDRs_count"].is_null() {
        wanted["nonMasqueradeCIDRs"] = Value::Array(Vec::new());
    }
    if let Some(count) = wanted["nonMasqueradeCIDRs_count"].as_u64() {
        got["nonMasqueradeCIDRs_count"] = (config.non_masquerade_cidrs.len()).into();
        got.as_object_mut().unwrap().remove("nonMasqueradeCIDRs");
        wanted["nonMasqueradeCIDRs_count"] = count.into();
        wanted.as_object_mut().unwrap().remove("nonMasqueradeCIDRs");
    }
    if wanted == got { Ok(()) } else { Err(format!("wanted {wanted}, got {got}")) }
}

/// The file's content; none for a case that is not about a plain file.
fn config_bytes(case: &Value) -> Option<Vec<u8>> {
    if let Some(text) = case["config"].as_str() {
        return Some(text.as_bytes().to_vec());
    }
    if let Some(base64) = case["config_base64"].as_str() {
        return Some(decode_base64(base64));
    }
    let pieces = case["config_gen"].as_array()?;
    let mut bytes = Vec::new();
    for piece in pieces {
        let number = |key: &str| usize::try_from(piece[key].as_u64().unwrap()).unwrap();
        if let Some(text) = piece["text"].as_str() {
            bytes.extend(text.as_bytes());
        } else if let Some(text) = piece["repeat"].as_str() {
            bytes.extend(text.as_bytes().repeat(number("times")));
        } else if piece["cidrs"].is_u64() {
            for i in 0..number("cidrs") {
                let line = format!("- {}.{}.{}.0/24\n", 11 + i / 65_536, i / 256 % 256, i % 256);
                bytes.extend(line.as_bytes());
            }
        } else {
            bytes.extend((0..number("bytes")).map(|i| ((i * number("a") + number("b")) % 256) as u8));
        }
    }
    Some(bytes)
}

fn decode_base64(text: &str) -> Vec<u8> {
    let value = |symbol: u8| match symbol {
        b'A'..=b'Z' => symbol - b'A',
        b'a'..=b'z' => symbol - b'a' + 26,
        b'0'..=b'9' => symbol - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is not base64"),
    };
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits =
            group.iter().fold(0_u32, |bits, &symbol| bits << 6 | u32::from(value(symbol))) << (6 * (4 - group.len()));
        bytes.extend(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}

/// The flags that are part of the policy; none if the case is about flags that this crate does not know.
fn policy_flags(case: &Value) -> Option<Flags> {
    let mut flags = Flags::default();
    for flag in case["flags"].as_array().unwrap() {
        match flag.as_str().unwrap() {
            "--enable-ipv6" | "--enable-ipv6=true" => flags.enable_ipv6 = true,
            "--nomasq-all-reserved-ranges" => flags.nomasq_all_reserved_ranges = true,
            "--random-fully=false" => flags.random_fully = false,
            flag if flag.starts_with("--to-ports=") => flags.to_ports = flag["--to-ports=".len()..].parse().ok()?,
            flag if flag.starts_with("--masq-chain=") || flag.starts_with("--v=") => {}
            _ => return None,
        }
    }
    Some(flags)
}

#[test]
fn every_cidr_is_valid_or_not_as_measured() {
    let vectors = vectors();
    let mut outcomes = Outcomes::default();
    for case in vectors["cidr"].as_array().unwrap() {
        let input = case["input"].as_str().unwrap();
        let valid = case["valid"].as_bool().unwrap() && case["ours"].is_null();
        let outcome = match (valid, input.parse::<Cidr>()) {
            (true, Ok(cidr)) if cidr.family().to_string() == case["treated_as"].as_str().unwrap() => Ok(()),
            (false, Err(error)) => check_cidr_kind(case["kind"].as_str(), &error),
            (_, other) => Err(format!("wanted {case}, got {other:?}")),
        };
        outcomes.note(input, outcome);
    }
    outcomes.finish(31);
}

fn check_cidr_kind(wanted: Option<&str>, error: &CidrError) -> Result<(), String> {
    let is_unaligned = matches!(error, CidrError::Unaligned { .. });
    match wanted {
        Some(kind) if is_unaligned != (kind == "cidr-unaligned") => Err(format!("wanted {kind}, got {error}")),
        Some(_) | None => Ok(()),
    }
}

#[test]
fn odd_cidr_texts_are_read_as_go_reads_them() {
    let vectors = vectors();
    let mut outcomes = Outcomes::default();
    for case in vectors["cidr_parse"].as_array().unwrap() {
        let input = case["input"].as_str().unwrap();
        let valid = case["error"].is_null() && case["aligned"] == true && case["ours"].is_null();
        let outcome = match (valid, input.parse::<Cidr>()) {
            (true, Ok(cidr)) => {
                let net: Cidr = case["net"].as_str().unwrap().parse().unwrap();
                let is_ipv6 = cidr.family() == Family::Ipv6;
                if cidr == net && case["ipv6"] == is_ipv6 { Ok(()) } else { Err(format!("wanted {net}, got {cidr}")) }
            }
            (false, Err(_)) => Ok(()),
            (_, other) => Err(format!("wanted {case}, got {other:?}")),
        };
        outcomes.note(input, outcome);
    }
    outcomes.finish(32);
}

#[test]
fn every_duration_is_read_as_go_reads_it() {
    let vectors = vectors();
    let mut outcomes = Outcomes::default();
    for case in vectors["durations"].as_array().unwrap() {
        let input = case["input"].as_str().unwrap();
        let got = input.parse::<GoDuration>();
        let outcome = if got.as_ref().ok().map(|duration| duration.0) == case["ns"].as_i64() {
            Ok(())
        } else {
            Err(format!("wanted {case}, got {got:?}"))
        };
        outcomes.note(input, outcome);
    }
    outcomes.finish(21);
}

#[test]
fn every_port_list_is_taken_or_refused_as_measured() {
    let vectors = vectors();
    let mut outcomes = Outcomes::default();
    for list in ["parse_one", "parse_list", "parse_list_more"] {
        for case in vectors["ports"][list].as_array().unwrap() {
            let input = case["input"].as_str().unwrap();
            let accepts = case["binary_accepts"] == true && case["ours"].is_null();
            let wanted = match &case["expect"] {
                Value::Array(ranges) => Some(ranges.iter().map(port_range).collect()),
                range @ Value::Object(_) => Some(vec![port_range(range)]),
                _ => None,
            };
            let outcome = match (accepts, input.parse::<PortRanges>()) {
                (true, Ok(ranges)) if wanted.is_none_or(|wanted| wanted == ranges.0) => Ok(()),
                (false, Err(_)) => Ok(()),
                (_, other) => Err(format!("wanted {case}, got {other:?}")),
            };
            outcomes.note(input, outcome);
        }
    }
    outcomes.finish(34);
}

fn port_range(value: &Value) -> PortRange {
    let port = |key: &str| u16::try_from(value[key].as_u64().unwrap()).unwrap();
    PortRange { first: port("first"), last: port("last") }
}

#[test]
fn port_ranges_have_the_measured_size_text_and_share() {
    let vectors = vectors();
    let ports = &vectors["ports"];
    for case in ports["size"].as_array().unwrap() {
        assert_eq!(case["size"], port_range(case).size(), "{case}");
    }
    for case in ports["size_of_list"].as_array().unwrap() {
        let ends = |pair: &Value| PortRange {
            first: pair[0].as_u64().unwrap() as u16,
            last: pair[1].as_u64().unwrap() as u16,
        };
        let ranges = PortRanges(case["list"].as_array().unwrap().iter().map(ends).collect());
        assert_eq!(case["size"], ranges.size(), "{case}");
    }
    for case in ports["text"].as_array().unwrap() {
        // A range that ends before it begins, or begins below 0, cannot be parsed and is never printed.
        if case["text"] != "" {
            assert_eq!(case["text"], port_range(case).to_string(), "{case}");
        }
    }
    for case in ports["probability"].as_array().unwrap() {
        let ranges: PortRanges = case["to_ports"].as_str().unwrap().parse().unwrap();
        assert_eq!(case["to_ports"], ranges.to_string());
        for (share, text) in ranges.shares().zip(case["text_in_restore"].as_array().unwrap()) {
            match text.as_str() {
                Some(text) => assert_eq!(text, (f64::from(share.size) / share.remaining as f64).to_string(), "{case}"),
                None => assert_eq!(u64::from(share.size), share.remaining, "{case}"),
            }
        }
    }
}
