//! The commands' side of the HTTP port: one request over one connection, on loopback, bounded in time and length.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest answer that is taken.
const ANSWER_LENGTH_MAX: u64 = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// An answer: its status and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code, 200 for success.
    pub status: u16,
    /// Body as text.
    pub body: String,
}

/// Sends a request and waits for its answer, at most `timeout` for each piece of it. With a `token` it is a request to
/// administer.
///
/// # Errors
/// The system's, or `InvalidData` where the answer is not HTTP or too long.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &str,
    timeout: Duration,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let authorization = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{authorization}Content-Type: \
         application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_LENGTH_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > ANSWER_LENGTH_MAX {
        return Err(invalid("the answer is too long"));
    }
    parse(&bytes)
}

/// Reads an answer that ended with its connection. The server here never sends chunks.
fn parse(bytes: &[u8]) -> io::Result<Answer> {
    let text = std::str::from_utf8(bytes).map_err(|_| invalid("the answer is not text"))?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| invalid("the answer is cut short"))?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 "))
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| invalid("the answer is not HTTP/1.1"))?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok());
    if length.is_some_and(|length| length != body.len()) {
        return Err(invalid("the answer is cut short"));
    }
    Ok(Answer { status, body: body.to_owned() })
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let answer = |text: &str| parse(text.as_bytes()).ok().map(|answer| (answer.status, answer.body));
        let whole = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
        assert_eq!(answer(whole), Some((503, "busy".to_owned())));
        assert_eq!(answer("HTTP/1.1 200 OK\r\n\r\n"), Some((200, String::new())));
        for end in 0..whole.len() {
            assert_eq!(answer(&whole[..end]), None, "cut after {end} bytes");
        }
        assert_eq!(answer("SSH-2.0\r\n\r\n"), None);
        assert_eq!(answer("HTTP/1.1 2\r\n\r\n"), None);
    }
}
