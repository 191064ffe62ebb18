//! The errors and warnings about a config as they are found, bounded in number and told in the order of the files.

use crate::diagnostic::{Diagnostic, DiagnosticKind, Place, Severity};

/// How many errors, and how many warnings, are kept; the rest is only counted.
const MOST: usize = 20;

/// What was found so far. A finding is made only if it is kept, so that a hostile file does not cost one for each of its values.
#[derive(Debug, Default)]
pub(super) struct Findings {
    errors: Bounded,
    /// Errors in list elements, apart so that a long list of them does not crowd out all others.
    element_errors: Bounded,
    /// Warnings about unknown keys, apart so that `--strict` misses none behind many others.
    unknown_keys: Bounded,
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
    kept: Vec<Finding>,
    dropped: usize,
}

impl Findings {
    pub fn error(&mut self, finding: impl FnOnce() -> Finding) {
        self.errors.push(finding);
    }

    pub fn element_error(&mut self, finding: impl FnOnce() -> Finding) {
        self.element_errors.push(finding);
    }

    pub fn unknown_key(&mut self, finding: impl FnOnce() -> Finding) {
        self.unknown_keys.push(finding);
    }

    pub fn warning(&mut self, finding: impl FnOnce() -> Finding) {
        self.warnings.push(finding);
    }

    /// Errors and warnings by place, those without one last, each ended by the number of those left out.
    pub fn into_parts(self) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        let mut errors = self.errors.and(self.element_errors).finish(Severity::Error);
        // Told apart also in what is left out, since `--strict` makes errors of one kind only.
        let mut warnings = self.unknown_keys.finish(Severity::Warning);
        warnings.extend(self.warnings.finish(Severity::Warning));
        for told in [&mut errors, &mut warnings] {
            told.sort_by(|a, b| (a.place.is_none(), &a.place).cmp(&(b.place.is_none(), &b.place)));
        }
        (errors, warnings)
    }
}

impl Bounded {
    fn push(&mut self, finding: impl FnOnce() -> Finding) {
        if self.kept.len() < MOST {
            self.kept.push(finding());
        } else {
            self.dropped += 1;
        }
    }

    fn and(mut self, other: Bounded) -> Bounded {
        self.kept.extend(other.kept);
        Bounded { kept: self.kept, dropped: self.dropped + other.dropped }
    }

    fn finish(mut self, severity: Severity) -> Vec<Diagnostic> {
        if let Some(last) = self.kept.last().filter(|_| self.dropped > 0) {
            self.kept.push(Finding {
                kind: last.kind,
                place: None,
                path: String::new(),
                value: None,
                reason: format!("{} more are not shown", self.dropped),
                remedy: "mend the first ones and look again".to_owned(),
            });
        }
        let told = self.kept.into_iter().map(|Finding { kind, place, path, value, reason, remedy }| Diagnostic {
            severity,
            kind,
            place,
            path,
            value,
            reason,
            remedy,
        });
        told.collect()
    }
}
