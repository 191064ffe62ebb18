//! The runs of small shell scripts: what comes back, what is killed in time, and what a program inherits.

use std::fs;

use nix::sys::signal::SigmaskHow;

use super::*;

const SHELL: &str = "/bin/sh";
const PATIENCE: Duration = Duration::from_secs(20);

fn runner(limit: Duration) -> Runner {
    Runner { limit, interrupt: None }
}

fn shell(script: &str) -> Result<Finished, ExecError> {
    runner(PATIENCE).run(Path::new(SHELL), &["-c", script], b"")
}

#[test]
fn status_output_and_complaint_are_handed_back() {
    let finished = shell("echo out; echo ' oops ' >&2; exit 3").unwrap();
    assert_eq!(finished, Finished { status: 3, stdout: b"out\n".to_vec(), stderr: "oops".to_owned() });
}

#[test]
fn input_and_output_larger_than_a_pipe_go_through() {
    let input = b"0123456789abcdef".repeat(1 << 16);
    let finished = runner(PATIENCE).run(Path::new(SHELL), &["-c", "cat"], &input).unwrap();
    assert!(finished.stdout == input);
}

#[test]
fn a_program_that_does_not_read_its_input_is_no_error() {
    let finished = runner(PATIENCE).run(Path::new(SHELL), &["-c", "exit 0"], &b"x".repeat(1 << 20)).unwrap();
    assert_eq!(finished.status, 0);
}

#[test]
fn a_missing_program_is_named() {
    let error = runner(PATIENCE).run(Path::new("/nonexistent/iptables"), &[], b"").unwrap_err();
    assert!(matches!(error, ExecError::CannotRun { .. }), "{error}");
    assert!(error.to_string().starts_with("cannot run /nonexistent/iptables: No such file"), "{error}");
}

#[test]
fn a_crash_is_named() {
    let error = shell("kill -SEGV $$").unwrap_err();
    assert_eq!(error.to_string(), "/bin/sh -c kill -SEGV $$ was killed by SIGSEGV");
}

/// The pids that a script wrote to standard output are those of no living process, zombies included.
fn assert_gone(pid: &str) {
    let deadline = Instant::now() + PATIENCE;
    // A process that was not ours to wait for is collected by init, in its own time.
    while Path::new("/proc").join(pid).join("comm").exists()
        && !fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    {
        assert!(Instant::now() < deadline, "process {pid} is alive");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_program_that_hangs_is_killed_in_time_with_all_that_it_started() {
    let directory = std::env::temp_dir().join(format!("ip-masq-agent-hang-{}", std::process::id()));
    let script = format!("sleep 1000 & echo $$ $! > {}; wait", directory.display());
    let began = Instant::now();
    let error = runner(Duration::from_millis(500)).run(Path::new(SHELL), &["-c", &script], b"").unwrap_err();
    assert!(matches!(error, ExecError::TimedOut { .. }), "{error}");
    assert!(began.elapsed() < PATIENCE);
    let pids = fs::read_to_string(&directory).unwrap();
    fs::remove_file(&directory).unwrap();
    let (parent, child) = pids.trim().split_once(' ').unwrap();
    assert!(!Path::new("/proc").join(parent).exists(), "its own process is waited for");
    assert_gone(child);
}

#[test]
fn a_program_that_closes_its_streams_and_goes_on_is_killed_in_time() {
    let error = runner(Duration::from_millis(300))
        .run(Path::new(SHELL), &["-c", "exec <&- >&- 2>&-; exec sleep 1000"], b"")
        .unwrap_err();
    assert!(matches!(error, ExecError::TimedOut { .. }), "{error}");
}

#[test]
fn endless_output_is_cut_off() {
    let error = shell("exec cat /dev/zero").unwrap_err();
    assert!(matches!(error, ExecError::TooMuchOutput { .. }), "{error}");
}

#[test]
fn an_endless_complaint_is_shortened() {
    let finished = shell("head -c 1000000 /dev/zero | tr '\\0' x >&2").unwrap();
    assert_eq!(finished.stderr.len(), MOST_COMPLAINT);
}

#[test]
fn a_program_is_given_up_when_something_urgent_comes_in() {
    let (urgent, mut sender) = io::pipe().unwrap();
    sender.write_all(b"!").unwrap();
    let runner = Runner { limit: PATIENCE, interrupt: Some(urgent.into()) };
    let error = runner.run(Path::new(SHELL), &["-c", "sleep 1000"], b"").unwrap_err();
    assert!(matches!(error, ExecError::Interrupted { .. }), "{error}");
}

#[test]
fn a_program_inherits_neither_blocked_nor_ignored_signals() {
    let all: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    let before = all.thread_swap_mask(SigmaskHow::SIG_BLOCK).unwrap();
    let finished = runner(PATIENCE).run(Path::new("/bin/cat"), &["/proc/self/status"], b"");
    before.thread_set_mask().unwrap();
    let status = String::from_utf8(finished.unwrap().stdout).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line[name.len()..].trim(), 16).unwrap()
    };
    assert_eq!(field("SigBlk:"), 0);
    assert_eq!(field("SigIgn:") & (1 << (Signal::SIGPIPE as u32 - 1)), 0);
}

#[test]
fn a_program_runs_where_the_calling_thread_is() {
    let output = thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        shell("cat /proc/self/net/dev").unwrap().stdout
    })
    .join()
    .unwrap();
    assert_eq!(String::from_utf8(output).unwrap().lines().count(), 3, "a new namespace has one link");
}
