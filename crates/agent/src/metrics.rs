//! What the daemon tells of itself in numbers: which metrics there are, and how they are written down.

pub mod catalogue;
pub mod exposition;
pub mod histogram;
pub mod page;
pub mod process;
