//! Snapshots over all shards: an operator's, and those that TRUNCATE and DROP take first. Shard 0 leads, and knows which
//! are under way: until one is whole it is neither there for those who clear snapshots, nor may another be taken under its
//! tag. A tag serves a table once (Cassandra's `StorageService.takeSnapshot`), so that what is in a snapshot is of one
//! time.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::base::ids::TableId;
use crate::base::local::{Semaphore, oneshot};
use crate::io::TaskClass;
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::schema::Table;
use crate::shard::{AutoSnapshot, Cleared, check_tag};

/// Shard 0's view of the snapshots.
pub(super) struct Snapshots {
    /// Held while it is looked whether a tag is free, and while snapshots are cleared: both take a moment.
    turn: Rc<Semaphore>,
    under_way: RefCell<Vec<String>>,
}

impl Default for Snapshots {
    fn default() -> Self {
        Snapshots { turn: Semaphore::new(1), under_way: RefCell::default() }
    }
}

/// A snapshot of this tag is under way until this is dropped.
#[must_use]
pub(super) struct UnderWay {
    router: Rc<Router>,
    tag: String,
}

impl UnderWay {
    fn new(router: &Rc<Router>, tag: &str) -> UnderWay {
        router.snapshots.under_way.borrow_mut().push(tag.to_owned());
        UnderWay { router: router.clone(), tag: tag.to_owned() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = self.router.snapshots.under_way.borrow_mut();
        if let Some(at) = under_way.iter().position(|tag| *tag == self.tag) {
            under_way.swap_remove(at);
        }
    }
}

/// What every shard is to link.
struct Links {
    tag: String,
    tables: Vec<Rc<Table>>,
}

/// A shard that runs answers some time: longer than any waits for its disk.
const ANSWERED_WITHIN: Duration = Duration::from_secs(365 * 86_400);

/// A snapshot to take before a table's data goes.
pub(super) struct SnapshotDue {
    pub tag: String,
    pub table: Rc<Table>,
}

impl Router {
    /// An operator's snapshot of these tables. Where it fails nothing of it stays.
    pub(super) async fn take_snapshot(self: &Rc<Self>, tag: &str, tables: &[TableId]) -> Result<Vec<Reply>, CqlError> {
        check_tag(tag).map_err(|error| errors::shard_error(&error))?;
        let schema = self.schema();
        let chosen: Vec<Rc<Table>> = tables.iter().filter_map(|id| schema.table_by_id(*id).cloned()).collect();
        let under_way = vec![self.begin_snapshot(tag, &chosen).await?];
        let links = vec![Links { tag: tag.to_owned(), tables: chosen }];
        let (_under_way, replies) = self.link_everywhere(under_way, links).await?;
        Ok(replies)
    }

    /// Refuses a tag that has been used for one of these tables, before anything is linked.
    async fn begin_snapshot(self: &Rc<Self>, tag: &str, tables: &[Rc<Table>]) -> Result<UnderWay, CqlError> {
        let _turn = self.snapshots.turn.acquire(1).await;
        if self.snapshots.under_way.borrow().iter().any(|other| other == tag) {
            return Err(CqlError::invalid(format!("Snapshot {tag} is being taken already.")));
        }
        for table in tables {
            if self.shard.has_snapshot(tag, table).await.map_err(|error| errors::shard_error(&error))? {
                return Err(CqlError::invalid(format!("Snapshot {tag} already exists.")));
            }
        }
        Ok(UnderWay::new(self, tag))
    }

    /// Removes the snapshots that are named, but those under way: they come after.
    pub(super) async fn clear_snapshots(
        &self,
        tag: Option<String>,
        keyspaces: Vec<String>,
        tables: Vec<String>,
    ) -> Result<(), CqlError> {
        let _turn = self.snapshots.turn.acquire(1).await;
        let spared = self.snapshots.under_way.borrow().clone();
        let cleared = self.shard.clear_snapshots(&Cleared { tag, keyspaces, tables, spared }).await;
        cleared.map_err(|error| errors::shard_error(&error))
    }

    /// The snapshot that `taker` takes of a table before it takes its data away, if any.
    pub(super) fn snapshot_due(&self, taker: AutoSnapshot, table: &Rc<Table>) -> Option<SnapshotDue> {
        let tag = self.shard.auto_snapshot_tag(taker, table)?;
        Some(SnapshotDue { tag, table: table.clone() })
    }

    /// Takes these snapshots, whole, on every shard, before any shard's data goes. Where one fails none of them stays: a
    /// shard is waited for as long as an operator would, since it would go on with what was cleared. Shard 0 runs it.
    pub(super) async fn snapshot_first(self: &Rc<Self>, due: &[SnapshotDue]) -> Result<Vec<UnderWay>, CqlError> {
        let turn = self.snapshots.turn.acquire(1).await;
        let under_way = due.iter().map(|due| UnderWay::new(self, &due.tag)).collect();
        drop(turn);
        let links = due.iter().map(|due| Links { tag: due.tag.clone(), tables: vec![due.table.clone()] }).collect();
        let taken = self.link_everywhere(under_way, links).await;
        taken.map(|(under_way, _)| under_way).map_err(|error| {
            let reason = error.message();
            CqlError::server_error(format!(
                "nothing is removed, because the snapshot that `auto_snapshot` asks for failed: {reason}"
            ))
        })
    }

    /// Has every shard link these, in a task that waits for each of them however long it takes: one that is slow links
    /// after the deadline too. Until all have answered the tags stay under way; what failed, and what nobody waits for any
    /// more, is removed then.
    async fn link_everywhere(
        self: &Rc<Self>,
        under_way: Vec<UnderWay>,
        links: Vec<Links>,
    ) -> Result<(Vec<UnderWay>, Vec<Reply>), CqlError> {
        let (sender, receiver) = oneshot();
        let wait = Rc::new(());
        let (router, is_waited_for) = (self.clone(), Rc::downgrade(&wait));
        self.io.spawn(TaskClass::Foreground, async move {
            let asked = router.link_in_turn(&links, &is_waited_for).await;
            if asked.is_err() || is_waited_for.strong_count() == 0 {
                router.discard_snapshots(&links).await;
            }
            sender.send(asked.map(|replies| (under_way, replies)));
        });
        let linked = self.io.within(self.timeouts.operation, receiver).await.flatten();
        drop(wait);
        linked.unwrap_or_else(|| {
            Err(CqlError::server_error("a shard did not answer in time; nothing of the snapshot will stay"))
        })
    }

    /// The replies to the last of these; nothing more is asked for once one failed or nobody waits.
    async fn link_in_turn(self: &Rc<Self>, links: &[Links], is_waited_for: &Weak<()>) -> Result<Vec<Reply>, CqlError> {
        let mut replies = Vec::new();
        for Links { tag, tables } in links {
            if is_waited_for.strong_count() == 0 {
                break;
            }
            let tables: Vec<TableId> = tables.iter().map(|table| table.id).collect();
            let request = || Request::Snapshot { tag: tag.clone(), tables: tables.clone() };
            replies = self.ask_all(request, self.deadline(ANSWERED_WITHIN)).await?;
        }
        Ok(replies)
    }

    /// Removes what has been linked of snapshots that failed.
    async fn discard_snapshots(&self, failed: &[Links]) {
        for Links { tag, tables } in failed {
            for table in tables {
                if let Err(left) = self.shard.discard_snapshot(tag, table).await {
                    tracing::warn!(%tag, error = %left, "an unfinished snapshot stays");
                }
            }
        }
    }
}
