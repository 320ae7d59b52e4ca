//! The listener: a thread with a runtime of its own that takes connections in, within their limits, and ends them in
//! order when the gateway stops.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, thread};

use journaler::ReportReader;
use recorder::Writer;
use ring::Ingress;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use crate::admission::{AdmissionSource, DepthSource};
use crate::buffers::TASK_BYTES;
use crate::clock::Clock;
use crate::config::{ConfigError, GatewayConfig, ListenerLimits};
use crate::connection::{Connection, Shared};
use crate::hub::Hub;
use crate::leadership::Leadership;
use crate::resume::ResumeKeys;
use crate::verifier::{FailedLogins, Verifiers};

/// Connections that the kernel holds for us.
const BACKLOG: i32 = 1024;
/// Bytes of a socket's two kernel buffers, each; the kernel doubles them for its own needs.
const SOCKET_BYTES: usize = 256 * 1024;
/// Pause after a connection could not be taken in (too many open files, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The gateway of one listener.
#[derive(Debug)]
pub struct Gateway;

/// What a gateway is connected to.
pub struct GatewayParts {
    /// Where frames go.
    pub ingress: Ingress,
    /// Where reports are read.
    pub reports: ReportReader,
    /// Where notices come from.
    pub hub: Hub,
    /// Answers depth queries.
    pub depth: DepthSource,
    /// Says what is taken in.
    pub admission: AdmissionSource,
    /// Whether this member leads.
    pub leadership: Arc<dyn Leadership>,
    /// Lets clients in again without their passwords being verified.
    pub resume: ResumeKeys,
    /// Records what is published and sent.
    pub recorder: Writer,
}

/// A running gateway. Dropping it stops it.
#[derive(Debug)]
pub struct GatewayHandle {
    address: SocketAddr,
    hub: Hub,
    stats: Arc<StatsCells>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What a gateway counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayStats {
    /// Connections now.
    pub connections: u64,
    /// Connections now whose client was let in.
    pub sessions: u64,
    /// Connections taken in since the start.
    pub accepted: u64,
    /// Connections turned away for a limit.
    pub turned_away: u64,
    /// Logins that failed: wrong password, unknown user, or too many at once.
    pub logins_failed: u64,
    /// Messages refused.
    pub refused: u64,
    /// Connections dropped because the client didn't read.
    pub slow_readers: u64,
}

/// Counters for anybody to read; Relaxed, since nothing depends on one being seen before another.
#[derive(Debug, Default)]
pub(crate) struct StatsCells {
    pub(crate) connections: AtomicU64,
    pub(crate) sessions: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) logins_failed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) slow_readers: AtomicU64,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The address can't be listened on.
    #[error("can't listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// A thread or the runtime can't be started.
    #[error("can't start the gateway's threads: {0}")]
    Thread(#[source] io::Error),
}

impl Gateway {
    /// Listens, and serves clients on a thread of its own until the handle is stopped.
    ///
    /// # Errors
    /// [`GatewayError`]; nothing is left running then.
    pub fn start(config: GatewayConfig, parts: GatewayParts) -> Result<GatewayHandle, GatewayError> {
        config.check()?;
        let listener = listen(config.address).map_err(|error| GatewayError::Listen(config.address, error))?;
        let address = listener.local_addr().map_err(|error| GatewayError::Listen(config.address, error))?;
        let verifiers =
            Verifiers::start(config.listener.verifiers, config.listener.verifications_waiting_max)
                .map_err(GatewayError::Thread)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(GatewayError::Thread)?;
        let stats = Arc::new(StatsCells::default());
        let (stop, stopped) = oneshot::channel();
        let counted = Arc::clone(&stats);
        let hub = parts.hub.clone();
        let serve = move || {
            let shared = Rc::new(shared(&config, parts, verifiers, counted));
            let local = LocalSet::new();
            runtime.block_on(local.run_until(serve(listener, config.listener, shared, stopped)));
        };
        let thread =
            thread::Builder::new().name("gateway".to_owned()).spawn(serve).map_err(GatewayError::Thread)?;
        Ok(GatewayHandle { address, hub, stats, stop: Some(stop), thread: Some(thread) })
    }
}

impl GatewayHandle {
    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Makes every connection look at the [`Leadership`] again. To be called whenever its term changes; without it a session
    /// of a term that is over goes on until it has something to do.
    pub fn leadership_changed(&self) {
        self.hub.wake_all();
    }

    /// The counts of this moment.
    #[must_use]
    pub fn stats(&self) -> GatewayStats {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        GatewayStats {
            connections: read(&self.stats.connections),
            sessions: read(&self.stats.sessions),
            accepted: read(&self.stats.accepted),
            turned_away: read(&self.stats.turned_away),
            logins_failed: read(&self.stats.logins_failed),
            refused: read(&self.stats.refused),
            slow_readers: read(&self.stats.slow_readers),
        }
    }

    /// Takes in no more connections and frames, ends each session (reason `server`), sends what reports are due, and
    /// comes back when all is done or the deadline is over. The engine must still run.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the gateway's thread panicked");
        }
    }
}

impl Drop for GatewayHandle {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for the old connections' time-wait to pass.
    socket.set_reuse_address(true)?;
    // Set here, since a connection inherits them; they bound what the kernel holds for a client.
    socket.set_send_buffer_size(SOCKET_BYTES)?;
    socket.set_recv_buffer_size(SOCKET_BYTES)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn shared(
    config: &GatewayConfig,
    parts: GatewayParts,
    verifiers: Verifiers,
    stats: Arc<StatsCells>,
) -> Shared {
    let clock = Clock::start();
    Shared {
        clock,
        limits: config.session,
        durability: config.durability,
        hub: parts.hub,
        ingress: RefCell::new(parts.ingress),
        reports: parts.reports,
        depth: parts.depth,
        admission: parts.admission,
        leadership: parts.leadership,
        resume: parts.resume,
        verifiers,
        failed_logins: RefCell::new(FailedLogins::new(config.listener.failed_logins, clock.now().monotonic)),
        stopping: Cell::new(false),
        active: Cell::new(0),
        left: Notify::new(),
        strides: RefCell::default(),
        recorder: RefCell::new(parts.recorder),
        stats,
    }
}

/// Connections by address; an address is there while it has some.
#[derive(Default)]
struct Addresses(RefCell<HashMap<IpAddr, usize>>);

/// A connection's place among those that are allowed.
struct Place {
    address: IpAddr,
    addresses: Rc<Addresses>,
    shared: Rc<Shared>,
}

impl Place {
    fn take(
        limits: &ListenerLimits,
        address: IpAddr,
        addresses: &Rc<Addresses>,
        shared: &Rc<Shared>,
    ) -> Option<Self> {
        let mut counts = addresses.0.borrow_mut();
        let count = counts.get(&address).copied().unwrap_or(0);
        if shared.active.get() >= limits.connections_max || count >= limits.connections_per_address_max {
            return None;
        }
        counts.insert(address, count + 1);
        shared.active.set(shared.active.get() + 1);
        shared.stats.connections.store(shared.active.get() as u64, Ordering::Relaxed);
        Some(Self { address, addresses: Rc::clone(addresses), shared: Rc::clone(shared) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.addresses.0.borrow_mut();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
        self.shared.active.set(self.shared.active.get() - 1);
        self.shared.stats.connections.store(self.shared.active.get() as u64, Ordering::Relaxed);
        self.shared.left.notify_one();
    }
}

async fn serve(
    listener: std::net::TcpListener,
    limits: ListenerLimits,
    shared: Rc<Shared>,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the runtime doesn't take the listener"),
    };
    let addresses = Rc::new(Addresses::default());
    loop {
        let accepted = tokio::select! {
            biased;
            _ = &mut stopped => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => admit(stream, peer.ip().to_canonical(), &limits, &addresses, &shared),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken in");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    shared.stopping.set(true);
    shared.hub.wake_all();
    let all_left = async {
        while shared.active.get() > 0 {
            shared.left.notified().await;
        }
    };
    if timeout(limits.stop_deadline, all_left).await.is_err() {
        tracing::warn!(connections = shared.active.get(), "connections were cut: the deadline is over");
    }
}

/// Takes a connection in, or closes it where it is one too many.
fn admit(
    stream: TcpStream,
    address: IpAddr,
    limits: &ListenerLimits,
    addresses: &Rc<Addresses>,
    shared: &Rc<Shared>,
) {
    let Some(place) = Place::take(limits, address, addresses, shared) else {
        shared.stats.turned_away.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%address, "turned away: too many connections");
        return;
    };
    shared.stats.accepted.fetch_add(1, Ordering::Relaxed);
    if let Err(error) = stream.set_nodelay(true) {
        // It only costs speed, and a connection that is gone already is seen at its first read.
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let connection = Connection::new(Rc::clone(shared), address);
    let task = async move {
        connection.run(stream).await;
        drop(place);
    };
    assert!(size_of_val(&task) <= TASK_BYTES, "a connection takes no more than is said of it");
    spawn_local(task);
}
