//! Whatever bytes a file holds: no panic, no endless loop, no more memory than the file is worth.
#![expect(clippy::unwrap_used, reason = "a document that is not found fails the test")]

use masq::config::{Config, Flags, Parsed, Rejected, Source};
use masq::diagnostic::DiagnosticKind;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

fn parse(bytes: &[u8]) -> Result<Parsed, Rejected> {
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    Config::parse(&[Source { name: "f".to_owned(), bytes: bytes.to_vec() }], &flags)
}

/// Parses and renders everything that was found, as the tools do.
fn look_at_all_of(bytes: &[u8]) {
    let (errors, warnings) = match parse(bytes) {
        Ok(parsed) => (Vec::new(), parsed.warnings),
        Err(rejected) => {
            assert!(!rejected.errors.is_empty());
            (rejected.errors, rejected.warnings)
        }
    };
    assert!(errors.len() <= 41 && warnings.len() <= 41);
    for diagnostic in errors.iter().chain(&warnings) {
        let line = diagnostic.to_string();
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.len() < 10_000, "{line}");
        assert!(diagnostic.render_with_source(bytes).len() < 20_000);
    }
}

/// The documents of the vectors, to be mutilated.
fn documents() -> Vec<String> {
    let vectors: serde_json::Value = serde_json::from_str(include_str!("vectors.json")).unwrap();
    vectors["docs"].as_array().unwrap().iter().map(|case| case["doc"].as_str().unwrap().to_owned()).collect()
}

/// Pieces of the two languages and of what breaks readers of them.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "\n",
        "\r",
        "\t",
        " ",
        "  ",
        "- ",
        "? ",
        ": ",
        ":",
        "[",
        "]",
        "{",
        "}",
        ",",
        "'",
        "\"",
        "\\",
        "#",
        " #",
        "&a ",
        "*a",
        "|",
        ">-",
        "!!int ",
        "!",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "<<",
        "~",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "\0",
        "日",
        "\u{301}",
        "cidrLimit",
        "nonMasqueradeCIDRs",
        "10.0.0.0/8",
        "true",
        "0x1",
        "1e9",
    ];
    prop_oneof![prop::sample::select(pieces.to_vec()).prop_map(str::to_owned), any::<char>().prop_map(String::from)]
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        look_at_all_of(&bytes);
    }

    #[test]
    fn arbitrary_bytes_behind_a_byte_order_mark_do_no_harm(
        mark in prop_oneof![Just(&b"\xFF\xFE"[..]), Just(&b"\xFE\xFF"[..]), Just(&b"\xEF\xBB\xBF"[..]), Just(&b"{"[..])],
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        look_at_all_of(&[mark, &bytes].concat());
    }

    #[test]
    fn pieces_of_the_languages_in_any_order_do_no_harm(pieces in prop::collection::vec(piece(), 0..40)) {
        look_at_all_of(pieces.concat().as_bytes());
    }

    #[test]
    fn mutilated_documents_do_no_harm(
        document in prop::sample::select(documents()),
        at in any::<prop::sample::Index>(),
        removed in 0_usize..4,
        inserted in prop::collection::vec(piece(), 0..3),
    ) {
        let mut characters: Vec<char> = document.chars().collect();
        let start = at.index(characters.len() + 1);
        let end = (start + removed).min(characters.len());
        characters.splice(start..end, inserted.concat().chars().collect::<Vec<_>>());
        look_at_all_of(characters.into_iter().collect::<String>().as_bytes());
    }
}

/// A million times the same end in one clear error; a quadratic reader would not come to it in any test run.
#[test]
fn endless_nesting_is_refused_at_once() {
    const TIMES: usize = 1_000_000;
    for (opening, kind) in [
        ("[", DiagnosticKind::YamlSyntax),
        ("a: [", DiagnosticKind::YamlSyntax),
        ("- ", DiagnosticKind::YamlSyntax),
        ("? ", DiagnosticKind::YamlSyntax),
        ("{\"a\":", DiagnosticKind::JsonSyntax),
        ("{\"a\":[[[[", DiagnosticKind::JsonSyntax),
    ] {
        let rejected = parse(opening.repeat(TIMES / opening.len()).as_bytes()).unwrap_err();
        assert_eq!(rejected.errors[0].kind, kind, "{opening}");
    }
}

#[test]
fn nesting_of_ten_thousand_levels_is_the_most() {
    let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    assert!(parse(nested(10_000).as_bytes()).is_ok());
    assert!(parse(nested(10_001).as_bytes()).is_err());
    let dashes = |levels: usize| format!("a: 1\nb:\n{}x", "- ".repeat(levels - 1));
    assert!(parse(dashes(10_000).as_bytes()).is_ok());
    assert!(parse(dashes(10_001).as_bytes()).is_err());
}

#[test]
fn aliases_cannot_multiply_their_targets() {
    let list =
        (1..40).fold("l0: &l0 [x, x]\n".to_owned(), |text, i| format!("{text}l{i}: &l{i} [*l{0}, *l{0}]\n", i - 1));
    let merge = (1..40)
        .fold("l0: &l0 {x: 1}\n".to_owned(), |text, i| format!("{text}l{i}: &l{i} {{<<: [*l{0}, *l{0}]}}\n", i - 1));
    for text in [list, merge] {
        let rejected = parse(text.as_bytes()).unwrap_err();
        assert!(rejected.errors[0].reason.contains("aliases"), "{}", rejected.errors[0]);
    }
}

#[test]
fn a_value_cannot_hold_itself() {
    let rejected = parse(b"a: &a [*a]\n").unwrap_err();
    assert!(rejected.errors[0].reason.contains("hold itself"), "{}", rejected.errors[0]);
}

#[test]
fn a_hundred_thousand_cidrs_are_read_from_every_form() {
    let cidrs: Vec<String> =
        (0..100_000).map(|i| format!("{}.{}.{}.0/24", 11 + i / 65_536, i / 256 % 256, i % 256)).collect();
    for text in [
        format!("cidrLimit: 100000\nnonMasqueradeCIDRs:\n- {}\n", cidrs.join("\n- ")),
        format!("cidrLimit: 100000\nnonMasqueradeCIDRs: [\n{}]\n", cidrs.join(",\n")),
        format!("{{\"cidrLimit\": 100000, \"nonMasqueradeCIDRs\": [\"{}\"]}}", cidrs.join("\", \"")),
    ] {
        assert_eq!(parse(text.as_bytes()).unwrap().config.non_masquerade_cidrs.len(), 100_000);
    }
}

#[test]
fn more_values_than_memory_is_good_for_are_refused_in_yaml_and_json() {
    let yaml = "- 1\n".repeat(600_000);
    let json = format!("{{\"a\": [{}1]}}", "1,".repeat(600_000));
    for text in [yaml, json] {
        let rejected = parse(text.as_bytes()).unwrap_err();
        assert!(rejected.errors[0].to_string().contains("more than 250,000 values"), "{}", rejected.errors[0]);
    }
}
