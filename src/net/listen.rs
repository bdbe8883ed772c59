//! Accepting: on shard 0, for every shard. Connections of the plain port are dealt out in turn; on the shard-aware port
//! the client's source port chooses.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use crate::base::ids::ShardId;
use crate::io::{IoError, Listener, TaskClass};
use crate::net::Net;
use crate::router::message::Request;

/// Where this node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    pub cql: SocketAddr,
    pub shard_aware: SocketAddr,
}

/// Which shard gets a connection.
#[derive(Clone, Copy)]
enum Choice {
    InTurn,
    BySourcePort,
}

/// How long accepting rests after it failed (no descriptors left, say).
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(100);

/// Listens on both ports and starts accepting. Port 0 picks a free one.
pub async fn listen(net: &Rc<Net>, address: IpAddr, port: u16, shard_aware_port: u16) -> Result<Ports, IoError> {
    let cql = net.io.listen(SocketAddr::new(address, port)).await?;
    let shard_aware = net.io.listen(SocketAddr::new(address, shard_aware_port)).await?;
    let ports = Ports { cql: cql.local_addr(), shard_aware: shard_aware.local_addr() };
    net.io.spawn(TaskClass::Foreground, accept(net.clone(), cql, Choice::InTurn));
    net.io.spawn(TaskClass::Foreground, accept(net.clone(), shard_aware, Choice::BySourcePort));
    Ok(ports)
}

async fn accept(net: Rc<Net>, listener: Listener, choice: Choice) {
    let shards = net.io.shard_count();
    let mut next = 0;
    while !net.is_stopping() {
        let accepted = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting rests for a moment");
                net.io.sleep(RETRY_AFTER).await;
                continue;
            }
        };
        if net.accepted.get() >= net.limits.connections_max {
            tracing::warn!(limit = net.limits.connections_max, "a connection is closed: too many are open");
            continue;
        }
        let shard = match choice {
            Choice::InTurn => {
                next = (next + 1) % shards;
                ShardId(next)
            }
            Choice::BySourcePort => ShardId(accepted.peer_addr().port() % shards),
        };
        // Given back by the shard that serves it, once it is closed.
        net.accepted.set(net.accepted.get() + 1);
        net.router.hand_over(shard, Request::Connection(accepted)).await;
    }
}
