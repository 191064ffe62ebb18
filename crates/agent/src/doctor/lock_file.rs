//! Whether iptables-legacy's lock file is one that the agent can use, and the same that the node's other programs use.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::{Finding, Severity};
use crate::backend::iptables::lock::{self, DEFAULT_PATH};

/// What is wrong with the lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No program can lock it, so that nothing can be written.
    Unusable {
        /// Where it is.
        path: PathBuf,
        /// Why, in words.
        reason: String,
    },
    /// It is the container's own, so that the node's programs write at the same time.
    Private {
        /// Where it is.
        path: PathBuf,
    },
}

/// Looks at the lock file as the calling process sees it; nothing is locked or made.
pub fn read() -> Option<Trouble> {
    let path = lock::path();
    if let Err(reason) = usable(&path) {
        return Some(Trouble::Unusable { path, reason });
    }
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    // Another path than everybody's is somebody's choice.
    let is_private = path == Path::new(DEFAULT_PATH) && is_of_a_container(&mounts, &resolved(&path));
    is_private.then_some(Trouble::Private { path })
}

pub(super) fn finding(trouble: &Trouble) -> Finding {
    const MOUNT: &str = "in a pod, mount the node's /run/xtables.lock with type FileOrCreate";
    match trouble {
        Trouble::Unusable { path, reason } => Finding {
            id: "lock-unusable",
            severity: Severity::Warning,
            sentence: format!(
                "iptables-legacy cannot lock {}, so the agent can change nothing: {reason}",
                path.display()
            ),
            remedy: format!("make it a regular file that the agent may open; {MOUNT}"),
        },
        Trouble::Private { path } => Finding {
            id: "lock-private",
            severity: Severity::Warning,
            sentence: format!(
                "{} lies in this container's own file system: programs of the node do not wait for it, and one's changes may undo \
                 the other's",
                path.display()
            ),
            remedy: MOUNT.to_owned(),
        },
    }
}

/// Whether iptables-legacy could open the file, which it makes if there is none.
fn usable(path: &Path) -> Result<(), String> {
    let found = match fs::metadata(path) {
        // Opening something else could take for ever.
        Ok(found) if !found.is_file() => {
            Err(io::Error::other(if found.is_dir() { "it is a directory" } else { "it is no regular file" }))
        }
        Ok(_) => File::open(path).map(|_| ()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            access(directory, AccessFlags::W_OK | AccessFlags::X_OK).map_err(|errno| {
                io::Error::other(format!(
                    "it does not exist and cannot be made in {}: {}",
                    directory.display(),
                    errno.desc()
                ))
            })
        }
        Err(error) => Err(error),
    };
    found.map_err(|error| error.to_string())
}

/// The path without symbolic links; the file itself need not exist.
fn resolved(path: &Path) -> PathBuf {
    let directory = path.parent().and_then(|directory| fs::canonicalize(directory).ok());
    match (directory, path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

/// Whether a path lies right in the layers of a container's image. With anything mounted there it cannot be told whose that is, and
/// mostly it is the node's.
fn is_of_a_container(mounts: &str, path: &Path) -> bool {
    let covering = mounts
        .lines()
        .filter_map(mount)
        .filter(|(point, _)| path.starts_with(point))
        // Of several in one place the last one is on top.
        .max_by_key(|(point, _)| point.components().count());
    covering.is_some_and(|(point, kind)| point == Path::new("/") && matches!(kind, "overlay" | "fuse-overlayfs"))
}

/// The place and the file system of `36 35 98:0 /root /place rw,noatime shared:1 - ext3 /dev/sda rw`, where any number of words may
/// stand before the hyphen.
fn mount(line: &str) -> Option<(&Path, &str)> {
    let (place, kind) = line.split_once(" - ")?;
    Some((Path::new(place.split(' ').nth(4)?), kind.split(' ').next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_images_layers_is_the_containers_own_and_one_that_is_mounted_is_not() {
        let container = "1 0 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l\n\
                         2 1 0:51 / /proc rw - proc proc rw\n";
        let path = Path::new("/run/xtables.lock");
        let is_private = |more: &str| is_of_a_container(&format!("{container}{more}"), path);
        assert!(is_private(""));
        assert!(is_private("3 1 0:52 / /run/secrets rw - tmpfs tmpfs rw\n"));
        assert!(!is_private("3 1 0:24 /xtables.lock /run/xtables.lock rw - tmpfs tmpfs rw\n"));
        assert!(!is_private("3 1 0:24 / /run rw - tmpfs tmpfs rw\n"));
        assert!(!is_of_a_container("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n", path), "the node itself");
        assert!(!is_of_a_container("nonsense\n\n - \n", path));
    }
}
