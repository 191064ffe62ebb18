//! A private network namespace: a thread that lives in it and runs the closures it is sent.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, unshare};

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace of our own, which ends when this value does.
///
/// A socket stays in the namespace it was opened in, so what [`Namespace::run`] returns may be used from any thread. A process
/// that a closure starts lives in the namespace too; its parent is the namespace's thread, so a parent-death signal reaches it
/// when the namespace is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: &'static str,
    descriptor: OwnedFd,
    // An option only because dropping the sender is what tells the thread to end.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Makes a namespace with nothing in it but a loopback link that is down. The name is for error messages alone.
    ///
    /// # Errors
    /// The kernel allows this process no new network namespace: that takes CAP_SYS_ADMIN, which root of a user namespace has.
    pub fn open(name: &'static str) -> Result<Namespace> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (entered, descriptor) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(format!("netns {name}"))
            .spawn(move || {
                let ready = enter_new();
                let failed = ready.is_err();
                // A receiver that is gone means that `open` was given up; the queue below is then closed too.
                let _ = entered.send(ready);
                if failed {
                    return;
                }
                for job in queue {
                    job();
                }
            })
            .context("cannot start a thread for a network namespace")?;
        let descriptor = descriptor
            .recv()
            .map_err(|_| anyhow!("the thread of the namespace ended early"))?
            .with_context(|| format!("cannot make the private network namespace \"{name}\""))?;
        Ok(Namespace { name, descriptor, jobs: Some(jobs), thread: Some(thread) })
    }

    /// The name given to [`Namespace::open`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs `job` inside the namespace and waits for what it returns. A panic in `job` goes on in the caller.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, result) = mpsc::channel();
        let boxed: Job = Box::new(move || {
            // The caller waits below until this is sent, so a send cannot fail.
            let _ = answer.send(panic::catch_unwind(AssertUnwindSafe(job)));
        });
        let jobs = self.jobs.as_ref().expect("the queue is closed by drop alone");
        jobs.send(boxed).expect("the thread ends only after the queue is closed");
        match result.recv().expect("the thread answers every job it takes") {
            Ok(value) => value,
            Err(panic) => panic::resume_unwind(panic),
        }
    }

    /// Writes a network setting of this namespace, named as `sysctl` names it but with slashes: `net/ipv4/ip_forward`.
    ///
    /// # Errors
    /// There is no such setting, or /proc/sys is read-only, as it is in most containers.
    pub fn set_sysctl(&self, key: &'static str, value: &'static str) -> Result<()> {
        let path = format!("/proc/sys/{key}");
        self.run(move || fs::write(path, value)).with_context(|| {
            let name = self.name;
            format!("cannot write {value} to /proc/sys/{key} in the namespace \"{name}\"; in a container, make /proc/sys writable")
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Its panics were handed to the callers of `run`; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// Moves the calling thread into a new namespace and returns a descriptor of it.
fn enter_new() -> Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNET).context("unshare(CLONE_NEWNET) was refused")?;
    let path = "/proc/thread-self/ns/net";
    Ok(File::open(path).with_context(|| format!("cannot open {path}"))?.into())
}
