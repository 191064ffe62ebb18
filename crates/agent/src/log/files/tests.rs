//! Tests of log files on a real file system.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ip-masq-agent-log-files-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Dir(path)
    }

    fn options(&self) -> LogOptions {
        LogOptions { dir: Some(self.0.clone()), skip_file_preamble: true, ..LogOptions::default() }
    }

    fn read(&self, severity: &str) -> String {
        fs::read_to_string(self.0.join(format!("ip-masq-agent.{severity}"))).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn line(severity: Severity, text: &str) -> Line<'_> {
    Line { severity, text, notice: &|_| String::new() }
}

fn write_all(files: &mut Files, options: &LogOptions) {
    for (severity, text) in [(Severity::INFO, "i\n"), (Severity::ERROR, "e\n"), (Severity::WARNING, "w\n")] {
        assert!(files.write(&line(severity, text), options, SystemTime::now()));
    }
}

#[test]
fn a_line_goes_into_the_files_of_its_severity_and_of_all_below() {
    let dir = Dir::new();
    let options = dir.options();
    write_all(&mut Files::open(&options, SystemTime::now()).unwrap(), &options);
    assert_eq!(
        (dir.read("INFO"), dir.read("WARNING"), dir.read("ERROR")),
        ("i\ne\nw\n".into(), "e\nw\n".into(), "e\n".into())
    );
}

#[test]
fn with_one_output_a_line_goes_only_into_the_file_of_its_severity() {
    let dir = Dir::new();
    let options = LogOptions { one_output: true, ..dir.options() };
    write_all(&mut Files::open(&options, SystemTime::now()).unwrap(), &options);
    assert_eq!((dir.read("INFO"), dir.read("WARNING"), dir.read("ERROR")), ("i\n".into(), "w\n".into(), "e\n".into()));
}

#[test]
fn a_file_at_its_limit_starts_anew_with_a_preamble() {
    let dir = Dir::new();
    let path = dir.0.join("log");
    let options = LogOptions { file: Some(path.clone()), file_max_size: 1, ..LogOptions::default() };
    fs::write(&path, "x".repeat(MIB as usize - 600)).unwrap();
    let mut files = Files::open(&options, SystemTime::now()).unwrap();
    for i in 0..20 {
        files.write(&line(Severity::INFO, &format!("{i:0>98}\n")), &options, SystemTime::now());
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("Log file created at: ") && text.len() < 3_000, "{} bytes", text.len());
    assert!(text.ends_with("019\n"));
}

#[test]
fn a_limit_of_0_is_none() {
    let dir = Dir::new();
    let path = dir.0.join("log");
    let options = LogOptions { file: Some(path.clone()), file_max_size: 0, ..LogOptions::default() };
    fs::write(&path, "x".repeat(4 * MIB as usize)).unwrap();
    let mut files = Files::open(&options, SystemTime::now()).unwrap();
    files.write(&line(Severity::INFO, "i\n"), &options, SystemTime::now());
    assert!(fs::metadata(&path).unwrap().len() > 4 * MIB);
}

#[test]
fn a_link_that_waits_under_the_name_of_a_log_file_is_not_followed() {
    let dir = Dir::new();
    let victim = dir.0.join("victim");
    fs::write(&victim, "mine\n").unwrap();
    symlink(&victim, dir.0.join("log")).unwrap();
    assert!(LogFile::open_in(&dir.0, "log", &LogOptions::default(), SystemTime::now()).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
}
