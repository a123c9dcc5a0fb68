//! The accept loop. `axum::serve` sets no deadline for request heads, so a client that sends half
//! a head would hold a connection for ever; this loop sets one, and caps connections.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

/// What connections may take of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest a request head may take, and longest a kept-alive connection may idle.
    pub head_time: Duration,
    /// Largest request head, in bytes.
    pub head_bytes: usize,
    /// Most connections at once; further ones wait in the kernel's queue.
    pub connections: usize,
    /// How long open requests may take to end once the process is to stop.
    pub drain: Duration,
}

impl Default for Limits {
    /// A head within 15 s and 32 KiB, 8,192 connections, 5 s for the last requests.
    fn default() -> Self {
        Self {
            head_time: Duration::from_secs(15),
            head_bytes: 32 * 1024,
            connections: 8192,
            drain: Duration::from_secs(5),
        }
    }
}

/// Pause after a failed accept, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then lets open requests end for as long as the limits say. When it returns,
/// no connection is left: one whose client reads or writes too slowly is cut, so that it cannot
/// hold up a stop.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken, limits: Limits) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (tasks, cut) = (TaskTracker::new(), CancellationToken::new());
    loop {
        let Some(Ok(slot)) = stop.run_until_cancelled(Arc::clone(&slots).acquire_owned()).await else {
            break;
        };
        let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { break };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(fault) => {
                warn!(error = %fault, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = graceful.watch(connection(stream, router.clone(), &limits));
        let cut = cut.clone();
        tasks.spawn(async move {
            if let Some(Err(fault)) = cut.run_until_cancelled(connection).await {
                debug!(error = %fault, "a connection ended early");
            }
            drop(slot);
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        warn!(drain_s = limits.drain.as_secs(), "some requests did not end in time and are cut off");
        cut.cancel();
    }
    tasks.wait().await;
}

fn connection(
    stream: TcpStream,
    router: Router,
    limits: &Limits,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    if let Err(fault) = stream.set_nodelay(true) {
        debug!(error = %fault, "small packets may be held back on a connection");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}
