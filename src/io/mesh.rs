//! The mesh: bounded first-in first-out rings between every two shards, and the way in for ordinary threads.

use super::{real, sim};
use crate::base::ids::ShardId;

/// One shard's end of the mesh; a cheap clone. Messages between two shards keep their order.
pub struct Mesh<M>(MeshHalf<M>);

enum MeshHalf<M> {
    Real(real::Mesh<M>),
    Sim(sim::Mesh<M>),
}

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        match &self.0 {
            MeshHalf::Real(mesh) => Mesh(MeshHalf::Real(mesh.clone())),
            MeshHalf::Sim(mesh) => Mesh(MeshHalf::Sim(mesh.clone())),
        }
    }
}

impl<M: Send + 'static> Mesh<M> {
    /// The sender of messages that come through [`Outside`].
    pub const OUTSIDE: ShardId = ShardId(u16::MAX);

    pub(super) fn real(mesh: real::Mesh<M>) -> Self {
        Mesh(MeshHalf::Real(mesh))
    }

    pub(super) fn sim(mesh: sim::Mesh<M>) -> Self {
        Mesh(MeshHalf::Sim(mesh))
    }

    /// The shard whose end this is.
    pub fn shard_id(&self) -> ShardId {
        match &self.0 {
            MeshHalf::Real(mesh) => mesh.shard_id(),
            MeshHalf::Sim(mesh) => mesh.shard_id(),
        }
    }

    pub fn shard_count(&self) -> u16 {
        match &self.0 {
            MeshHalf::Real(mesh) => mesh.shard_count(),
            MeshHalf::Sim(mesh) => mesh.shard_count(),
        }
    }

    /// Puts a message into the ring to another shard, or gives it back where the ring is full. The receiver is woken
    /// at the next [`Mesh::flush`] or when this shard's turn ends, whichever is first.
    pub fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        match &self.0 {
            MeshHalf::Real(mesh) => mesh.try_send(to, message),
            MeshHalf::Sim(mesh) => mesh.try_send(to, message),
        }
    }

    /// As [`Mesh::try_send`], waiting for room.
    pub async fn send(&self, to: ShardId, message: M) {
        match &self.0 {
            MeshHalf::Real(mesh) => mesh.send(to, message).await,
            MeshHalf::Sim(mesh) => mesh.send(to, message).await,
        }
    }

    /// Wakes every shard that sleeps with something new from this one: one wake each.
    pub fn flush(&self) {
        match &self.0 {
            MeshHalf::Real(mesh) => mesh.flush(),
            MeshHalf::Sim(mesh) => mesh.flush(),
        }
    }

    /// Waits until something has come, then takes a bounded batch of it, with its senders. One task a shard receives.
    pub async fn recv(&self, into: &mut Vec<(ShardId, M)>) {
        match &self.0 {
            MeshHalf::Real(mesh) => mesh.recv(into).await,
            MeshHalf::Sim(mesh) => mesh.recv(into).await,
        }
    }
}

/// The way in for ordinary threads (admin, main). What it sends arrives in [`Mesh::recv`] from [`Mesh::OUTSIDE`].
pub struct Outside<M>(OutsideHalf<M>);

enum OutsideHalf<M> {
    Real(real::Outside<M>),
    Sim(sim::Outside<M>),
}

impl<M> Clone for Outside<M> {
    fn clone(&self) -> Self {
        match &self.0 {
            OutsideHalf::Real(outside) => Outside(OutsideHalf::Real(outside.clone())),
            OutsideHalf::Sim(outside) => Outside(OutsideHalf::Sim(outside.clone())),
        }
    }
}

impl<M: Send + 'static> Outside<M> {
    pub(super) fn real(outside: real::Outside<M>) -> Self {
        Outside(OutsideHalf::Real(outside))
    }

    pub(super) fn sim(outside: sim::Outside<M>) -> Self {
        Outside(OutsideHalf::Sim(outside))
    }

    /// Queues a message for a shard and wakes it. Never blocks on the shard; the queue is not bounded, so its users
    /// are: operators and boot, not clients.
    pub fn send(&self, to: ShardId, message: M) {
        match &self.0 {
            OutsideHalf::Real(outside) => outside.send(to, message),
            OutsideHalf::Sim(outside) => outside.send(to, message),
        }
    }
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<Outside<u64>>();
