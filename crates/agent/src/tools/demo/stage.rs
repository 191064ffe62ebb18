//! Privacy for the demo: a mount namespace with a directory in memory, and a user namespace where the user is not root.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// Where the directory in memory may be mounted: the first of these that exists. What it hides is hidden from us alone.
const MOUNT_POINTS: [&str; 4] = ["/mnt", "/media", "/run", "/tmp"];

/// Sysctls that forbid namespaces, the value that does it, and the one that would not. The last two are Debian's and Ubuntu's.
const FORBIDDING_SYSCTLS: [(&str, &str, &str); 4] = [
    ("user.max_user_namespaces", "0", "15000"),
    ("user.max_net_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
];

/// Moves this process into namespaces of its own and returns a fresh directory that only it and its children see, and that ends
/// with them. Must be called before any thread is started: a process with threads cannot change its user namespace.
///
/// # Errors
/// Namespaces are forbidden here; the message says by what, as far as that can be found out.
pub fn enter() -> Result<PathBuf> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => {}
        Err(Errno::EPERM) => enter_user_namespace()?,
        Err(error) => return Err(forbidden("unshare(CLONE_NEWNS)", error)),
    }
    // Without this, mounts would spread back to the namespace that this one was copied from.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|error| forbidden("making the mounts private", error))?;
    let directory = MOUNT_POINTS
        .iter()
        .map(Path::new)
        .find(|path| path.is_dir())
        .ok_or_else(|| anyhow!("none of the directories {} exists to mount a tmpfs on", MOUNT_POINTS.join(", ")))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), directory, Some("tmpfs"), flags, Some("mode=0700"))
        .map_err(|error| forbidden("mounting a tmpfs", error))?;
    Ok(directory.to_owned())
}

/// Makes the user root of a user namespace, with power over what is made inside it and nothing else.
fn enter_user_namespace() -> Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|error| forbidden("unshare(CLONE_NEWUSER)", error))?;
    // In this order: the kernel takes a group map of an ordinary user only once setgroups is given up.
    write_own("setgroups", "deny")?;
    write_own("uid_map", &format!("0 {user} 1"))?;
    write_own("gid_map", &format!("0 {group} 1"))
}

fn write_own(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/self/{name}");
    fs::write(&path, value).map_err(|error| {
        forbidden(&format!("writing \"{value}\" to {path}"), Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    })
}

fn forbidden(step: &str, error: Errno) -> anyhow::Error {
    let cause = forbidding_sysctl().unwrap_or_else(|| {
        "no sysctl that does this is set, so it is a container's seccomp profile or missing capabilities; run as root on \
         the host or in a privileged container"
            .to_owned()
    });
    anyhow!("private namespaces are forbidden here: {step} failed with {error}: {cause}")
}

/// The sysctl that forbids namespaces here, and what to do about it; `None` where none does.
pub fn forbidding_sysctl() -> Option<String> {
    FORBIDDING_SYSCTLS
        .iter()
        .find(|(name, forbidding, _)| sysctl(name).as_deref() == Some(*forbidding))
        .map(|(name, value, better)| format!("the sysctl {name} is {value}; set it to {better} or run as root"))
}

fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(text.trim().to_owned())
}
