//! Members' messages over TCP, by default with TLS on both sides. It carries bytes and checks that they arrive as they
//! were sent; it must not look into them, retry, or decide how long an answer may take: that is the caller's.
//!
//! Who may connect is decided by certificates alone: both sides present one that the configured authority signed, and the
//! connecting side checks that it names the host it asked for.

mod client;
mod frame;
mod server;
mod tls;

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::member::Member;
use crate::transport::{Channel, Transport};

pub use frame::{CONTROL_BYTES_MAX, PAYLOADS_BYTES_MAX, PAYLOADS_MAX};
pub use server::{Handler, ServeLimits, serve};
pub use tls::{TlsError, TlsOptions};

/// How members know each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Not at all: whoever reaches the port is a member. For loopback and for networks that let nobody else in.
    #[default]
    Clear,
    /// By certificates.
    Tls(TlsOptions),
}

/// Messages over TCP. Clones share the certificates.
#[derive(Clone)]
pub struct TcpTransport {
    /// `None`: in the clear.
    tls: Option<Arc<tls::Certificates>>,
}

impl TcpTransport {
    /// A transport. Certificates are read here, and again before a connection where the files have changed.
    ///
    /// # Errors
    /// [`TlsError`]: a file can't be used; it is named.
    pub fn new(security: &Security) -> Result<Self, TlsError> {
        let tls = match security {
            Security::Clear => None,
            Security::Tls(options) => Some(Arc::new(tls::Certificates::load(options)?)),
        };
        Ok(Self { tls })
    }
}

impl Transport for TcpTransport {
    fn open(&self, target: &Member) -> Box<dyn Channel> {
        Box::new(client::TcpChannel::new(target.address.clone(), self.tls.clone()))
    }
}

/// A connection in the clear or with TLS.
trait Connection: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Connection for T {}

/// Reads the other side's hello.
async fn read_hello(connection: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut hello = [0; frame::HELLO.len()];
    connection.read_exact(&mut hello).await?;
    frame::check_hello(&hello).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Whether the other side went away, rather than said or did something wrong.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

/// What a person is told of an error of the system's or of TLS.
fn reason(error: &io::Error) -> String {
    if is_end(error) { "it closed the connection".to_owned() } else { error.to_string() }
}
