//! Tests of the config reader on real files of every kind.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

/// A directory of its own for one test, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ip-masq-agent-config-file-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Dir(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn texts(sources: &[Source]) -> Vec<(&str, &str)> {
    let name = |source: &Source| source.name.rfind('/').map_or(0, |slash| slash + 1);
    sources.iter().map(|s| (&s.name[name(s)..], std::str::from_utf8(&s.bytes).unwrap())).collect()
}

fn complaint(path: &Path) -> String {
    let message = read(path).unwrap_err().to_string();
    assert!(message.contains(&format!("{path:?}")), "{message}");
    message
}

#[test]
fn a_file_is_read_through_symbolic_links_as_kubelet_lays_them() {
    let dir = Dir::new();
    fs::create_dir(dir.path("..2026")).unwrap();
    dir.write("..2026/ip-masq-agent", "a: 1\n");
    symlink("..2026", dir.path("..data")).unwrap();
    symlink("..data/ip-masq-agent", dir.path("ip-masq-agent")).unwrap();
    assert_eq!(texts(&read(&dir.path("ip-masq-agent")).unwrap()), [("ip-masq-agent", "a: 1\n")]);
    assert_eq!(texts(&read(&dir.0).unwrap()), [("ip-masq-agent", "a: 1\n")]);
}

#[test]
fn no_file_no_directory_and_a_dangling_link_are_no_config() {
    let dir = Dir::new();
    symlink("nowhere", dir.path("dangling")).unwrap();
    for name in ["none", "none/none", "dangling"] {
        assert!(read(&dir.path(name)).unwrap().is_empty(), "{name}");
    }
    assert!(read(&dir.0).unwrap().is_empty());
}

#[test]
fn the_null_device_is_an_empty_file() {
    let dir = Dir::new();
    symlink("/dev/null", dir.path("ip-masq-agent")).unwrap();
    assert_eq!(texts(&read(&dir.path("ip-masq-agent")).unwrap()), [("ip-masq-agent", "")]);
}

#[test]
fn a_fifo_a_socket_and_a_device_are_errors_at_once() {
    let dir = Dir::new();
    mkfifo(&dir.path("fifo"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(dir.path("socket")).unwrap();
    assert!(complaint(&dir.path("fifo")).contains("it is a FIFO"));
    assert!(complaint(&dir.path("socket")).contains("it is a socket"));
    assert!(complaint(Path::new("/dev/zero")).contains("it is a device"));
}

#[test]
fn of_a_directory_the_files_named_so_are_read_in_the_order_of_names() {
    let dir = Dir::new();
    for name in ["ip-masq-b", "ip-masq", "ip-masq-a.yaml.bak", "other", ".ip-masq", "IP-MASQ"] {
        dir.write(name, name);
    }
    fs::create_dir(dir.path("ip-masq-dir")).unwrap();
    mkfifo(&dir.path("ip-masq-fifo"), Mode::S_IRWXU).unwrap();
    symlink("nowhere", dir.path("ip-masq-dangling")).unwrap();
    symlink("other", dir.path("ip-masq-link")).unwrap();
    let sources = read(&dir.0).unwrap();
    let expected = [
        ("ip-masq", "ip-masq"),
        ("ip-masq-a.yaml.bak", "ip-masq-a.yaml.bak"),
        ("ip-masq-b", "ip-masq-b"),
        ("ip-masq-link", "other"),
    ];
    assert_eq!(texts(&sources), expected);
}

#[test]
fn a_directory_of_too_many_files_is_refused() {
    let dir = Dir::new();
    for i in 0..=MAX_FILES {
        dir.write(&format!("ip-masq-{i}"), "");
    }
    assert!(complaint(&dir.0).contains("more than 1000 files"));
}

#[test]
fn a_huge_file_is_refused_unread_and_the_longest_allowed_one_is_read() {
    let dir = Dir::new();
    let sparse = |name: &str, size: u64| {
        File::create(dir.path(name)).and_then(|file| file.set_len(size)).unwrap();
        dir.path(name)
    };
    assert!(complaint(&sparse("huge", 1 << 40)).contains("longer than 32 MiB"));
    assert!(complaint(&sparse("long", MAX_SIZE + 1)).contains("longer than 32 MiB"));
    assert_eq!(read(&sparse("longest", MAX_SIZE)).unwrap()[0].bytes.len() as u64, MAX_SIZE);
}

#[test]
fn the_files_of_a_directory_share_one_limit() {
    let dir = Dir::new();
    for name in ["ip-masq-a", "ip-masq-b"] {
        File::create(dir.path(name)).and_then(|file| file.set_len(MAX_SIZE / 2 + 1)).unwrap();
    }
    let message = read(&dir.0).unwrap_err().to_string();
    assert!(message.contains("ip-masq-b") && message.contains("longer than"), "{message}");
}

#[test]
fn a_file_that_claims_to_be_empty_is_read_to_its_end() {
    let sources = read(Path::new("/proc/self/status")).unwrap();
    assert!(sources[0].bytes.starts_with(b"Name:"));
}

#[test]
fn what_cannot_be_reached_is_told_with_its_remedy() {
    let dir = Dir::new();
    symlink("loop", dir.path("loop")).unwrap();
    assert!(complaint(&dir.path("loop")).ends_with("its symbolic links lead in a circle; let them end at a file"));
    dir.write("file", "");
    assert!(complaint(&dir.path("file/below")).contains("no directory"));
    assert!(complaint(&dir.path(&"x".repeat(300))).ends_with("check the path and its file system"));
}

#[test]
fn a_file_being_rewritten_all_the_time_gives_a_whole_version_or_an_error() {
    let dir = Dir::new();
    let path = dir.write("ip-masq-agent", &"a".repeat(100_000));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let versions = ["b".repeat(120_000), "c".repeat(90_000)];
            for version in versions.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                fs::write(&path, version).unwrap();
            }
        });
        for _ in 0..300 {
            match read(&path) {
                Ok(sources) => assert!(sources[0].bytes.windows(2).all(|pair| pair[0] == pair[1])),
                Err(error) => assert!(error.to_string().contains("keeps changing"), "{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_hash_is_of_contents_and_of_where_they_are_cut() {
    let sources = |texts: &[&str]| -> Vec<Source> {
        texts.iter().map(|text| Source { name: "n".to_owned(), bytes: text.as_bytes().to_vec() }).collect()
    };
    let of = |texts: &[&str]| hash(&sources(texts));
    assert_eq!(of(&[]), "cbf29ce484222325");
    assert_eq!(of(&["ab"]), of(&["ab"]));
    assert_ne!(of(&["ab"]), of(&["a", "b"]));
    assert_ne!(of(&["ab"]), of(&["ba"]));
}
