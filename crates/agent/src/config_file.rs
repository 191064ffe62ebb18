//! Reading the config from disk: a file, or a directory of them, without ever waiting on it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use masq::config::Source;
use nix::fcntl::OFlag;
use nix::sys::stat::makedev;

/// The most bytes of config that are read, all files of a directory together: a thousand times what a ConfigMap can hold.
pub const MAX_SIZE: u64 = 32 << 20;

/// The most files of a directory that are read.
pub(crate) const MAX_FILES: usize = 1000;

/// Files of a directory whose name does not start like this are somebody else's.
pub(crate) const NAME_PREFIX: &[u8] = b"ip-masq";

/// How often a file that changes under the reader is read again.
const ATTEMPTS: u32 = 5;

/// Reads the config file or directory at `path`; no file at all is an empty list.
///
/// Of a directory, every regular file (symbolic links followed) whose name starts with `ip-masq` is read, in the order of
/// names. FIFOs, sockets and devices are not even opened, so that nothing can make the reader wait; `/dev/null` is an empty file.
///
/// # Errors
/// What is there cannot be read, is no regular file, is too large, or changes faster than it can be read.
pub fn read(path: &Path) -> Result<Vec<Source>, ReadError> {
    let fail = |reason| ReadError { path: path.to_owned(), reason };
    match open(path).map_err(fail)? {
        Opened::Nothing => Ok(Vec::new()),
        Opened::Directory => read_directory(path),
        Opened::File(file) => Ok(vec![read_file(path, file, MAX_SIZE).map_err(fail)?]),
        Opened::Null => Ok(vec![Source { name: path.display().to_string(), bytes: Vec::new() }]),
        Opened::Special(kind) => Err(fail(Reason::NoFile(kind))),
    }
}

/// Reads a config from standard input up to its end.
///
/// # Errors
/// It cannot be read or is too large.
pub fn read_stdin() -> Result<Source, ReadError> {
    let name = "<stdin>";
    let bytes = read_at_most(io::stdin().lock(), MAX_SIZE);
    bytes
        .map(|bytes| Source { name: name.to_owned(), bytes })
        .map_err(|reason| ReadError { path: PathBuf::from(name), reason })
}

/// FNV-1a of the files' contents in order, with their lengths between them, so that no two ways to cut them are the same; the same on all nodes with
/// the same files.
pub fn hash(sources: &[Source]) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let lengths_and_bytes = sources
        .iter()
        .flat_map(|source| (source.bytes.len() as u64).to_be_bytes().into_iter().chain(source.bytes.iter().copied()));
    let hash = lengths_and_bytes.fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

/// What a path leads to.
enum Opened {
    Nothing,
    Directory,
    File(File),
    Null,
    /// Anything else, by its name for people.
    Special(&'static str),
}

fn open(path: &Path) -> Result<Opened, Reason> {
    // O_PATH looks without opening: to open a FIFO can block, a socket fails oddly, and a device may act on it.
    let looked = OpenOptions::new().read(true).custom_flags((OFlag::O_PATH | OFlag::O_CLOEXEC).bits()).open(path);
    let Some(looked) = existing(looked)? else { return Ok(Opened::Nothing) };
    match kind(looked)? {
        Opened::File(_) => {}
        other => return Ok(other),
    }
    // The path may lead elsewhere by now, so that this open must not block either, and is looked at again.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let Some(opened) = existing(opened)? else { return Ok(Opened::Nothing) };
    kind(opened)
}

fn existing(opened: io::Result<File>) -> Result<Option<File>, Reason> {
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Reason::Io(error)),
    }
}

fn kind(file: File) -> Result<Opened, Reason> {
    let metadata = file.metadata().map_err(Reason::Io)?;
    let file_type = metadata.file_type();
    Ok(if file_type.is_file() {
        Opened::File(file)
    } else if file_type.is_dir() {
        Opened::Directory
    } else if file_type.is_fifo() {
        Opened::Special("a FIFO")
    } else if file_type.is_socket() {
        Opened::Special("a socket")
    } else if is_null_device(&metadata) {
        Opened::Null
    } else {
        Opened::Special("a device")
    })
}

fn is_null_device(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device() && metadata.rdev() == makedev(1, 3)
}

fn read_directory(path: &Path) -> Result<Vec<Source>, ReadError> {
    let mut sources = Vec::new();
    let mut left = MAX_SIZE;
    for name in names(path).map_err(|reason| ReadError { path: path.to_owned(), reason })? {
        let path = path.join(name);
        let fail = |reason| ReadError { path: path.clone(), reason };
        // What is no regular file, or has gone since the directory was listed, is skipped.
        if let Opened::File(file) = open(&path).map_err(fail)? {
            let source = read_file(&path, file, left).map_err(fail)?;
            left -= source.bytes.len() as u64;
            sources.push(source);
        }
    }
    Ok(sources)
}

fn names(path: &Path) -> Result<Vec<OsString>, Reason> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Reason::Io(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(Reason::Io)?.file_name();
        if name.as_bytes().starts_with(NAME_PREFIX) {
            names.push(name);
        }
        if names.len() > MAX_FILES {
            return Err(Reason::TooManyFiles);
        }
    }
    names.sort();
    Ok(names)
}

fn read_file(path: &Path, mut file: File, limit: u64) -> Result<Source, Reason> {
    for _ in 0..ATTEMPTS {
        let before = file.metadata().map_err(Reason::Io)?;
        if before.len() > limit {
            return Err(Reason::TooLarge);
        }
        let bytes = read_at_most(&mut file, limit)?;
        let after = file.metadata().map_err(Reason::Io)?;
        if version(&before) == version(&after) {
            return Ok(Source { name: path.display().to_string(), bytes });
        }
        io::Seek::rewind(&mut file).map_err(Reason::Io)?;
    }
    Err(Reason::Changing)
}

/// What changes when somebody writes to a file.
fn version(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Reads one byte more than allowed to tell a full file from a too long one, whatever its metadata say.
fn read_at_most(reader: impl Read, limit: u64) -> Result<Vec<u8>, Reason> {
    let mut bytes = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Reason::Io)?;
    if bytes.len() as u64 > limit { Err(Reason::TooLarge) } else { Ok(bytes) }
}

/// Why a config could not be read; the message names the path, the reason and the remedy.
#[derive(Debug)]
pub struct ReadError {
    path: PathBuf,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    Io(io::Error),
    NoFile(&'static str),
    TooLarge,
    TooManyFiles,
    Changing,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the config {:?}: ", self.path)?;
        match &self.reason {
            Reason::Io(error) => write!(f, "{error}; {}", remedy(error)),
            Reason::NoFile(kind) => write!(f, "it is {kind}; put the config into a regular file"),
            Reason::TooLarge => write!(
                f,
                "it is longer than {} MiB, all files of a directory together; check that the path names a config",
                MAX_SIZE >> 20
            ),
            Reason::TooManyFiles => write!(
                f,
                "more than {MAX_FILES} files there start with ip-masq; leave only the configs that are to be merged"
            ),
            Reason::Changing => f.write_str("it keeps changing while it is read; write a new file and rename it"),
        }
    }
}

/// The message tells the system's error too, so that there is no source behind it.
impl std::error::Error for ReadError {}

fn remedy(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("let user {} read it and search its directories", nix::unistd::geteuid())
        }
        ErrorKind::NotADirectory => "a part of the path before the last is no directory; correct the path".to_owned(),
        _ if error.raw_os_error() == Some(nix::libc::ELOOP) => {
            "its symbolic links lead in a circle; let them end at a file".to_owned()
        }
        _ => "check the path and its file system".to_owned(),
    }
}

#[cfg(test)]
mod tests;
