//! What a node shows of itself: `system.local` and its settings.

use std::net::IpAddr;

use crate::base::ids::Token;
use crate::plan::select::ReadPlan;
use crate::plan::system_rows::definitions::schema_version;
use crate::plan::system_rows::writer::{Row, Writer};
use crate::plan::{Context, PlannedMutation};
use crate::schema::Schema;

/// The release of Cassandra whose behaviour this is.
pub const RELEASE_VERSION: &str = "5.0.9";
pub const CQL_VERSION: &str = "3.4.7";
pub const NATIVE_PROTOCOL_VERSION: &str = "5";
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// A node as its clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalInfo {
    pub cluster_name: String,
    pub data_center: String,
    pub rack: String,
    pub host_id: [u8; 16],
    pub tokens: Vec<Token>,
    /// Raised at every start.
    pub generation: i32,
    pub addresses: Addresses,
}

/// Where a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub listen: IpAddr,
    pub broadcast: IpAddr,
    /// Where other nodes would reach this one.
    pub storage_port: u16,
    /// The address that clients connect to: never the unspecified one. Where the node listens on every address, this is
    /// what its row holds, and each client is shown the one it connected to (`show_address`).
    pub rpc: IpAddr,
    pub rpc_port: u16,
}

/// Cassandra's port between nodes: shown, and not listened on.
const STORAGE_PORT: u16 = 7000;

impl Addresses {
    /// One address for clients and nodes.
    pub fn one(address: IpAddr, rpc_port: u16) -> Addresses {
        Addresses { listen: address, broadcast: address, storage_port: STORAGE_PORT, rpc: address, rpc_port }
    }
}

impl LocalInfo {
    /// The node as a client sees it that connected to this address.
    pub fn at(&self, address: IpAddr) -> LocalInfo {
        LocalInfo { addresses: Addresses::one(address, self.addresses.rpc_port), ..self.clone() }
    }
}

/// The columns of `system.local` that hold an address of the node.
const ADDRESS_COLUMNS: [&str; 3] = ["broadcast_address", "listen_address", "rpc_address"];

/// Shows a reader of `system.local` the node at this address, the one it connected to.
pub fn show_address(read: &mut ReadPlan, connected_to: IpAddr) {
    if (read.table.keyspace.as_str(), read.table.name.as_str()) != ("system", "local") {
        return;
    }
    let table = read.table.clone();
    for column in ADDRESS_COLUMNS.iter().filter_map(|name| table.column(name)) {
        read.show(column.id, address(connected_to));
    }
}

/// The one row of `system.local`, all but the schema's version.
pub fn local_row(writer: &mut Writer<'_>, info: &LocalInfo) {
    let row = Row::new(&[])
        .text("bootstrapped", "COMPLETED")
        .bytes("broadcast_address", address(info.addresses.broadcast))
        .int("broadcast_port", i32::from(info.addresses.storage_port))
        .text("cluster_name", &info.cluster_name)
        .text("cql_version", CQL_VERSION)
        .text("data_center", &info.data_center)
        .int("gossip_generation", info.generation)
        .bytes("host_id", info.host_id)
        .bytes("listen_address", address(info.addresses.listen))
        .int("listen_port", i32::from(info.addresses.storage_port))
        .text("native_protocol_version", NATIVE_PROTOCOL_VERSION)
        .text("partitioner", PARTITIONER)
        .text("rack", &info.rack)
        .text("release_version", RELEASE_VERSION)
        .bytes("rpc_address", address(info.addresses.rpc))
        .int("rpc_port", i32::from(info.addresses.rpc_port))
        .text_elements("tokens", info.tokens.iter().map(|token| token.0.to_string()));
    writer.put("system", "local", "local", row);
}

/// Clients compare these until all nodes agree, and fetch the schema anew when they change.
pub fn schema_version_row(writer: &mut Writer<'_>, schema: &Schema) {
    let row = Row::new(&[]).bytes("schema_version", schema_version(schema));
    writer.put("system", "local", "local", row);
}

/// The rows of `system_views.settings`.
pub fn settings<'a>(
    schema: &Schema,
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    context: &Context,
) -> Vec<PlannedMutation> {
    let mut writer = Writer::new(schema, context);
    for (name, value) in settings {
        writer.put("system_views", "settings", name, Row::new(&[]).text("value", value));
    }
    writer.finish()
}

fn address(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}
