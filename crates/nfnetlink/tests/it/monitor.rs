//! The monitor hears every transaction of anyone, and says so when it missed some.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nfnetlink::{Batch, Event, Interval, Monitor, ProtocolFamily, Set, Socket, Table};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::support::{TABLE, in_namespace, loaded, nft, ruleset};

#[test]
fn a_change_is_told_with_its_generation_and_author() {
    in_namespace(|| {
        let mut monitor = Monitor::open().unwrap();
        assert_eq!(monitor.next_event().unwrap(), None);
        let author = thread::Builder::new().name("a-writer".to_owned());
        let (generation, thread_id) = author
            .spawn(|| {
                let mut socket = Socket::open().unwrap();
                let before = socket.generation().unwrap();
                (socket.commit(&ruleset(), Some(before)).unwrap().unwrap(), nix::unistd::gettid())
            })
            .unwrap()
            .join()
            .unwrap();
        wait(&monitor);
        let Some(Event::Generation { id, pid, process }) = monitor.next_event().unwrap() else {
            panic!("no generation")
        };
        assert_eq!((id, process.as_str()), (generation.0, "a-writer"));
        assert_eq!(pid, u32::try_from(thread_id.as_raw()).unwrap());
        assert_eq!(monitor.next_event().unwrap(), None);

        nft("delete element inet t no4 { 10.0.0.0/8 }");
        wait(&monitor);
        let Some(Event::Generation { id, process, .. }) = monitor.next_event().unwrap() else {
            panic!("no generation")
        };
        assert_eq!((id, process.as_str()), (generation.next().0, "nft"));
    });
}

#[test]
fn thousands_of_elements_are_one_notice() {
    in_namespace(|| {
        let mut socket = loaded();
        let mut monitor = Monitor::open().unwrap();
        let set = Set::ipv4_intervals("no4");
        for _ in 0..3 {
            let mut batch = Batch::new();
            batch.flush_set(TABLE, "no4");
            batch.add_elements(TABLE, &set, &(0..4_000).map(|n| Interval::single(2 * n)).collect::<Vec<_>>());
            socket.commit(&batch, None).unwrap();
        }
        for _ in 0..3 {
            assert!(matches!(monitor.next_event().unwrap(), Some(Event::Generation { .. })));
        }
        assert_eq!(monitor.next_event().unwrap(), None);
    });
}

#[test]
fn lost_notices_are_told_once_and_later_ones_come() {
    in_namespace(|| {
        let mut socket = loaded();
        let mut monitor = Monitor::open().unwrap();
        // No receive buffer holds this many notices.
        for number in 0..2_000 {
            let mut batch = Batch::new();
            let table = Table::new(ProtocolFamily::Inet, "u");
            if number % 2 == 0 {
                batch.add_table(&table);
            } else {
                batch.delete_table(table.reference());
            }
            socket.commit(&batch, None).unwrap();
        }
        let mut lost = 0;
        let mut told = 0;
        while let Some(event) = monitor.next_event().unwrap() {
            match event {
                Event::Lost => lost += 1,
                Event::Generation { .. } => told += 1,
            }
        }
        assert!(lost == 1 && told > 0 && told < 2_000, "{lost} times lost, {told} told");
        nft("add table inet after");
        wait(&monitor);
        assert!(matches!(monitor.next_event().unwrap(), Some(Event::Generation { .. })));
    });
}

fn wait(monitor: &Monitor) {
    let mut fds = [PollFd::new(monitor.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(Duration::from_secs(5)).unwrap();
    assert_eq!(poll(&mut fds, patience).unwrap(), 1, "no notice within 5 s");
}
