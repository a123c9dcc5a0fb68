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
use tracing::{debug, warn};

/// Longest a request head may take, and longest a kept-alive connection may idle.
const HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// Largest request head, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Most connections at once; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 8192;
/// Pause after a failed accept, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then lets open requests end for up to `drain`.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken, drain: Duration) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
        let connection = graceful.watch(connection(stream, router.clone()));
        tokio::spawn(async move {
            if let Err(fault) = connection.await {
                debug!(error = %fault, "a connection ended early");
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        warn!(drain_s = drain.as_secs(), "some requests did not end in time and were cut off");
    }
}

fn connection(
    stream: TcpStream,
    router: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    if let Err(fault) = stream.set_nodelay(true) {
        debug!(error = %fault, "small packets may be held back on a connection");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}
