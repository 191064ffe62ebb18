//! What can go wrong on a netfilter socket, said for the person who has to mend it.

use std::fmt;
use std::io;

use nix::libc;

mod attribute;

pub(crate) use attribute::attribute_path;

/// Why an operation on a netfilter socket did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action}{}: {errno}", permission(errno))]
    System {
        /// What was tried, such as `open a netfilter socket`.
        action: &'static str,
        /// The kernel's answer.
        errno: io::Error,
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

/// What is missing, where the kernel only says no.
fn permission(errno: &io::Error) -> &'static str {
    if errno.kind() == io::ErrorKind::PermissionDenied {
        " (it takes CAP_NET_ADMIN in this network namespace)"
    } else {
        ""
    }
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
        let Self { operation, attribute, message, errno, others } = self;
        write!(f, "the kernel refused to {operation}")?;
        if let Some(attribute) = attribute {
            write!(f, " (at {attribute})")?;
        }
        write!(f, ": {}", io::Error::from_raw_os_error(*errno))?;
        if let Some(message) = message {
            write!(f, ", {message}")?;
        }
        if let Some(hint) = self.hint() {
            write!(f, "; {hint}")?;
        }
        match others {
            0 => Ok(()),
            1 => f.write_str(" (and refused 1 more operation of the same batch)"),
            _ => write!(f, " (and refused {others} more operations of the same batch)"),
        }
    }
}

impl Refusal {
    /// What the error number usually means for such an operation, and what to do.
    pub fn hint(&self) -> Option<&'static str> {
        let rule = self.operation.contains("rule ");
        let expression = self.attribute.as_deref().is_some_and(|it| it.contains("expression"));
        match self.errno {
            libc::EPERM => Some(
                "it takes CAP_NET_ADMIN in this network namespace, and a table with the owner \
                 flag only obeys the process that owns it",
            ),
            libc::ENOENT if expression => Some(
                "the kernel lacks this expression (a module named nft_ and the expression) or \
                 the set, counter or chain it names",
            ),
            libc::ENOENT => Some("its table, or what it names, does not exist"),
            libc::EEXIST => Some("it exists already in another form; elements of an interval set must not overlap"),
            libc::EBUSY => Some("it is still in use: delete what refers to it first"),
            libc::EOPNOTSUPP if rule => Some("the kernel lacks this form of the expression"),
            libc::EOPNOTSUPP => Some(
                "the kernel lacks this, or an existing chain has another type, hook or priority: \
                 delete that chain in the same batch",
            ),
            libc::EINVAL if rule => Some("an expression is malformed or not allowed in chains of this type or hook"),
            libc::ENFILE => Some("the set is full"),
            libc::ERANGE | libc::ENAMETOOLONG => Some("a value is out of range; names have at most 255 bytes"),
            libc::EMLINK => Some("chains jump in a circle or too deep"),
            libc::ENOMEM => Some("the kernel is short of memory"),
            _ => None,
        }
    }
}
