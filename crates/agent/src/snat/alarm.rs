//! When to warn that the ports of a destination are nearly used up: once when it happens, and once when it is over.

use std::collections::BTreeSet;

use super::{Lane, NEARLY_USED_UP, PortUse};

/// A warning is over below this share of the ports, in percent: a destination that goes up and down by a few is told once.
const OVER_BELOW: u32 = 70;

/// The destinations that were warned about.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    raised: BTreeSet<Lane>,
}

/// What there is to say after a sample.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// These have become nearly used up.
    pub(super) raised: Vec<PortUse>,
    /// These are well below that again.
    pub(super) over: Vec<Lane>,
}

impl Alarm {
    /// Takes in a sample: the busiest first, as many as were kept of them. A destination of which nothing is heard any more has no
    /// connections, unless `is_cut` says that there are more as busy as the last one.
    pub(super) fn update(&mut self, busiest: &[PortUse], is_cut: bool) -> News {
        let mut news = News::default();
        for port_use in busiest.iter().filter(|port_use| port_use.is_nearly_used_up()) {
            if self.raised.insert(port_use.lane) {
                news.raised.push(*port_use);
            }
        }
        let still = |lane: &Lane| match busiest.iter().find(|port_use| port_use.lane == *lane) {
            Some(port_use) => port_use.reaches(OVER_BELOW),
            None => is_cut && busiest.last().is_some_and(|last| last.reaches(OVER_BELOW)),
        };
        news.over = self.raised.iter().copied().filter(|lane| !still(lane)).collect();
        self.raised.retain(still);
        news
    }
}

/// The line that says that it is over.
pub(super) fn over(lane: &Lane) -> String {
    format!(
        "SNAT ports of {} to {}: less than {OVER_BELOW} % are in use again (the warning was at {NEARLY_USED_UP} %)",
        lane.translated,
        lane.endpoint()
    )
}

#[cfg(test)]
mod tests {
    use super::super::Pool;
    use super::*;

    fn of(port: u16, used: u32) -> PortUse {
        let address = [192, 0, 2, 1].into();
        let lane = Lane { protocol: 6, destination: address, port, translated: address, pool: Pool::Ranges };
        PortUse { lane, used, usable: 100, new: 0 }
    }

    /// The ports of the destinations that are told as nearly used up, and as over.
    fn told(alarm: &mut Alarm, busiest: &[PortUse], is_cut: bool) -> (Vec<u16>, Vec<u16>) {
        let News { raised, over } = alarm.update(busiest, is_cut);
        (raised.iter().map(|it| it.lane.port).collect(), over.iter().map(|it| it.port).collect())
    }

    #[test]
    fn it_is_told_once_and_once_when_it_is_over() {
        let mut alarm = Alarm::default();
        let steps = [
            (79, 0, 0),
            (80, 1, 0),
            (100, 0, 0),
            (80, 0, 0),
            (79, 0, 0),
            (70, 0, 0),
            (80, 0, 0),
            (69, 0, 1),
            (69, 0, 0),
        ];
        for (used, raised, over) in steps {
            let (now, gone) = told(&mut alarm, &[of(1, used)], false);
            assert_eq!((now.len(), gone.len()), (raised, over), "{used}");
        }
    }

    #[test]
    fn each_destination_is_told_on_its_own_and_one_without_connections_is_over() {
        let mut alarm = Alarm::default();
        assert_eq!(told(&mut alarm, &[of(1, 90), of(2, 85), of(3, 5)], false), (vec![1, 2], vec![]));
        assert_eq!(told(&mut alarm, &[of(2, 85)], false), (vec![], vec![1]));
        assert_eq!(told(&mut alarm, &[], false), (vec![], vec![2]));
    }

    #[test]
    fn one_that_may_only_have_been_cut_off_is_not_over() {
        let mut alarm = Alarm::default();
        assert_eq!(told(&mut alarm, &[of(1, 90)], true), (vec![1], vec![]));
        assert_eq!(told(&mut alarm, &[of(2, 95)], true), (vec![2], vec![]));
        assert_eq!(told(&mut alarm, &[of(2, 60)], true), (vec![], vec![1, 2]));
    }
}
