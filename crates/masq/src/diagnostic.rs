//! What is wrong with a config: an error or a warning with its place, value, reason and remedy.

use std::fmt;
use std::sync::Arc;

mod render;

/// Whether a finding refuses the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The config is refused.
    Error,
    /// The config is taken, but probably not what its writer meant.
    Warning,
}

/// A place in a config file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file's name as shown to people.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// What kind of finding a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiagnosticKind {
    /// The file could not be read.
    Io,
    /// The file is no YAML.
    YamlSyntax,
    /// The file starts with `{` and is no JSON.
    JsonSyntax,
    /// A value that JSON cannot express: infinity or not-a-number.
    JsonValue,
    /// A value of another type than its key takes.
    WrongType,
    /// A duration that cannot be read.
    Duration,
    /// More CIDRs than `cidrLimit`.
    TooManyCidrs,
    /// A text that is no CIDR block.
    CidrParse,
    /// A CIDR block with bits set behind its prefix.
    CidrUnaligned,
    /// A list element without a value.
    NullElement,
    /// An IPv6 CIDR block while IPv6 is off.
    Ipv6Disabled,
    /// Two files set a key differently.
    Conflict,
    /// A key that this agent does not know.
    UnknownKey,
    /// A key that is set twice.
    DuplicateKey,
    /// Documents behind the first one are ignored.
    LaterDocument,
    /// The list of CIDRs has no value, so that nothing is exempt.
    NullList,
    /// The resync interval is below one second.
    ShortInterval,
    /// IPv6 is on and no IPv6 CIDR is exempt.
    NoIpv6Cidrs,
    /// Nothing of a family is masqueraded.
    ExemptsAll,
}

/// One finding about a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it refuses the config.
    pub severity: Severity,
    /// What kind of finding it is.
    pub kind: DiagnosticKind,
    /// Where; none for a flag or a whole file that could not be read.
    pub place: Option<Place>,
    /// The key or element, like `nonMasqueradeCIDRs[2]`; empty for the file as a whole.
    pub path: String,
    /// The value as written, or its beginning.
    pub value: Option<String>,
    /// Why it is wrong.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

impl DiagnosticKind {
    /// A stable name for programs, like `cidr-parse`.
    pub fn name(self) -> &'static str {
        match self {
            DiagnosticKind::Io => "io",
            DiagnosticKind::YamlSyntax => "yaml-syntax",
            DiagnosticKind::JsonSyntax => "json-syntax",
            DiagnosticKind::JsonValue => "json-value",
            DiagnosticKind::WrongType => "wrong-type",
            DiagnosticKind::Duration => "duration",
            DiagnosticKind::TooManyCidrs => "too-many-cidrs",
            DiagnosticKind::CidrParse => "cidr-parse",
            DiagnosticKind::CidrUnaligned => "cidr-unaligned",
            DiagnosticKind::NullElement => "null-element",
            DiagnosticKind::Ipv6Disabled => "ipv6-disabled",
            DiagnosticKind::Conflict => "conflict",
            DiagnosticKind::UnknownKey => "unknown-key",
            DiagnosticKind::DuplicateKey => "duplicate-key",
            DiagnosticKind::LaterDocument => "later-document",
            DiagnosticKind::NullList => "null-list",
            DiagnosticKind::ShortInterval => "short-interval",
            DiagnosticKind::NoIpv6Cidrs => "no-ipv6-cidrs",
            DiagnosticKind::ExemptsAll => "exempts-all",
        }
    }
}

impl Diagnostic {
    /// The finding in several lines for people at a terminal: with the line of the file it is about and a mark below it.
    ///
    /// `source` is the content of the file that the place names; anything may be in it.
    pub fn render_with_source(&self, source: &[u8]) -> String {
        render::render(self, source)
    }
}

impl fmt::Display for Diagnostic {
    /// One line, whatever the file holds: `file:line:column: error: key "value": reason; remedy`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}; {}", Summary(self), Escaped(&self.remedy))
    }
}

/// The finding without its place and remedy.
struct Summary<'finding>(&'finding Diagnostic);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, path, value, reason, .. } = self.0;
        write!(f, "{severity}: ")?;
        match (path.is_empty(), value) {
            (true, None) => {}
            (false, None) => write!(f, "{}: ", Escaped(path))?,
            (true, Some(value)) => write!(f, "\"{}\": ", Escaped(value))?,
            (false, Some(value)) => write!(f, "{} \"{}\": ", Escaped(path), Escaped(value))?,
        }
        write!(f, "{}", Escaped(reason))
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", Escaped(&self.file), self.line, self.column)
    }
}

/// How many characters of a stranger's text are kept and shown.
const LONGEST: usize = 200;

/// The beginning of a text, so that a finding about a huge value is not huge itself.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Text of a stranger's: cut after 200 characters, and with every character escaped that could steer a terminal or end a line.
struct Escaped<'text>(&'text str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, c) in self.0.chars().enumerate() {
            if count == LONGEST {
                return f.write_str("...");
            }
            if is_harmless(c) { fmt::Write::write_char(f, c)? } else { write!(f, "{}", c.escape_unicode())? }
        }
        Ok(())
    }
}

/// Whether a character only shows itself: no control character, line break, change of direction or invisible sign.
fn is_harmless(c: char) -> bool {
    let is_format =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !is_format
}
