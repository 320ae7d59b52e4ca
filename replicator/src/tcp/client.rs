//! The asking side: one connection to one member, made when it is first needed and again after an error. A call that is
//! dropped takes its connection with it.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::tls::Certificates;
use super::{Connection, frame, read_hello, reason};
use crate::transport::{CallFuture, Channel, ClosedFuture, Envelope, TransportError};

/// A way to one member.
pub(super) struct TcpChannel {
    /// `host:port`.
    address: String,
    tls: Option<Arc<Certificates>>,
    /// Taken out during a call and put back after it went well: so nothing of an unfinished call is left on it.
    open: Option<Open>,
}

struct Open {
    connection: Box<dyn Connection>,
    buffer: BytesMut,
}

impl TcpChannel {
    pub(super) fn new(address: String, tls: Option<Arc<Certificates>>) -> Self {
        Self { address, tls, open: None }
    }

    async fn exchange(&mut self, request: Envelope) -> Result<Envelope, TransportError> {
        let outgoing = frame::encode(request).map_err(|error| self.unreachable(error.to_string()))?;
        let kept = match self.open.take() {
            Some(mut open) => is_quiet(&mut *open.connection).await.then_some(open),
            None => None,
        };
        let mut open = match kept {
            Some(open) => open,
            None => self.connect().await.map_err(|error| self.unreachable(reason(&error)))?,
        };
        let answer = open.ask(outgoing).await.map_err(|error| TransportError::Lost {
            address: self.address.clone(),
            reason: reason(&error),
        })?;
        self.open = Some(open);
        Ok(answer)
    }

    async fn connect(&self) -> io::Result<Open> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let mut connection: Box<dyn Connection> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                Box::new(tls.current().connector.connect(server_name(&self.address)?, stream).await?)
            }
        };
        connection.write_all(&frame::HELLO).await?;
        connection.flush().await?;
        read_hello(&mut connection).await?;
        Ok(Open { connection, buffer: BytesMut::new() })
    }

    fn unreachable(&self, reason: String) -> TransportError {
        TransportError::Unreachable { address: self.address.clone(), reason }
    }
}

impl Channel for TcpChannel {
    fn call(&mut self, request: Envelope) -> CallFuture<'_> {
        Box::pin(self.exchange(request))
    }

    fn closed(&mut self) -> ClosedFuture<'_> {
        Box::pin(async {
            let Some(open) = &mut self.open else { return std::future::pending().await };
            // Its end, or something that came unasked: it is of no use any more.
            let _ = open.connection.read_u8().await;
            self.open = None;
        })
    }
}

impl Open {
    async fn ask(&mut self, mut request: frame::Outgoing) -> io::Result<Envelope> {
        let Self { connection, buffer } = self;
        connection.write_all_buf(&mut request).await?;
        connection.flush().await?;
        loop {
            if let Some(answer) =
                frame::decode(buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
            {
                return Ok(answer);
            }
            if connection.read_buf(buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Whether a connection that was not used for a while is still there: it was not closed, and nothing came unasked.
async fn is_quiet(connection: &mut dyn Connection) -> bool {
    let mut byte = [0; 1];
    poll_fn(|context| {
        let mut buffer = ReadBuf::new(&mut byte);
        Poll::Ready(Pin::new(&mut *connection).poll_read(context, &mut buffer).is_pending())
    })
    .await
}

/// The name that the other side's certificate must have.
fn server_name(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(ServerName::IpAddress(address.into()));
    }
    ServerName::try_from(host.to_owned()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_host_of_the_address() {
        let check = |address: &str, name: &str| {
            assert_eq!(server_name(address).expect("a name").to_str(), name, "{address}");
        };
        check("one.example:7301", "one.example");
        check("10.0.0.7:1", "10.0.0.7");
        check("[::1]:7301", "::1");
        assert!(server_name("what is this:1").is_err());
    }
}
