//! A directory of a test's own, removed with everything in it when the test ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh directory under the system's temporary one.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("ip-masq-agent-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A test that removed it itself is fine.
        let _ = fs::remove_dir_all(&self.0);
    }
}
