//! Health, metrics and administration over HTTP on loopback. Its runtime has a thread of its own, from before recovery
//! until after the last connection is gone, so that a server that is busy recovering or stopping can say so.
//!
//! | request | answer |
//! |---|---|
//! | GET /livez | 200 while the process runs |
//! | GET /readyz | 200 while new orders are taken; else 503 and the reason. Of a cluster's members, only the leader's is 200 |
//! | GET /healthz | 200 while the server serves, as a member while it is one of its cluster; else 503 and the reason |
//! | GET /metrics | Prometheus text |
//! | GET /status | one JSON object |
//! | POST /snapshot | makes a snapshot now; needs the token |
//! | POST /cluster | one wish of an operator for the cluster, as JSON; needs the token |
//!
//! The token is a file in the data directory for its owner only, so that other users of the machine can't administer.

pub mod client;
mod listener;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::{Semaphore, oneshot};

use self::listener::Bounded;
use crate::membership::Wish;
use crate::oversight::{Oversight, Readiness};

/// Threads that wait for administrative requests, which block.
const BLOCKING_THREADS_MAX: usize = 2;
/// Longest wish for the cluster.
const WISH_LENGTH_MAX: usize = 16 << 10;
/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// How long a connection may take for the head of its next request, or to take a piece of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The running HTTP server.
pub struct HttpServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct Shared {
    oversight: Arc<Oversight>,
    /// One administrative request at a time; another one is told to come back.
    administration: Arc<Semaphore>,
}

impl HttpServer {
    /// Binds the address and serves it on a thread of its own.
    ///
    /// # Errors
    /// The system's: the address is in use or not this machine's, or no thread is to be had.
    pub fn start(address: SocketAddr, oversight: Arc<Oversight>) -> io::Result<Self> {
        Self::start_with(address, oversight, CONNECTIONS_MAX, PATIENCE)
    }

    fn start_with(
        address: SocketAddr,
        oversight: Arc<Oversight>,
        connections_max: usize,
        patience: Duration,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener)
                    .map(|listener| Bounded::new(listener, connections_max, patience));
                let served = match listener {
                    Ok(listener) => serve(listener, oversight, stopped).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = served {
                    tracing::error!(%error, "the HTTP server ended");
                }
            });
            // A backup under way does not keep the process from its end.
            runtime.shutdown_background();
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // The receiver is gone when the server ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        // A panic on that thread has aborted the process.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(
    listener: Bounded,
    oversight: Arc<Oversight>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let shared = Shared { oversight, administration: Arc::new(Semaphore::new(1)) };
    let router = Router::new()
        .route("/livez", get(|| async { "live\n" }))
        .route("/readyz", get(readyz))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/snapshot", post(snapshot))
        .route("/cluster", post(cluster).layer(DefaultBodyLimit::max(WISH_LENGTH_MAX)))
        .with_state(shared);
    // Connections that linger don't keep the process: the server is raced against the stop, not drained.
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served,
        _ = stopped => Ok(()),
    }
}

async fn readyz(State(shared): State<Shared>) -> Response {
    yes_or_no(shared.oversight.readiness(), "ready\n")
}

async fn healthz(State(shared): State<Shared>) -> Response {
    yes_or_no(shared.oversight.health(), "healthy\n")
}

fn yes_or_no(readiness: Readiness, yes: &'static str) -> Response {
    match readiness {
        Readiness::Ready => (StatusCode::OK, yes).into_response(),
        Readiness::Not(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match crate::metrics::page(shared.oversight.stats()) {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn status(State(shared): State<Shared>) -> Response {
    match serde_json::to_value(shared.oversight.stats()) {
        Ok(value) => json(StatusCode::OK, &value),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn snapshot(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    administer(&shared, &headers, |oversight| oversight.make_snapshot()).await
}

/// Runs `work` on a blocking thread, if the request has the token and no other such work is under way.
async fn administer(
    shared: &Shared,
    headers: &HeaderMap,
    work: impl FnOnce(&Oversight) -> Result<serde_json::Value, String> + Send + 'static,
) -> Response {
    if let Some(refused) = unauthorized(shared, headers) {
        return refused;
    }
    let Ok(permit) = Arc::clone(&shared.administration).try_acquire_owned() else {
        return problem(
            StatusCode::CONFLICT,
            "another snapshot or backup is under way; try again when it is done",
        );
    };
    let oversight = Arc::clone(&shared.oversight);
    let done = tokio::task::spawn_blocking(move || {
        let result = work(&oversight);
        drop(permit);
        result
    });
    match done.await {
        Ok(Ok(value)) => json(StatusCode::OK, &value),
        Ok(Err(error)) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn cluster(State(shared): State<Shared>, headers: HeaderMap, body: String) -> Response {
    if let Some(refused) = unauthorized(&shared, &headers) {
        return refused;
    }
    let wish: Wish = match serde_json::from_str(&body) {
        Ok(wish) => wish,
        Err(error) => {
            return problem(StatusCode::BAD_REQUEST, &format!("not a wish for the cluster: {error}"));
        }
    };
    let Some(membership) = shared.oversight.membership() else {
        let text = "this server is no member of a cluster, or not yet: see [cluster] in its configuration";
        return problem(StatusCode::CONFLICT, text);
    };
    match membership.fulfil(wish).await {
        Ok(done) => json(StatusCode::OK, &serde_json::json!({ "done": done })),
        Err(refused) => problem(StatusCode::CONFLICT, &refused),
    }
}

/// The answer to a request without the token.
fn unauthorized(shared: &Shared, headers: &HeaderMap) -> Option<Response> {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let known = token.is_some_and(|token| shared.oversight.is_token(token));
    (!known).then(|| problem(StatusCode::UNAUTHORIZED, "the token is not the one in the data directory"))
}

fn problem(status: StatusCode, text: &str) -> Response {
    json(status, &serde_json::json!({ "error": text }))
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::oversight::Phase;

    #[track_caller]
    fn check(server: &HttpServer, method: &str, path: &str, token: Option<&str>, status: u16, body: &str) {
        let answer = client::request(server.address(), method, path, token, "", Duration::from_secs(10))
            .expect("the server answers");
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{method} {path}");
    }

    #[test]
    fn readiness_follows_the_phase_and_administration_needs_the_token() {
        let data = tempfile::tempdir().expect("a folder");
        let oversight = Arc::new(Oversight::new());
        oversight.write_token(data.path()).expect("written");
        let token = crate::oversight::read_token(data.path()).expect("read");
        let server =
            HttpServer::start(([127, 0, 0, 1], 0).into(), Arc::clone(&oversight)).expect("it starts");
        check(&server, "GET", "/livez", None, 200, "live\n");
        check(&server, "GET", "/readyz", None, 503, "starting\n");
        oversight.enter(Phase::Recovering);
        check(&server, "GET", "/readyz", None, 503, "recovering\n");
        check(&server, "GET", "/healthz", None, 503, "recovering\n");
        let refused = "{\"error\":\"the token is not the one in the data directory\"}";
        check(&server, "POST", "/snapshot", None, 401, refused);
        check(&server, "POST", "/snapshot", Some("0"), 401, refused);
        check(&server, "GET", "/snapshot", Some(&token), 405, "");
        let early = "{\"error\":\"the engine does not run yet, or not any more\"}";
        check(&server, "POST", "/snapshot", Some(&token), 500, early);
        oversight.enter(Phase::Serving);
        check(&server, "GET", "/readyz", None, 200, "ready\n");
        check(&server, "GET", "/healthz", None, 200, "healthy\n");
        check(&server, "POST", "/cluster", None, 401, refused);
        let nonsense = client::request(
            server.address(),
            "POST",
            "/cluster",
            Some(&token),
            "{}",
            Duration::from_secs(10),
        )
        .expect("the server answers");
        assert_eq!(nonsense.status, 400, "{}", nonsense.body);
        let wish = r#"{"init":{"force":false}}"#;
        let alone = client::request(
            server.address(),
            "POST",
            "/cluster",
            Some(&token),
            wish,
            Duration::from_secs(10),
        )
        .expect("the server answers");
        assert!(alone.status == 409 && alone.body.contains("no member of a cluster"), "{}", alone.body);
        oversight.enter(Phase::Stopping);
        check(&server, "GET", "/readyz", None, 503, "stopping\n");
        let address = server.address();
        drop(server);
        assert!(client::request(address, "GET", "/livez", None, "", Duration::from_secs(1)).is_err());
    }

    /// Two places, both taken by clients that never finish a request: the next one is answered once they are thrown out.
    #[test]
    fn half_requests_are_closed_and_make_room() {
        let patience = Duration::from_millis(200);
        let oversight = Arc::new(Oversight::new());
        let server =
            HttpServer::start_with(([127, 0, 0, 1], 0).into(), oversight, 2, patience).expect("it starts");
        let mut crowd = Vec::new();
        for half in ["", "GET /livez HTTP/1.1\r\nHost: x\r\n"] {
            let mut client = TcpStream::connect(server.address()).expect("connected");
            client.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
            client.write_all(half.as_bytes()).expect("sent");
            crowd.push(client);
        }
        check(&server, "GET", "/livez", None, 200, "live\n");
        for mut client in crowd {
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).expect("closed, without waiting for the test's own limit");
            assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        }
    }
}
