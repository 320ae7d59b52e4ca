//! The HTTP port's connections: so many at a time, each with so long for the head of a request and for taking its answer.
//! How long the server may work on a request is not bounded here: a backup takes its time.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Pause after a connection could not be taken in (too many open files, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes connections in while there are fewer than the most; the kernel holds the others.
pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, connections_max: usize, patience: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(connections_max)), patience }
    }
}

impl Listener for Bounded {
    type Io = Timed;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Timed, SocketAddr) {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                unreachable!("nobody closes the semaphore")
            };
            match self.listener.accept().await {
                Ok((stream, peer)) => return (Timed::new(stream, place, self.patience), peer),
                Err(error) => {
                    tracing::warn!(%error, "an HTTP connection could not be taken in");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends with an error when the peer takes too long.
pub(super) struct Timed {
    stream: TcpStream,
    patience: Duration,
    /// When the head that is awaited, or the answer that goes out, is late.
    deadline: Pin<Box<Sleep>>,
    /// Whether the peer is waited for, and not the server.
    armed: bool,
    head: Head,
    _place: OwnedSemaphorePermit,
}

impl Timed {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit, patience: Duration) -> Self {
        let deadline = Box::pin(sleep(patience));
        Self { stream, patience, deadline, armed: true, head: Head::default(), _place: place }
    }

    fn arm(&mut self) {
        self.deadline.as_mut().reset(Instant::now() + self.patience);
        self.armed = true;
    }

    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        self.armed && self.deadline.as_mut().poll(context).is_ready()
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        // However slowly its bytes come, a head has only its time.
        for byte in buffer.filled().iter().skip(before) {
            if self.head.ends_with(*byte) {
                self.armed = false;
            }
        }
        read
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.armed {
            self.arm();
        }
        if self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            // The next head, or the rest of this answer, has its own time.
            self.arm();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Finds the empty line behind a request's head.
#[derive(Default)]
struct Head {
    line_is_empty: bool,
}

impl Head {
    fn ends_with(&mut self, byte: u8) -> bool {
        match byte {
            b'\n' if self.line_is_empty => {
                self.line_is_empty = false;
                return true;
            }
            b'\n' => self.line_is_empty = true,
            b'\r' => {}
            _ => self.line_is_empty = false,
        }
        false
    }
}
