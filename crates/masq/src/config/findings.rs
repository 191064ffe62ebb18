//! The errors and warnings about a config as they are found, bounded in number.

use crate::diagnostic::{Diagnostic, DiagnosticKind, Place, Severity};

/// How many errors, and how many warnings, are kept; the rest is only counted.
const MOST: usize = 20;

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    errors: Bounded,
    /// Errors in list elements, which the reference looks at after everything else.
    element_errors: Bounded,
    warnings: Bounded,
}

/// What is told about a finding besides its severity.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub kind: DiagnosticKind,
    pub place: Option<Place>,
    pub path: String,
    pub value: Option<String>,
    pub reason: String,
    pub remedy: String,
}

#[derive(Debug, Default)]
struct Bounded {
    kept: Vec<Diagnostic>,
    dropped: usize,
}

impl Findings {
    pub fn error(&mut self, finding: Finding) {
        self.errors.push(Severity::Error, finding);
    }

    pub fn element_error(&mut self, finding: Finding) {
        self.element_errors.push(Severity::Error, finding);
    }

    pub fn warning(&mut self, finding: Finding) {
        self.warnings.push(Severity::Warning, finding);
    }

    /// Errors and warnings, each ended by the number of those left out.
    pub fn into_parts(self) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        let mut errors = self.errors.finish();
        errors.extend(self.element_errors.finish());
        (errors, self.warnings.finish())
    }
}

impl Bounded {
    fn push(&mut self, severity: Severity, finding: Finding) {
        if self.kept.len() >= MOST {
            self.dropped += 1;
            return;
        }
        let Finding { kind, place, path, value, reason, remedy } = finding;
        self.kept.push(Diagnostic { severity, kind, place, path, value, reason, remedy });
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        if let Some(last) = self.kept.last().filter(|_| self.dropped > 0) {
            let rest = Diagnostic {
                place: None,
                path: String::new(),
                value: None,
                reason: format!("{} more are not shown", self.dropped),
                remedy: "mend the first ones and look again".to_owned(),
                ..last.clone()
            };
            self.kept.push(rest);
        }
        self.kept
    }
}
