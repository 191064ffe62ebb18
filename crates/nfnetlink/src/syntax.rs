//! Batches in the language of nft(8).

use std::fmt;

use crate::batch::Batch;

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for operation in self.operations() {
            writeln!(f, "{operation:?}")?;
        }
        Ok(())
    }
}
