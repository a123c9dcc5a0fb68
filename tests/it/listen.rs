//! Claim: no client can hold a connection for as long as it likes, or hold up a stop.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use hooktriage::http::listen::{Limits, serve};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::app::SOON;
use crate::support::raw::RawConnection;
use crate::support::wait::eventually;

const SHORT: Limits =
    Limits { head_time: Duration::from_millis(200), head_bytes: 8192, connections: 2, drain: SHORT_DRAIN };
const SHORT_DRAIN: Duration = Duration::from_millis(100);

struct Listening {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// `/` answers at once, `/never` not at all, `/much` with more than any buffer takes.
async fn listening(limits: Limits) -> Listening {
    let router = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/never", get(std::future::pending::<String>))
        .route("/much", get(|| async { vec![b'x'; 64 * 1024 * 1024] }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let task = tokio::spawn(serve(listener, router, stop.clone(), limits));
    Listening { address, stop, task }
}

impl Listening {
    async fn open(&self, request: &str) -> RawConnection {
        let mut connection = RawConnection::open(self.address).await;
        assert!(connection.send(request.as_bytes()).await);
        connection
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(SOON, self.task).await.expect("it stops").unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_sends_half_a_head_is_cut() {
    let server = listening(SHORT).await;

    for half in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\nx-half: "] {
        let begun = Instant::now();
        let connection = server.open(half).await;
        assert!(connection.closes().await, "{half:?}");
        assert!(begun.elapsed() >= SHORT.head_time, "{half:?} was cut before its time");
    }
}

#[tokio::test]
async fn a_head_that_drips_in_byte_by_byte_is_cut() {
    let server = listening(SHORT).await;
    let mut connection = server.open("GET / HTTP/1.1\r\nhost: x\r\nx-drip: ").await;

    let stream = &mut connection.0;
    let cell = tokio::sync::Mutex::new(stream);
    eventually(SOON, || async { cell.lock().await.write_all(b".").await.is_err().then_some(()) }).await;
}

#[tokio::test]
async fn a_kept_alive_connection_may_idle_only_so_long() {
    let server = listening(SHORT).await;
    let connection = server.open("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;

    let reply = connection.reply().await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "here"));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = listening(SHORT).await;
    let long = "x".repeat(2 * SHORT.head_bytes);
    let connection = server.open(&format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n")).await;

    assert_eq!(connection.reply().await.status, 431);
}

#[tokio::test]
async fn connections_above_the_cap_wait_for_their_turn() {
    let server = listening(Limits { head_time: SOON, ..SHORT }).await;
    let first = server.open("GET / HT").await;
    let _second = server.open("GET / HT").await;
    let third = server.open("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;

    drop(first);

    assert_eq!(third.reply().await.status, 200);
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_hold_up_a_stop() {
    let server = listening(SHORT).await;
    let connection = server.open("GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await;
    // Whoever is answered now was accepted after the one that hangs.
    assert_eq!(
        server.open("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.reply().await.status,
        200
    );

    server.stop().await;

    assert!(connection.closes().await);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_does_not_hold_up_a_stop() {
    let server = listening(SHORT).await;
    let _connection = server.open("GET /much HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(
        server.open("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.reply().await.status,
        200
    );

    server.stop().await;
}
