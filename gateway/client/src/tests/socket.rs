//! The client over loopback, against the fake venue on a thread.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::Client;

/// Serves one connection after the other; after each `requests_a_connection` requests the connection is cut.
fn serve(listener: &TcpListener, stop: &AtomicBool, requests_a_connection: usize) -> Venue {
    let mut venue = Venue::new(5);
    listener.set_nonblocking(true).expect("a listener");
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut socket, _)) = listener.accept() else {
            std::thread::yield_now();
            continue;
        };
        let connection = venue.connect("venue").expect("it is up");
        socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
        let mut left = requests_a_connection;
        let mut buffer = [0; 4096];
        while left > 0 && !venue.has_closed(connection) && !stop.load(Ordering::Relaxed) {
            let count = match socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(_) => 0,
            };
            left = left.saturating_sub(count / 40);
            venue.receive(connection, &buffer[..count]);
            venue.process(usize::MAX);
            let output = venue.take_output(connection, usize::MAX);
            if socket.write_all(&output).is_err() {
                break;
            }
        }
        venue.closed(connection);
        venue.process(usize::MAX);
    }
    venue
}

#[test]
fn a_client_gets_every_outcome_over_cut_connections() {
    const REQUESTS: usize = 3_000;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let stop = AtomicBool::new(false);
    let (venue, outcomes, submitted) = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &stop, 500));
        let config = ClientConfig { addresses: vec![address], ..config(256) };
        let mut client = Client::connect(config, Duration::from_secs(20)).expect("a login");
        let mut outcomes = BTreeMap::new();
        let mut submitted = Vec::new();
        while outcomes.len() < REQUESTS {
            while submitted.len() < REQUESTS {
                match client.submit(request(submitted.len() as u64 + 1)) {
                    Ok(id) => submitted.push(id),
                    Err(_) => break,
                }
            }
            client
                .poll(Duration::from_millis(50), |event| {
                    if let ClientEvent::Outcome(id, outcome) = event {
                        assert_eq!(outcomes.insert(id, outcome), None);
                    }
                })
                .expect("the client goes on");
        }
        stop.store(true, Ordering::Relaxed);
        (server.join().expect("the venue"), outcomes, submitted)
    });
    let mut rig = Rig::new(config(1), venue);
    (rig.outcomes, rig.submitted) = (outcomes, submitted);
    rig.check();
}

#[test]
fn nobody_listening_is_an_error_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let config = ClientConfig { addresses: vec![address.clone()], ..config(1) };
    match Client::connect(config, Duration::from_millis(60)) {
        Err(crate::ClientError::Unreachable { address: tried, .. }) => assert_eq!(tried, address),
        other => panic!("{other:?}"),
    }
}

/// The kernel accepts connections for a process that is stopped.
#[test]
fn a_member_that_accepts_and_is_silent_is_left_for_the_next() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
    let addresses = vec![address(&silent), address(&listener)];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &stop, 500));
        let ClientConfig { user, password, .. } = config(1);
        let config = ClientConfig::members(addresses.clone(), user, password);
        let mut client =
            Client::connect(config, Duration::from_secs(8)).expect("the limit of a login is longer");
        let mut told = Vec::new();
        client.poll(Duration::ZERO, |event| told.push(event)).expect("it goes on");
        assert!(told.contains(&ClientEvent::Disconnected(ConnectionLoss::LoginTimeout)), "{told:?}");
        let is_there = |event: &ClientEvent| matches!(event, ClientEvent::LoggedIn(login) if login.address == addresses[1]);
        assert!(told.iter().any(is_there), "{told:?}");
        stop.store(true, Ordering::Relaxed);
    });
}
