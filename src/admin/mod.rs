//! HTTP on loopback: metrics, health, operators' commands. Its own ordinary thread with tokio; it asks shards by
//! message and holds nothing of theirs.
//!
//! Parameters are taken from the query alone: a request with a body is refused, and so is one that names a parameter
//! which its route does not take. What comes from a page in a browser is refused (`guard`).

mod guard;
mod metrics;
mod operations;
mod parameters;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::admin::parameters::NoParameters;
use crate::base::ids::ShardId;
use crate::io::Outside;
use crate::protocol::CqlError;
use crate::router::message::{Message, Operation, Reply, Request, ShardReport};

/// What `/info` and `/status` tell of the process.
#[derive(Clone, Debug)]
pub struct Info {
    pub cluster_name: String,
    pub data_dir: PathBuf,
    pub cql: SocketAddr,
    pub shard_aware: SocketAddr,
    pub shards: u16,
}

/// What every route has.
#[derive(Clone)]
struct Admin {
    outside: Outside<Message>,
    info: Info,
    started: std::time::Instant,
}

/// Listens on 127.0.0.1 and serves from a thread of its own. Port 0 picks a free one. Gives the address.
pub fn start(port: u16, outside: Outside<Message>, info: Info) -> std::io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let admin = Admin { outside, info, started: std::time::Instant::now() };
    std::thread::Builder::new().name("admin".into()).spawn(move || {
        runtime.block_on(async move {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => {
                    if let Err(error) = axum::serve(listener, routes(admin)).await {
                        tracing::error!(%error, "the admin endpoint has ended");
                    }
                }
                Err(error) => tracing::error!(%error, "the admin endpoint cannot serve"),
            }
        });
    })?;
    Ok(address)
}

fn routes(admin: Admin) -> Router {
    Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/health", get(health))
        .route("/status", get(status))
        .route("/info", get(info))
        .route("/tablestats", get(operations::tablestats))
        .route("/snapshots", get(operations::snapshots))
        .route("/flush", post(operations::flush))
        .route("/compact", post(operations::compact))
        .route("/snapshot", post(operations::snapshot))
        .route("/clearsnapshot", post(operations::clear_snapshot))
        .fallback(async || Failed(StatusCode::NOT_FOUND, "nothing stands at this path".into()))
        .method_not_allowed_fallback(async || Failed(StatusCode::METHOD_NOT_ALLOWED, "not with this method".into()))
        .layer(axum::middleware::from_fn(guard::guard))
        .with_state(admin)
}

/// An error as JSON: `{"error": "…"}`.
#[derive(Debug)]
struct Failed(StatusCode, String);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (self.0, axum::Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<CqlError> for Failed {
    fn from(error: CqlError) -> Self {
        let status = match error.code() {
            crate::protocol::ErrorCode::Invalid => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failed(status, error.message().to_owned())
    }
}

impl Admin {
    /// Has shard 0 run an operation on every shard, and waits for the answer without holding the thread.
    async fn everywhere(&self, operation: Operation) -> Result<Reply, Failed> {
        let (sender, receiver) = oneshot::channel();
        // Where nobody waits any more, the answer is dropped.
        let answer = Box::new(move |reply| drop(sender.send(reply)));
        self.outside.send(ShardId(0), Message::Outside { request: Request::Everywhere(operation), answer });
        match receiver.await {
            Ok(reply) => Ok(reply?),
            Err(_) => Err(Failed(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping".into())),
        }
    }

    async fn reports(&self) -> Result<Vec<ShardReport>, Failed> {
        match self.everywhere(Operation::Report).await? {
            Reply::Report(reports) => Ok(reports),
            _ => Err(Failed(StatusCode::INTERNAL_SERVER_ERROR, "the shards gave no report".into())),
        }
    }
}

/// 200 while every shard answers.
async fn health(State(admin): State<Admin>, _: NoParameters) -> Result<axum::Json<Value>, Failed> {
    let reports = admin.reports().await?;
    Ok(axum::Json(json!({ "healthy": true, "shards": reports.len() })))
}

async fn status(State(admin): State<Admin>, _: NoParameters) -> Result<axum::Json<Value>, Failed> {
    let reports = admin.reports().await?;
    let bytes: u64 = reports.iter().flat_map(|report| &report.tables).map(|table| table.sstable_bytes).sum();
    Ok(axum::Json(json!({
        "state": "UN",
        "address": admin.info.cql.ip().to_string(),
        "load_bytes": bytes,
        "owns_percent": 100.0,
        "data_center": "datacenter1",
        "rack": "rack1",
    })))
}

async fn info(State(admin): State<Admin>, _: NoParameters) -> Result<axum::Json<Value>, Failed> {
    let reports = admin.reports().await?;
    Ok(axum::Json(json!({
        "cluster_name": admin.info.cluster_name,
        "version": env!("CARGO_PKG_VERSION"),
        "release_version": crate::plan::system_rows::RELEASE_VERSION,
        "cql": admin.info.cql.to_string(),
        "shard_aware": admin.info.shard_aware.to_string(),
        "data_dir": admin.info.data_dir.display().to_string(),
        "shards": admin.info.shards,
        "pid": std::process::id(),
        "uptime_s": admin.started.elapsed().as_secs(),
        "connections": reports.iter().map(|report| report.connections).sum::<u64>(),
    })))
}
