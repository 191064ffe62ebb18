//! The table as text, for a file or for a window of any size.

use super::view::{Order, Statistic, View};
use crate::cli::{Grouping, SortKey};
use crate::foreign::condition::protocol_name;
use crate::snat::PortUse;

/// All of it.
pub(super) fn text(view: &View, order: Order) -> String {
    let mut lines = head(view);
    lines.push(String::new());
    lines.extend(table(&headings(order.by), &rows(view, order, usize::MAX)));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// As much of it as a window of this many columns and lines holds, each line cut where the window ends.
pub(super) fn lines(view: &View, order: Order, width: u16, height: u16) -> Vec<String> {
    let (width, height) = (usize::from(width), usize::from(height));
    let mut lines = head(view);
    lines.push(keys(order));
    let left = height.saturating_sub(lines.len() + 1);
    lines.extend(table(&headings(order.by), &rows(view, order, left)));
    lines.truncate(height);
    lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
}

fn head(view: &View) -> Vec<String> {
    let limit = view.size.limit.map(|limit| format!(" of at most {limit}")).unwrap_or_default();
    let mut lines = vec![format!(
        "Connections: {}{limit}; translated {}, new/s {}",
        view.size.entries,
        view.translated,
        rate(view.new_per_second())
    )];
    let counted: [(&str, Statistic); 3] =
        [("insert_failed", |it| it.insert_failed), ("drop", |it| it.drop), ("early_drop", |it| it.early_drop)];
    let told = counted
        .iter()
        .filter_map(|(name, of)| Some(format!("{name} {} ({}/s)", of(&view.statistics)?, rate(view.rise(*of)))));
    lines.push(format!("Failures: {}", told.collect::<Vec<_>>().join(", ")));
    if view.missed > 0 {
        lines.push(format!("There are too many to count each: every count may be too small by {}", view.missed));
    }
    lines
}

/// What the keys do, with what is in force in brackets.
fn keys(order: Order) -> String {
    let key = |word: &str, is_on: bool| if is_on { format!("[{word}]") } else { word.to_owned() };
    let Order { by, sort } = order;
    format!(
        "{} {}  sort: {} {} {}  q quit",
        key("d destinations", by == Grouping::Destination),
        key("s sources", by == Grouping::Source),
        key("u used", sort == SortKey::Used),
        key("n new", sort == SortKey::New),
        key("a name", sort == SortKey::Name),
    )
}

/// Numbers stand in front, so that a narrow window has them.
fn headings(by: Grouping) -> Vec<Column> {
    let number = |title| Column { title, is_number: true };
    let text = |title| Column { title, is_number: false };
    match by {
        Grouping::Destination => vec![
            number("USED"),
            number("OF"),
            number("%"),
            number("NEW/S"),
            text("PROTO"),
            text("DESTINATION"),
            text("FROM"),
        ],
        Grouping::Source => vec![number("USED"), number("NEW/S"), text("SOURCE")],
    }
}

fn rows(view: &View, order: Order, most: usize) -> Vec<Vec<String>> {
    let new = |count: u32| rate(view.per_second(count.into()));
    match order.by {
        Grouping::Destination => {
            let row = |it: &&PortUse| {
                vec![
                    it.used.to_string(),
                    it.usable.to_string(),
                    format!("{:.0}", (it.ratio() * 100.0).floor()),
                    new(it.new),
                    protocol_name(it.lane.protocol),
                    it.lane.endpoint().to_string(),
                    it.lane.translated.to_string(),
                ]
            };
            view.destinations_by(order.sort).iter().take(most).map(row).collect()
        }
        Grouping::Source => {
            let sources = view.sources_by(order.sort);
            sources
                .iter()
                .take(most)
                .map(|it| vec![it.connections.to_string(), new(it.new), it.address.to_string()])
                .collect()
        }
    }
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

struct Column {
    title: &'static str,
    is_number: bool,
}

/// The rows below their titles, each column as wide as its longest word; numbers end in a line, words begin in one.
fn table(columns: &[Column], rows: &[Vec<String>]) -> Vec<String> {
    let width = |index: usize| {
        let title = columns[index].title.len();
        rows.iter().map(|row| row[index].len()).fold(title, usize::max)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |words: &mut dyn Iterator<Item = &str>| {
        let padded = words.zip(columns).zip(&widths).map(|((word, column), &width)| {
            if column.is_number { format!("{word:>width$}") } else { format!("{word:<width$}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let titles = line(&mut columns.iter().map(|column| column.title));
    let rows = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(titles).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nfnetlink::{Connection, Statistics, TableSize, Tuple};
    use proptest::prelude::*;

    use super::super::view::{Since, SourceUse};
    use super::*;
    use crate::snat::Census;

    /// Two connections of a pod to one destination, one of them new in two seconds, and an old one to another.
    fn view() -> View {
        let mut census = Census::new(&"4000-4003".parse().unwrap());
        for (port, to, is_new) in
            [(4_000, "203.0.113.9", true), (4_001, "203.0.113.9", false), (9_000, "2001:db8::1", false)]
        {
            let tuple = Tuple {
                source: to.parse().unwrap(),
                destination: [192, 0, 2, 1].into(),
                protocol: 17,
                source_port: Some(53),
                destination_port: Some(port),
            };
            let connection = Connection { original: tuple, reply: tuple, status: 0x10, id: 0, timeout: None, mark: 0 };
            census.add(&connection, is_new);
        }
        let statistics = |drop| Statistics { drop: Some(drop), insert_failed: Some(0), ..Statistics::default() };
        View {
            size: TableSize { entries: 5, limit: Some(1_000) },
            translated: 3,
            missed: 0,
            statistics: statistics(7),
            since: Some(Since { elapsed: Duration::from_secs(2), new: 1, statistics: statistics(4) }),
            destinations: census.busiest(usize::MAX),
            sources: vec![SourceUse { address: [10, 0, 0, 2].into(), connections: 3, new: 1 }],
        }
    }

    const USED: Order = Order { by: Grouping::Destination, sort: SortKey::Used };

    #[test]
    fn destinations_are_told_with_their_ports_and_what_is_new() {
        let wanted = "Connections: 5 of at most 1000; translated 3, new/s 0.5\n\
                      Failures: insert_failed 0 (0.0/s), drop 7 (1.5/s)\n\n\
                      USED     OF   %  NEW/S  PROTO  DESTINATION       FROM\n   \
                      2      4  50    0.5  udp    203.0.113.9:53    192.0.2.1\n   \
                      1  64512   0    0.0  udp    [2001:db8::1]:53  192.0.2.1\n";
        assert_eq!(text(&view(), USED), wanted);
    }

    #[test]
    fn the_first_look_tells_no_rates() {
        let first = View { since: None, ..view() };
        let text = text(&first, Order { by: Grouping::Source, ..USED });
        assert!(text.ends_with("USED  NEW/S  SOURCE\n   3      -  10.0.0.2\n"), "{text}");
        assert!(text.contains("new/s -") && text.contains("drop 7 (-/s)"), "{text}");
    }

    #[test]
    fn the_order_is_by_ports_by_new_connections_or_by_address() {
        let mut view = view();
        view.destinations[1].new = 5;
        let first = |sort| view.destinations_by(sort)[0].lane.endpoint().to_string();
        assert_eq!(first(SortKey::Used), "203.0.113.9:53");
        assert_eq!(first(SortKey::New), "[2001:db8::1]:53");
        assert_eq!(first(SortKey::Name), "203.0.113.9:53");
    }

    proptest! {
        #[test]
        fn no_window_is_too_small(width in 0_u16..200, height in 0_u16..12, missed in 0_u32..2) {
            let view = View { missed, ..view() };
            let lines = lines(&view, USED, width, height);
            prop_assert!(lines.len() <= usize::from(height));
            prop_assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)));
        }
    }
}
