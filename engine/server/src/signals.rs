//! The signals that end a server: the first SIGTERM or SIGINT asks for a clean stop, the second ends the process at once
//! (the next start recovers as after a crash).

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit status of a process that was told twice.
const STATUS_TOLD_TWICE: i32 = 1;

/// Something that the main thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A signal asks for a clean stop.
    Stop(&'static str),
}

/// Starts listening; the first signal comes out of the receiver.
///
/// # Errors
/// The system's.
pub fn listen() -> io::Result<Receiver<Asked>> {
    let (asked, receiver) = channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (terminate, interrupt) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(watch(terminate, interrupt, asked)))?;
    Ok(receiver)
}

async fn watch(mut terminate: Signal, mut interrupt: Signal, asked: Sender<Asked>) {
    let name = next(&mut terminate, &mut interrupt).await;
    // Without a receiver the process is ending already.
    let _ = asked.send(Asked::Stop(name));
    let name = next(&mut terminate, &mut interrupt).await;
    tracing::warn!(signal = name, "told a second time: ending at once");
    std::process::exit(STATUS_TOLD_TWICE);
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
