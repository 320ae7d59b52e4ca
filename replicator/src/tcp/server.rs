//! The answering side: takes connections, bounded in number and in time, and hands each message to the handler, one at a
//! time a connection.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Connection, TcpTransport, frame, is_end, read_hello, reason};
use crate::transport::Envelope;

/// Pause after a connection could not be taken in (too many open files, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers a message. It runs to its end even if whoever asked is gone.
pub type Handler = Arc<dyn Fn(Envelope) -> BoxFuture<'static, Envelope> + Send + Sync>;

/// Bounds of the members' port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Connections of members at a time.
    pub connections_max: usize,
    /// Connections at a time that have not shown yet that they are a member's. Others wait.
    pub strangers_max: usize,
    /// How many of those one address may have; further ones are closed, so that one address can't keep all others waiting.
    pub strangers_per_address_max: usize,
    /// How long a connection may take to show it.
    pub handshake: Duration,
    /// How long a message may take from its first byte to its last, and an answer to be taken.
    pub message: Duration,
    /// How long a connection may carry nothing. The other side makes a new one when it needs it.
    pub idle: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            connections_max: 512,
            strangers_max: 256,
            strangers_per_address_max: 64,
            // A member says hello at once; whoever is silent must not keep others out for long.
            handshake: Duration::from_secs(1),
            message: Duration::from_secs(30),
            idle: Duration::from_secs(60),
        }
    }
}

/// Serves the members' port until `shutdown` ends. Then all connections are closed, whatever they are at.
pub async fn serve(
    listener: TcpListener,
    transport: TcpTransport,
    limits: ServeLimits,
    handler: Handler,
    shutdown: impl Future<Output = ()>,
) {
    let strangers = Strangers::new(&limits);
    let places = Arc::new(Semaphore::new(limits.connections_max));
    // Dropping it ends the connections.
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => return,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &strangers) => accepted,
        };
        match accepted {
            Ok((_, peer, None)) => {
                tracing::debug!(%peer, "too many connections of this address have not shown that they are a member's");
            }
            Ok((stream, peer, Some(stranger))) => {
                let server = Server {
                    transport: transport.clone(),
                    limits,
                    handler: Arc::clone(&handler),
                    places: Arc::clone(&places),
                };
                connections.spawn(async move {
                    match server.serve(stream, stranger).await {
                        // A call that its member gave up takes its connection with it: nothing is wrong.
                        Err(error) if is_end(&error) => {
                            tracing::debug!(%peer, reason = reason(&error), "a member's connection is closed");
                        }
                        Err(error) => {
                            tracing::warn!(%peer, reason = reason(&error), "a member's connection is closed");
                        }
                        Ok(()) => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a member's connection could not be taken");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept(
    listener: &TcpListener,
    strangers: &Strangers,
) -> io::Result<(TcpStream, SocketAddr, Option<Stranger>)> {
    let place = Arc::clone(&strangers.places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, strangers.enter(peer.ip().to_canonical(), place)))
}

/// Connections that have not shown yet that they are a member's, by address. Clones are the same.
#[derive(Clone)]
struct Strangers {
    places: Arc<Semaphore>,
    of_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_address_max: usize,
}

/// The place of one of them.
struct Stranger {
    address: IpAddr,
    strangers: Strangers,
    _place: OwnedSemaphorePermit,
}

impl Strangers {
    fn new(limits: &ServeLimits) -> Self {
        Self {
            places: Arc::new(Semaphore::new(limits.strangers_max)),
            of_address: Arc::default(),
            per_address_max: limits.strangers_per_address_max,
        }
    }

    /// `None` where the address has as many as it may.
    fn enter(&self, address: IpAddr, place: OwnedSemaphorePermit) -> Option<Stranger> {
        let mut counts = self.of_address.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&address).copied().unwrap_or(0);
        if count >= self.per_address_max {
            return None;
        }
        counts.insert(address, count + 1);
        Some(Stranger { address, strangers: self.clone(), _place: place })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut counts = self.strangers.of_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// What one connection needs.
struct Server {
    transport: TcpTransport,
    limits: ServeLimits,
    handler: Handler,
    places: Arc<Semaphore>,
}

impl Server {
    async fn serve(self, stream: TcpStream, stranger: Stranger) -> io::Result<()> {
        let welcome = timeout(self.limits.handshake, self.welcome(stream));
        let Some(mut connection) = welcome.await.map_err(|_| late("it did not say who it is in time"))??
        else {
            // It came and went, as a check of the port does.
            return Ok(());
        };
        let Ok(_place) = self.places.try_acquire() else {
            return Err(io::Error::other(format!(
                "there are {} connections of members already",
                self.limits.connections_max
            )));
        };
        drop(stranger);
        let mut buffer = BytesMut::new();
        while let Some(request) = self.read(&mut *connection, &mut buffer).await? {
            let answer = (self.handler)(request).await;
            let mut answer = frame::encode(answer).map_err(io::Error::other)?;
            let written = async {
                connection.write_all_buf(&mut answer).await?;
                connection.flush().await
            };
            timeout(self.limits.message, written).await.map_err(|_| late("it takes no answer"))??;
        }
        Ok(())
    }

    /// Greets a connection; `None` if it ended before it said anything.
    async fn welcome(&self, stream: TcpStream) -> io::Result<Option<Box<dyn Connection>>> {
        stream.set_nodelay(true)?;
        if stream.peek(&mut [0; 1]).await? == 0 {
            return Ok(None);
        }
        let mut connection: Box<dyn Connection> = match &self.transport.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.current().acceptor.accept(stream).await?),
        };
        read_hello(&mut connection).await?;
        connection.write_all(&frame::HELLO).await?;
        connection.flush().await?;
        Ok(Some(connection))
    }

    /// The next message; `None` once the other side closed between two, or sent none for long.
    async fn read(
        &self,
        connection: &mut dyn Connection,
        buffer: &mut BytesMut,
    ) -> io::Result<Option<Envelope>> {
        if let Some(request) = decode(buffer)? {
            return Ok(Some(request));
        }
        if buffer.is_empty() {
            let _read = match timeout(self.limits.idle, connection.read_buf(buffer)).await {
                Err(_) => return Ok(None),
                // Without TLS's own good-bye, as after a crash, it is an error there: no message was begun, so none is lost.
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Ok(Ok(0)) => return Ok(None),
                Ok(read) => read?,
            };
        }
        let rest = async {
            loop {
                if let Some(request) = decode(buffer)? {
                    return Ok(Some(request));
                }
                if connection.read_buf(buffer).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        timeout(self.limits.message, rest).await.map_err(|_| late("it did not finish a message in time"))?
    }
}

fn decode(buffer: &mut BytesMut) -> io::Result<Option<Envelope>> {
    frame::decode(buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn late(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, reason)
}
