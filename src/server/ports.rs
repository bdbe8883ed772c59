//! The ports, before anything listens on them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

use crate::server::node::NodeError;
use crate::server::settings::Settings;

/// Takes the ports before anything is done that takes long, so that it is said at once where one cannot be had, and so
/// that every shard knows which ones port 0 has picked. They are listened on later, beside these sockets: Linux lets two
/// with SO_REUSEADDR have a port while one of them at most listens.
pub fn reserve_ports(settings: &mut Settings) -> Result<[TcpSocket; 3], NodeError> {
    let (clients, admin) = (settings.rpc_address, IpAddr::V4(Ipv4Addr::LOCALHOST));
    Ok([
        reserve_port("native_transport_port", clients, &mut settings.native_transport_port)?,
        reserve_port("shard_aware_port", clients, &mut settings.shard_aware_port)?,
        reserve_port("admin_port", admin, &mut settings.admin_port)?,
    ])
}

fn reserve_port(key: &str, address: IpAddr, port: &mut u16) -> Result<TcpSocket, NodeError> {
    let wanted = SocketAddr::new(address, *port);
    let failed = |error: std::io::Error| match error.kind() {
        // It may be one before long, at the machine's own start: not a fault of the configuration.
        std::io::ErrorKind::AddrNotAvailable => {
            NodeError::Failed(format!("`rpc_address`: {address} is not an address of this machine ({error})"))
        }
        _ => NodeError::Failed(format!("`{key}`: cannot listen on {wanted}: {error}")),
    };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
    socket.set_reuseaddr(true).map_err(failed)?;
    socket.bind(wanted).map_err(failed)?;
    *port = socket.local_addr().map_err(failed)?.port();
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_0_is_a_real_port_before_anything_listens() {
        let ports = |rpc: &str, port| Settings {
            rpc_address: rpc.parse().expect("an address"),
            native_transport_port: port,
            shard_aware_port: 0,
            admin_port: 0,
            ..Settings::default()
        };
        let mut picked = ports("127.0.0.1", 0);
        let reserved = reserve_ports(&mut picked).expect("free");
        let port = picked.native_transport_port;
        assert!(port != 0 && picked.shard_aware_port != 0 && picked.admin_port != 0);
        let listening = std::net::TcpListener::bind(("127.0.0.1", port)).expect("beside the one that holds it");
        drop(reserved);
        let taken = reserve_ports(&mut ports("127.0.0.1", port));
        assert!(matches!(&taken, Err(NodeError::Failed(why)) if why.contains("`native_transport_port`")), "{taken:?}");
        drop(listening);
        let elsewhere = reserve_ports(&mut ports("192.0.2.1", 0));
        assert!(
            matches!(&elsewhere, Err(NodeError::Failed(why)) if why.contains("`rpc_address`: 192.0.2.1")),
            "{elsewhere:?}"
        );
    }
}
