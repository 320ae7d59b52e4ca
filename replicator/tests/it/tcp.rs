//! The members' transport: what arrives, what breaks, and who is not let in.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use replicator::tcp::{
    CONTROL_BYTES_MAX, Handler, PAYLOADS_BYTES_MAX, PAYLOADS_MAX, Security, ServeLimits, TcpTransport,
    TlsOptions, serve,
};
use replicator::{Channel, Envelope, Member, Transport, TransportError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::certificates::{self, Authority};

/// Only ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);
const HELLO: &[u8; 8] = b"RINGPIT\x01";

fn transport(security: Security) -> TcpTransport {
    TcpTransport::new(&security).expect("usable certificates")
}

/// A server on loopback that ends with the value.
struct Served {
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    async fn new(security: Security, limits: ServeLimits, handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(serve(listener, transport(security), limits, handler, async {
            let _ = stopped.await;
        }));
        Self { address, stop: Some(stop), task }
    }

    async fn stop(mut self) {
        self.stop.take().map(|stop| stop.send(()));
        timeout(PATIENCE, &mut self.task).await.expect("it ends in time").expect("it ends well");
    }

    fn member(&self, host: &str) -> Member {
        Member { address: format!("{host}:{}", self.address.port()), ..Member::default() }
    }
}

/// Gives back what came, its payloads in reverse, and counts.
fn mirror() -> (Handler, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let handler: Handler = Arc::new(move |mut envelope: Envelope| {
        counted.fetch_add(1, Ordering::SeqCst);
        envelope.payloads.reverse();
        Box::pin(async { envelope })
    });
    (handler, count)
}

async fn call(channel: &mut dyn Channel, request: Envelope) -> Result<Envelope, TransportError> {
    timeout(PATIENCE, channel.call(request)).await.expect("an answer in time")
}

fn small(text: &'static str) -> Envelope {
    Envelope { control: Bytes::from_static(text.as_bytes()), payloads: Vec::new() }
}

/// Waits for a raw connection's end; gives what came before it.
async fn end_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end as good as any.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection is closed");
    bytes
}

async fn exchanges(client: Security, server: Security, host: &str) {
    let (handler, count) = mirror();
    let served = Served::new(server, ServeLimits::default(), handler).await;
    let mut channel = transport(client).open(&served.member(host));
    let block = |length: usize, byte: u8| Bytes::from(vec![byte; length]);
    let requests = [
        Envelope::default(),
        small("question"),
        Envelope { control: block(7, 1), payloads: vec![block(0, 0), block(64, 2), block(4096, 3)] },
        Envelope { control: block(CONTROL_BYTES_MAX, 9), payloads: vec![block(3, 1); PAYLOADS_MAX] },
        Envelope { control: block(1, 1), payloads: vec![block(PAYLOADS_BYTES_MAX / 2, 7); 2] },
    ];
    for request in &requests {
        let mut answer = call(&mut *channel, request.clone()).await.expect("answered");
        answer.payloads.reverse();
        assert!(answer == *request, "an answer of {} bytes differs", answer.payload_bytes());
    }
    let error =
        call(&mut *channel, Envelope { control: block(CONTROL_BYTES_MAX + 1, 0), payloads: Vec::new() });
    assert!(matches!(error.await, Err(TransportError::Unreachable { .. })), "too long to be sent");
    assert_eq!(count.load(Ordering::SeqCst), requests.len());
    served.stop().await;
}

#[tokio::test]
async fn messages_of_every_length_arrive_in_the_clear() {
    exchanges(Security::Clear, Security::Clear, "127.0.0.1").await;
}

#[tokio::test]
async fn messages_of_every_length_arrive_with_tls() {
    let authority = Authority::new();
    let (one, other) = (authority.member("localhost"), authority.member("127.0.0.1"));
    exchanges(Security::Tls(one.clone()), Security::Tls(other), "127.0.0.1").await;
    exchanges(Security::Tls(one.clone()), Security::Tls(one), "localhost").await;
}

/// Whoever is not let in gets no answer, and the handler never hears of it.
#[track_caller]
fn refused(result: Result<Envelope, TransportError>, why: &str) {
    let Err(error @ TransportError::Unreachable { .. }) = result else {
        panic!("let in, or lost: {result:?}")
    };
    assert!(error.to_string().contains(why), "{error}");
}

async fn check_refused(client: Security, server: Security, host: &str, why: &str) {
    let (handler, count) = mirror();
    let served = Served::new(server, ServeLimits::default(), handler).await;
    let mut channel = transport(client).open(&served.member(host));
    refused(call(&mut *channel, small("let me in")).await, why);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    served.stop().await;
}

#[tokio::test]
async fn certificates_of_others_are_refused() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let us = Security::Tls(ours.member("127.0.0.1"));
    let them = Security::Tls(theirs.member("127.0.0.1"));
    check_refused(them.clone(), us.clone(), "127.0.0.1", "invalid peer certificate").await;
    // The right authority on the connecting side, so that only the answering side can see it.
    let mut spy = theirs.member("spy");
    spy.ca = ours.ca();
    let error = TcpTransport::new(&Security::Tls(spy)).err().expect("refused before it starts");
    assert!(error.to_string().contains("the authority did not sign it"), "{error}");
    check_refused(us.clone(), Security::Tls(ours.member("elsewhere")), "127.0.0.1", "not valid for name")
        .await;
    check_refused(Security::Clear, us.clone(), "127.0.0.1", "").await;
    check_refused(us, Security::Clear, "127.0.0.1", "").await;
}

/// A TLS client of the test's own: it presents what it likes.
async fn stranger(served: &Served, trusting: &Authority, own: Option<TlsOptions>) -> Vec<u8> {
    use rustls::pki_types::{PrivateKeyDer, ServerName, pem::PemObject};
    let mut roots = rustls::RootCertStore::empty();
    certificates::read(&trusting.ca()).into_iter().for_each(|ca| roots.add(ca).expect("a root"));
    let builder =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_file(&own.key).expect("a key");
            builder.with_client_auth_cert(certificates::read(&own.certificate), key).expect("they fit")
        }
    };
    let stream = TcpStream::connect(served.address).await.expect("connected");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    // Whether the refusal comes in the handshake or behind it is the protocol's version's business.
    let Ok(mut stream) = connector.connect(name, stream).await else { return Vec::new() };
    let mut bytes = Vec::new();
    let _ = stream.write_all(HELLO).await;
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("it is closed");
    bytes
}

#[tokio::test]
async fn clients_without_a_valid_certificate_are_not_even_greeted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (handler, count) = mirror();
    let limits = ServeLimits { idle: SHORT, ..ServeLimits::default() };
    let served = Served::new(Security::Tls(ours.member("127.0.0.1")), limits, handler).await;
    assert_eq!(stranger(&served, &ours, None).await, b"", "without a certificate");
    assert_eq!(stranger(&served, &ours, Some(theirs.member("spy"))).await, b"", "of another authority");
    assert_eq!(stranger(&served, &ours, Some(ours.expired("old"))).await, b"", "expired");
    // That this would find out if they were: a good one is greeted.
    assert_eq!(stranger(&served, &ours, Some(ours.member("good"))).await, HELLO, "valid");
    assert_eq!(count.load(Ordering::SeqCst), 0);
    served.stop().await;
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let good = ours.member("one");
    let check = |options: TlsOptions, file: &str, why: &str| {
        let error = TcpTransport::new(&Security::Tls(options)).err().expect("refused").to_string();
        assert!(error.contains(file) && error.contains(why) && !error.contains('\n'), "{error}");
    };
    let missing = ours.path("missing");
    check(TlsOptions { ca: missing.clone(), ..good.clone() }, "missing", "cluster.tls.ca names");
    check(
        TlsOptions { certificate: missing.clone(), ..good.clone() },
        "missing",
        "cluster.tls.certificate names",
    );
    check(TlsOptions { key: missing, ..good.clone() }, "missing", "cluster.tls.key names");
    check(TlsOptions { certificate: good.key.clone(), ..good.clone() }, "one-key", "no certificate is in it");
    check(
        TlsOptions { key: good.certificate.clone(), ..good.clone() },
        "one-certificate",
        "nothing of the kind",
    );
    check(TlsOptions { key: ours.member("two").key, ..good.clone() }, "two-key", "cluster.tls.key names");
    check(TlsOptions { ca: theirs.ca(), ..good }, "one-certificate", "the authority did not sign it");
    check(ours.expired("old"), "expired-certificate", "it is expired");
}

/// What is not a member's is closed, in time, and the others are not disturbed.
#[tokio::test]
async fn garbage_and_silence_are_closed() {
    let (handler, count) = mirror();
    let limits = ServeLimits { handshake: SHORT, message: SHORT, ..ServeLimits::default() };
    let served = Served::new(Security::Clear, limits, handler).await;
    let mut good = transport(Security::Clear).open(&served.member("127.0.0.1"));
    call(&mut *good, small("before")).await.expect("answered");

    let half = [&HELLO[..], &[0; 4], &9_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"half"].concat();
    let wrong = [&HELLO[..], &[1, 2, 3, 4], &0_u32.to_le_bytes(), &0_u32.to_le_bytes()].concat();
    let promise = [&HELLO[..], &[0; 4], &u32::MAX.to_le_bytes(), &0_u32.to_le_bytes()].concat();
    let cases: [(&[u8], &[u8], &str); 6] = [
        (b"", b"", "nothing"),
        (b"RING", b"", "half a hello"),
        (b"GET / HTTP/1.1\r\n\r\n", b"", "a browser"),
        (&half, HELLO, "half a message"),
        (&wrong, HELLO, "a wrong checksum"),
        (&promise, HELLO, "a control message without bound"),
    ];
    for (sent, answer, what) in cases {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        stream.write_all(sent).await.expect("sent");
        assert_eq!(end_of(&mut stream).await, answer, "{what}");
    }
    call(&mut *good, small("after")).await.expect("answered");
    assert_eq!(count.load(Ordering::SeqCst), 2);
    served.stop().await;
}

/// A connection that carries nothing is closed, and the channel makes a new one without an error.
#[tokio::test]
async fn a_channel_outlives_its_connections() {
    let (handler, _) = mirror();
    let limits = ServeLimits { idle: Duration::from_millis(20), ..ServeLimits::default() };
    let served = Served::new(Security::Clear, limits, handler).await;
    let mut channel = transport(Security::Clear).open(&served.member("127.0.0.1"));
    for _ in 0..3 {
        call(&mut *channel, small("again")).await.expect("answered");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let gone = served.member("127.0.0.1");
    served.stop().await;
    let error = call(&mut *channel, small("anybody?")).await.expect_err("nobody is there");
    assert!(
        matches!(&error, TransportError::Unreachable { address, .. } if *address == gone.address),
        "{error}"
    );
}

/// Answers of a dropped call are never taken for another one's, and requests come in the order of the calls.
#[tokio::test]
async fn a_dropped_call_breaks_its_connection() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&seen);
    let handler: Handler = Arc::new(move |envelope: Envelope| {
        heard.lock().expect("no panic before").push(envelope.control.clone());
        Box::pin(async move {
            if envelope.control == "slow" {
                tokio::time::sleep(SHORT).await;
            }
            envelope
        })
    });
    let served = Served::new(Security::Clear, ServeLimits::default(), handler).await;
    let mut channel = transport(Security::Clear).open(&served.member("127.0.0.1"));
    call(&mut *channel, small("first")).await.expect("answered");
    timeout(SHORT / 4, channel.call(small("slow"))).await.expect_err("too slow");
    assert_eq!(call(&mut *channel, small("next")).await.expect("answered"), small("next"));
    tokio::time::sleep(2 * SHORT).await;
    assert_eq!(call(&mut *channel, small("last")).await.expect("answered"), small("last"));
    assert_eq!(*seen.lock().expect("no panic before"), ["first", "slow", "next", "last"]);
    served.stop().await;
}

/// A server that dies in the middle of an answer: the request may have been seen.
#[tokio::test]
async fn an_answer_that_is_cut_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let server = tokio::spawn(async move {
        for answer in [&b""[..], b"\0\0\0", b"\x01\0\0\0\0\0\0\0\0\0\0\0", &[0xff; 20]] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.write_all(HELLO).await.expect("greeted");
            let mut request = [0; 8 + 12 + 5];
            stream.read_exact(&mut request).await.expect("a request");
            stream.write_all(answer).await.expect("cut");
        }
    });
    let mut channel = transport(Security::Clear).open(&Member { address, ..Member::default() });
    for _ in 0..4 {
        let error = call(&mut *channel, small("hello")).await.expect_err("cut");
        assert!(matches!(error, TransportError::Lost { .. }), "{error}");
    }
    server.await.expect("no panic");
}

/// Silent connections of one address are closed beyond their bound, and don't keep others waiting.
#[tokio::test]
async fn strangers_of_one_address_are_bounded() {
    let (handler, _) = mirror();
    let limits = ServeLimits { strangers_per_address_max: 2, ..ServeLimits::default() };
    let served = Served::new(Security::Clear, limits, handler).await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(served.address).await.expect("connected"));
    }
    assert_eq!(end_of(&mut silent[2]).await, b"", "one too many is closed");
    silent.truncate(1);
    let mut channel = transport(Security::Clear).open(&served.member("127.0.0.1"));
    let mut taken = call(&mut *channel, small("me too")).await;
    for _ in 0..100 {
        if taken.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        taken = call(&mut *channel, small("me too")).await;
    }
    taken.expect("a place became free");
    served.stop().await;
}

/// New files are used from the next connection on, without a new start; a broken one changes nothing.
#[tokio::test]
async fn new_certificates_are_used_without_a_new_start() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (handler, _) = mirror();
    let mut files = ours.member("127.0.0.1");
    files.ca = ours.path("server-ca");
    std::fs::copy(ours.ca(), &files.ca).expect("copied");
    let served = Served::new(Security::Tls(files.clone()), ServeLimits::default(), handler).await;
    let reaches = async |options: TlsOptions| {
        let mut channel = transport(Security::Tls(options)).open(&served.member("127.0.0.1"));
        call(&mut *channel, small("hello")).await.is_ok()
    };
    let (us, them) = (ours.member("us"), theirs.member("them"));
    assert!(reaches(us.clone()).await && !reaches(them.clone()).await);
    std::fs::write(&files.key, "no key at all").expect("written");
    assert!(reaches(us.clone()).await, "the ones from before stay in use");
    let new = theirs.member("127.0.0.1");
    for (from, to) in [(new.ca, &files.ca), (new.certificate, &files.certificate), (new.key, &files.key)] {
        std::fs::copy(from, to).expect("copied");
    }
    assert!(reaches(them).await && !reaches(us).await);
    served.stop().await;
}

/// Members beyond the bound are turned away, strangers beyond theirs wait: the first ones go on.
#[tokio::test]
async fn connections_are_bounded() {
    let (handler, _) = mirror();
    let limits =
        ServeLimits { connections_max: 2, strangers_max: 1, handshake: SHORT, ..ServeLimits::default() };
    let served = Served::new(Security::Clear, limits, handler).await;
    let _stranger = TcpStream::connect(served.address).await.expect("connected");
    let transport = transport(Security::Clear);
    let mut channels: Vec<_> = (0..3).map(|_| transport.open(&served.member("127.0.0.1"))).collect();
    for channel in &mut channels[..2] {
        call(&mut **channel, small("in")).await.expect("answered");
    }
    let error = call(&mut *channels[2], small("out")).await.expect_err("full");
    assert!(error.to_string().contains("closed"), "{error}");
    channels.remove(0);
    let mut taken = Err(error);
    for _ in 0..100 {
        taken = call(&mut *channels[1], small("now")).await;
        if taken.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    taken.expect("a place became free");
    call(&mut *channels[0], small("still")).await.expect("answered");
    served.stop().await;
}
