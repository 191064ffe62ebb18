//! What can go wrong on a netfilter socket, said for the person who has to mend it.

use std::fmt;
use std::io;

/// Why an operation on a netfilter socket did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, such as `open a netfilter socket`.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused an operation; of a batch nothing was applied.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// Somebody changed the ruleset after the generation a batch was made for; nothing was applied.
    #[error(
        "the ruleset changed after generation {expected}, for which the batch was made; nothing \
         was applied: read the ruleset again and make a new batch"
    )]
    StaleGeneration {
        /// The generation the batch was made for.
        expected: u32,
    },
    /// The kernel's answer was lost (`ENOBUFS`): the batch may be in force or not.
    #[error(
        "the kernel's answer did not fit into the receive buffer, so the outcome is unknown: read \
         the generation and the ruleset again"
    )]
    UnknownOutcome,
    /// The batch is longer than the socket may send.
    #[error(
        "a batch of {bytes} bytes does not fit into the send buffer of the socket; raising it \
         needs CAP_NET_ADMIN outside user namespaces, or a larger net.core.wmem_max"
    )]
    BatchTooLarge {
        /// Length of the batch.
        bytes: usize,
    },
    /// An operation cannot be put into a netlink message; nothing was sent.
    #[error("cannot encode {operation}: {reason}")]
    Unencodable {
        /// The operation.
        operation: String,
        /// What does not fit.
        reason: &'static str,
    },
    /// Somebody changed the ruleset during a dump, so its parts may not belong together.
    #[error("the ruleset changed while {subject} were read; read them again")]
    Torn {
        /// What was read.
        subject: &'static str,
    },
    /// No answer came in time.
    #[error("no answer from the kernel within {seconds} s to the request to {action}")]
    TimedOut {
        /// What was tried.
        action: &'static str,
        /// How long was waited.
        seconds: u64,
    },
    /// The kernel's answer does not have the documented form.
    #[error("cannot make sense of the kernel's answer to the request to {action}: {reason}")]
    Malformed {
        /// What was tried.
        action: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
}

/// An operation that the kernel refused, and what is known about why.
#[derive(Debug)]
pub struct Refusal {
    /// The operation, such as `add chain inet t c`.
    pub operation: String,
    /// The attribute that the kernel pointed at, such as `NFTA_CHAIN_HOOK`.
    pub attribute: Option<String>,
    /// The kernel's own words, which are rare.
    pub message: Option<String>,
    /// The error number.
    pub errno: i32,
    /// How many later operations of the same batch were refused too.
    pub others: usize,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel refused to {}", self.operation)
    }
}
