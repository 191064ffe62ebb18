//! Answers of the kernel.
