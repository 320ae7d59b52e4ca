//! A connection on its way: the addresses of a name one after the other, without blocking, so that a caller with several
//! clients doesn't wait for a member that is not there.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Building {
    socket: TcpStream,
    /// Addresses that are left, the next one last.
    others: Vec<SocketAddr>,
    limit: Duration,
    deadline: Duration,
}

/// How far it got.
pub(super) enum Progress {
    Pending(Building),
    Done(TcpStream),
}

impl Building {
    /// Begins with the first address of `name`; each may take as long as `limit`.
    pub(super) fn start(name: &str, limit: Duration, now: Duration) -> io::Result<Self> {
        let mut addresses: Vec<SocketAddr> = name.to_socket_addrs()?.collect();
        addresses.reverse();
        let none = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        Self::next(addresses, limit, now, none)
    }

    /// Goes on with the addresses that are left; `error` is why the last one failed.
    fn next(
        mut others: Vec<SocketAddr>,
        limit: Duration,
        now: Duration,
        mut error: io::Error,
    ) -> io::Result<Self> {
        while let Some(address) = others.pop() {
            match begin(address) {
                Ok(socket) => return Ok(Self { socket, others, limit, deadline: now + limit }),
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// Looks how it stands.
    pub(super) fn look(self, now: Duration) -> io::Result<Progress> {
        let failed = match self.socket.take_error()? {
            Some(error) => error,
            None if self.socket.peer_addr().is_ok() => {
                self.socket.set_nodelay(true)?;
                return Ok(Progress::Done(self.socket));
            }
            None if now < self.deadline => return Ok(Progress::Pending(self)),
            None => io::Error::new(io::ErrorKind::TimedOut, "no connection in time"),
        };
        Self::next(self.others, self.limit, now, failed).map(Progress::Pending)
    }

    /// When to look at the latest.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Writable once there is something to see.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}
