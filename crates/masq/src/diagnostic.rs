//! What is wrong with a config: an error or a warning with its place, value, reason and remedy.

use std::fmt;
use std::sync::Arc;

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
    /// The value as written.
    pub value: Option<String>,
    /// Why it is wrong.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
