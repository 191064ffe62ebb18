//! inotify on every directory through which the config path leads, wherever symbolic links take it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::ConfigChange;
use crate::config_file::{MAX_FILES, NAME_PREFIX};

/// What matters in a directory. Opening and reading are left out: kubelet lists the directory every few seconds. So is writing,
/// for other files in it may be written to all the time.
const DIRECTORY_MASK: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// What matters of a config file itself, besides what its directory tells.
const FILE_MASK: AddWatchFlags = AddWatchFlags::IN_MODIFY.union(AddWatchFlags::IN_DONT_FOLLOW);

/// As many symbolic links as the kernel follows before it says ELOOP.
const MAX_LINKS: usize = 40;

/// Directories come and go while they are looked up; after this many rounds the resync has to do.
const MAX_ROUNDS: usize = 4;

/// One read answers some hundred events; more reads than this at a time keep the loop from turning.
const READS_PER_WAKEUP: usize = 64;

/// The config path and the directories that are watched for it.
#[derive(Debug)]
pub struct ConfigWatch {
    inotify: Inotify,
    path: PathBuf,
    watched: BTreeMap<PathBuf, Watched>,
}

#[derive(Debug)]
struct Watched {
    descriptor: WatchDescriptor,
    subject: Subject,
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    /// A directory, for the entries that matter.
    Directory(Names),
    /// A config file.
    File,
}

/// The entries of one directory that matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Names {
    exact: BTreeSet<OsString>,
    /// Whether every name that starts with [`NAME_PREFIX`] matters too.
    all_config_files: bool,
}

/// Everything to watch.
#[derive(Debug, Default)]
struct Route {
    directories: BTreeMap<PathBuf, Names>,
    files: BTreeSet<PathBuf>,
}

impl ConfigWatch {
    /// Starts to watch; the path need not exist.
    pub fn open(path: &Path) -> Result<ConfigWatch> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
            .context("no inotify instance is to be had (fs.inotify.max_user_instances)")?;
        let path = std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))?;
        let mut watch = ConfigWatch { inotify, path, watched: BTreeMap::new() };
        watch.rearm().map(|()| watch)
    }

    /// Watches the directories that the path leads through now, and no others.
    pub fn rearm(&mut self) -> Result<()> {
        for _ in 0..MAX_ROUNDS {
            let route = route(&self.path);
            let stale = |path: &&PathBuf| !route.directories.contains_key(*path) && !route.files.contains(*path);
            let gone: Vec<PathBuf> = self.watched.keys().filter(stale).cloned().collect();
            for path in gone {
                self.forget(&path);
            }
            let mut changed = false;
            for (path, names) in route.directories {
                changed |= self.watch(path, Subject::Directory(names))?;
            }
            for path in route.files {
                changed |= self.watch(path, Subject::File)?;
            }
            // A watch on something new may have come too late for what appeared in it: look once more.
            if !changed {
                break;
            }
        }
        Ok(())
    }

    fn forget(&mut self, path: &Path) {
        if let Some(watched) = self.watched.remove(path) {
            // It fails where the kernel has dropped the watch itself, together with the directory.
            let _ = self.inotify.rm_watch(watched.descriptor);
        }
    }

    /// Answers whether what stands at the path was not watched before.
    fn watch(&mut self, path: PathBuf, subject: Subject) -> Result<bool> {
        let mask = match subject {
            Subject::Directory(_) => DIRECTORY_MASK,
            Subject::File => FILE_MASK,
        };
        // Adding again is how something that was replaced under the same name is found out.
        match self.inotify.add_watch(&path, mask) {
            Ok(descriptor) => {
                let before = self.watched.insert(path, Watched { descriptor, subject });
                Ok(before.is_none_or(|before| before.descriptor != descriptor))
            }
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP) => {
                self.watched.remove(&path);
                Ok(false)
            }
            Err(error) => Err(error).with_context(|| format!("cannot watch {}", path.display())),
        }
    }

    /// What happened since the last call, each kind of change once.
    pub fn changes(&mut self) -> BTreeSet<ConfigChange> {
        let mut changes = BTreeSet::new();
        for _ in 0..READS_PER_WAKEUP {
            match self.inotify.read_events() {
                Ok(events) => changes.extend(events.iter().filter_map(|event| self.classify(event))),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(error) => {
                    log::warn!(
                        "Changes of the config may only be seen at the next resync: cannot read inotify: {error}"
                    );
                    break;
                }
            }
        }
        changes
    }

    fn classify(&mut self, event: &InotifyEvent) -> Option<ConfigChange> {
        let has = |flags: AddWatchFlags| event.mask.intersects(flags);
        if has(AddWatchFlags::IN_Q_OVERFLOW) {
            return Some(ConfigChange::Finished);
        }
        let found = self.watched.iter().find(|(_, watched)| watched.descriptor == event.wd);
        let (path, Watched { subject, .. }) = found?;
        let names = match subject {
            Subject::File => return has(AddWatchFlags::IN_MODIFY).then_some(ConfigChange::Writing),
            Subject::Directory(names) => names,
        };
        if has(AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_UNMOUNT) {
            return Some(ConfigChange::Gone);
        }
        let name = event.name.as_deref().filter(|name| names.hold(name))?;
        if has(AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO) {
            return Some(ConfigChange::Finished);
        }
        if !has(AddWatchFlags::IN_CREATE) {
            return Some(ConfigChange::Gone);
        }
        let entry = path.join(name);
        if is_complete(&entry) {
            return Some(ConfigChange::Finished);
        }
        if let Err(error) = self.watch(entry, Subject::File) {
            log::warn!("A config file that is being written may be read half: {error:#}");
        }
        Some(ConfigChange::Writing)
    }
}

/// Whether an entry that was just created is all there: a link, hard or symbolic, or a directory. A plain file is still to be
/// written and will be closed.
fn is_complete(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() || found.nlink() > 1)
}

impl Names {
    fn hold(&self, name: &OsStr) -> bool {
        self.exact.contains(name) || self.all_config_files && name.as_bytes().starts_with(NAME_PREFIX)
    }
}

impl AsFd for ConfigWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// The directories whose entries decide what the path leads to (of each symbolic link on the way, of the file itself, and, where
/// something is missing, the deepest one that exists) and the files at the end.
fn route(path: &Path) -> Route {
    let mut route = Route::default();
    let Some(end) = walk(path, &mut route) else { return route };
    if end.is_dir() {
        route.directories.entry(end.clone()).or_default().all_config_files = true;
        let entries = std::fs::read_dir(&end).into_iter().flatten().flatten();
        let is_config = |entry: &std::fs::DirEntry| entry.file_name().as_bytes().starts_with(NAME_PREFIX);
        for entry in entries.filter(is_config).take(MAX_FILES) {
            let end = walk(&entry.path(), &mut route);
            route.files.extend(end);
        }
    } else {
        route.files.insert(end);
    }
    // A device or a pipe has no content to wait for.
    route.files.retain(|path| path.is_file());
    route
}

/// Follows an absolute path link by link; answers where it ends, if it ends at something.
fn walk(path: &Path, route: &mut Route) -> Option<PathBuf> {
    let mut here = PathBuf::from("/");
    let mut ahead = names_of(path);
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        let found = std::fs::symlink_metadata(&next);
        let is_link = found.as_ref().is_ok_and(|found| found.is_symlink());
        if is_link || found.is_err() || ahead.is_empty() {
            route.directories.entry(here.clone()).or_default().exact.insert(name);
        }
        found.ok()?;
        if !is_link {
            here = next;
            continue;
        }
        links += 1;
        let target = std::fs::read_link(&next).ok().filter(|_| links <= MAX_LINKS)?;
        if target.is_absolute() {
            here = PathBuf::from("/");
        }
        for name in names_of(&target).into_iter().rev() {
            ahead.push_front(name);
        }
    }
    Some(here)
}

fn names_of(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}
