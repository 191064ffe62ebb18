//! The table for programs. The keys are an interface: they stay as they are, and all of them are always there.

use serde_json::{Value, json};

use super::view::{Order, SourceUse, View};
use crate::foreign::condition::protocol_name;
use crate::snat::PortUse;

/// All that was seen. Rates are per second since the look before, and `null` at the first one.
pub(super) fn value(view: &View, order: Order) -> Value {
    let statistics = &view.statistics;
    let destinations = view.destinations_by(order.sort);
    let sources = view.sources_by(order.sort);
    json!({
        "entries": view.size.entries,
        "limit": view.size.limit,
        "translated": view.translated,
        "newPerSecond": view.new_per_second(),
        "insertFailed": statistics.insert_failed,
        "insertFailedPerSecond": view.rise(|it| it.insert_failed),
        "drop": statistics.drop,
        "dropPerSecond": view.rise(|it| it.drop),
        "earlyDrop": statistics.early_drop,
        "earlyDropPerSecond": view.rise(|it| it.early_drop),
        "countsTooSmallBy": view.missed,
        "destinations": destinations.iter().map(|port_use| destination(view, port_use)).collect::<Vec<_>>(),
        "sources": sources.iter().map(|it| source(view, it)).collect::<Vec<_>>(),
    })
}

fn destination(view: &View, port_use: &PortUse) -> Value {
    let lane = port_use.lane;
    json!({
        "protocol": protocol_name(lane.protocol),
        "address": lane.destination.to_string(),
        "port": lane.port,
        "from": lane.translated.to_string(),
        "used": port_use.used,
        "usable": port_use.usable,
        "ratio": port_use.ratio(),
        "newPerSecond": view.per_second(port_use.new.into()),
    })
}

fn source(view: &View, source: &SourceUse) -> Value {
    json!({
        "address": source.address.to_string(),
        "used": source.connections,
        "newPerSecond": view.per_second(source.new.into()),
    })
}
