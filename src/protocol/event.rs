//! What is told to clients that registered for it, and the schema change that a DDL statement answers.

use std::net::SocketAddr;

use super::version::ProtocolVersion;
use super::wire::{Malformed, Read, Reader, put_inet, put_string, put_string_list};

/// What a client can register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    TopologyChange,
    StatusChange,
    SchemaChange,
}

impl EventKind {
    pub const ALL: [EventKind; 3] = [EventKind::TopologyChange, EventKind::StatusChange, EventKind::SchemaChange];

    pub fn name(self) -> &'static str {
        match self {
            EventKind::TopologyChange => "TOPOLOGY_CHANGE",
            EventKind::StatusChange => "STATUS_CHANGE",
            EventKind::SchemaChange => "SCHEMA_CHANGE",
        }
    }

    pub fn from_name(name: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Topology { change: TopologyChange, address: SocketAddr },
    Status { change: StatusChange, address: SocketAddr },
    Schema(SchemaChange),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    NewNode,
    RemovedNode,
    MovedNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    Created,
    Updated,
    Dropped,
}

/// What a DDL statement did: the kind of a RESULT, and an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    pub change: Change,
    pub keyspace: String,
    pub target: SchemaTarget,
}

/// What of the keyspace changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaTarget {
    Keyspace,
    Table(String),
    Type(String),
    Function { name: String, arguments: Vec<String> },
    Aggregate { name: String, arguments: Vec<String> },
}

impl TopologyChange {
    fn name(self) -> &'static str {
        match self {
            TopologyChange::NewNode => "NEW_NODE",
            TopologyChange::RemovedNode => "REMOVED_NODE",
            TopologyChange::MovedNode => "MOVED_NODE",
        }
    }

    fn from_name(name: &str) -> Read<TopologyChange> {
        match name {
            "NEW_NODE" => Ok(TopologyChange::NewNode),
            "REMOVED_NODE" => Ok(TopologyChange::RemovedNode),
            "MOVED_NODE" => Ok(TopologyChange::MovedNode),
            _ => Err(Malformed::Name { what: "topology change", got: name.to_owned() }),
        }
    }
}

impl StatusChange {
    fn name(self) -> &'static str {
        match self {
            StatusChange::Up => "UP",
            StatusChange::Down => "DOWN",
        }
    }

    fn from_name(name: &str) -> Read<StatusChange> {
        match name {
            "UP" => Ok(StatusChange::Up),
            "DOWN" => Ok(StatusChange::Down),
            _ => Err(Malformed::Name { what: "status change", got: name.to_owned() }),
        }
    }
}

impl Change {
    pub fn name(self) -> &'static str {
        match self {
            Change::Created => "CREATED",
            Change::Updated => "UPDATED",
            Change::Dropped => "DROPPED",
        }
    }

    fn from_name(name: &str) -> Read<Change> {
        match name {
            "CREATED" => Ok(Change::Created),
            "UPDATED" => Ok(Change::Updated),
            "DROPPED" => Ok(Change::Dropped),
            _ => Err(Malformed::Name { what: "schema change", got: name.to_owned() }),
        }
    }
}

impl SchemaChange {
    pub fn keyspace(change: Change, keyspace: &str) -> SchemaChange {
        SchemaChange { change, keyspace: keyspace.to_owned(), target: SchemaTarget::Keyspace }
    }

    pub fn table(change: Change, keyspace: &str, table: &str) -> SchemaChange {
        SchemaChange { change, keyspace: keyspace.to_owned(), target: SchemaTarget::Table(table.to_owned()) }
    }

    pub fn user_type(change: Change, keyspace: &str, name: &str) -> SchemaChange {
        SchemaChange { change, keyspace: keyspace.to_owned(), target: SchemaTarget::Type(name.to_owned()) }
    }

    /// Appends change, target and names. Version 3 does not know functions: their keyspace is said to be updated.
    pub fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        let (target, name, arguments) = match &self.target {
            SchemaTarget::Keyspace => ("KEYSPACE", None, None),
            SchemaTarget::Table(name) => ("TABLE", Some(name), None),
            SchemaTarget::Type(name) => ("TYPE", Some(name), None),
            SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. } if version < ProtocolVersion::V4 => {
                return SchemaChange::keyspace(Change::Updated, &self.keyspace).encode(version, out);
            }
            SchemaTarget::Function { name, arguments } => ("FUNCTION", Some(name), Some(arguments)),
            SchemaTarget::Aggregate { name, arguments } => ("AGGREGATE", Some(name), Some(arguments)),
        };
        put_string(out, self.change.name());
        put_string(out, target);
        put_string(out, &self.keyspace);
        if let Some(name) = name {
            put_string(out, name);
        }
        if let Some(arguments) = arguments {
            put_string_list(out, arguments);
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Read<SchemaChange> {
        let change = Change::from_name(reader.string("a schema change")?)?;
        let target = reader.string("a schema target")?;
        let keyspace = reader.string("a keyspace")?.to_owned();
        let named = |reader: &mut Reader<'_>| Ok::<_, Malformed>(reader.string("a schema name")?.to_owned());
        let arguments = |reader: &mut Reader<'_>| {
            Ok::<_, Malformed>(reader.string_list("argument types")?.into_iter().map(str::to_owned).collect())
        };
        let target = match target {
            "KEYSPACE" => SchemaTarget::Keyspace,
            "TABLE" => SchemaTarget::Table(named(reader)?),
            "TYPE" => SchemaTarget::Type(named(reader)?),
            "FUNCTION" => SchemaTarget::Function { name: named(reader)?, arguments: arguments(reader)? },
            "AGGREGATE" => SchemaTarget::Aggregate { name: named(reader)?, arguments: arguments(reader)? },
            _ => return Err(Malformed::Name { what: "schema target", got: target.to_owned() }),
        };
        Ok(SchemaChange { change, keyspace, target })
    }
}

impl Event {
    pub fn kind(&self) -> EventKind {
        match self {
            Event::Topology { .. } => EventKind::TopologyChange,
            Event::Status { .. } => EventKind::StatusChange,
            Event::Schema(_) => EventKind::SchemaChange,
        }
    }

    /// Appends the body of an EVENT message.
    pub fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        put_string(out, self.kind().name());
        match self {
            Event::Topology { change, address } => {
                put_string(out, change.name());
                put_inet(out, *address);
            }
            Event::Status { change, address } => {
                put_string(out, change.name());
                put_inet(out, *address);
            }
            Event::Schema(change) => change.encode(version, out),
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Read<Event> {
        let name = reader.string("an event type")?;
        match EventKind::from_name(name) {
            Some(EventKind::TopologyChange) => Ok(Event::Topology {
                change: TopologyChange::from_name(reader.string("a topology change")?)?,
                address: reader.inet("a node's address")?,
            }),
            Some(EventKind::StatusChange) => Ok(Event::Status {
                change: StatusChange::from_name(reader.string("a status change")?)?,
                address: reader.inet("a node's address")?,
            }),
            Some(EventKind::SchemaChange) => SchemaChange::decode(reader).map(Event::Schema),
            None => Err(Malformed::Name { what: "event type", got: name.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;

    fn events() -> Vec<Event> {
        let address = "10.0.0.1:9042".parse().unwrap();
        let function = SchemaTarget::Function { name: "f".into(), arguments: vec!["int".into(), "text".into()] };
        let aggregate = SchemaTarget::Aggregate { name: "a".into(), arguments: vec![] };
        let mut events = vec![
            Event::Status { change: StatusChange::Up, address },
            Event::Status { change: StatusChange::Down, address: "[::1]:1".parse().unwrap() },
            Event::Schema(SchemaChange::keyspace(Change::Created, "ks")),
            Event::Schema(SchemaChange::table(Change::Updated, "ks", "t")),
            Event::Schema(SchemaChange::user_type(Change::Dropped, "ks", "u")),
            Event::Schema(SchemaChange { change: Change::Created, keyspace: "ks".into(), target: function }),
            Event::Schema(SchemaChange { change: Change::Dropped, keyspace: "ks".into(), target: aggregate }),
        ];
        for change in [TopologyChange::NewNode, TopologyChange::RemovedNode, TopologyChange::MovedNode] {
            events.push(Event::Topology { change, address });
        }
        events
    }

    #[test]
    fn events_round_trip_and_their_truncations_are_errors() {
        for event in events() {
            let mut out = Vec::new();
            event.encode(ProtocolVersion::V4, &mut out);
            assert_eq!(Event::decode(&mut Reader::new(&out)), Ok(event));
            for len in 0..out.len() {
                assert!(Event::decode(&mut Reader::new(&out[..len])).is_err());
            }
        }
    }

    #[test]
    fn version_3_hears_of_functions_as_a_change_of_their_keyspace() {
        for event in events() {
            let mut out = Vec::new();
            event.encode(ProtocolVersion::V3, &mut out);
            let seen = Event::decode(&mut Reader::new(&out)).unwrap();
            let Event::Schema(SchemaChange { target, .. }) = &event else { continue };
            match target {
                SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. } => {
                    assert_eq!(seen, Event::Schema(SchemaChange::keyspace(Change::Updated, "ks")));
                }
                _ => assert_eq!(seen, event),
            }
        }
    }

    #[test]
    fn the_bytes_of_a_table_change() {
        let mut out = Vec::new();
        Event::Schema(SchemaChange::table(Change::Created, "ks", "t")).encode(ProtocolVersion::V5, &mut out);
        assert_eq!(out, b"\x00\x0dSCHEMA_CHANGE\x00\x07CREATED\x00\x05TABLE\x00\x02ks\x00\x01t");
    }

    #[test]
    fn unknown_names_are_refused_by_name() {
        let error = Event::decode(&mut Reader::new(b"\x00\x03ZAP")).unwrap_err();
        assert_eq!(error, Malformed::Name { what: "event type", got: "ZAP".into() });
        assert_eq!(EventKind::from_name("schema_change"), None);
    }
}
