//! The signals that end a server: the first SIGTERM or SIGINT asks for a clean stop, the second ends the process at once
//! (the next start recovers as after a crash). Before orders are taken there is nothing to drain, and the first one ends
//! the process.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::oversight::{Oversight, Phase};

/// Exit status of a process that was told twice.
const STATUS_TOLD_TWICE: i32 = 1;

/// Something that the main thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A signal asks for a clean stop.
    Stop(&'static str),
    /// A snapshot of the cluster has arrived: stop, and start again from it.
    Restart,
}

/// Starts listening; a first signal that comes while orders are taken goes to `asked`.
///
/// # Errors
/// The system's.
pub fn listen(oversight: Arc<Oversight>, asked: Sender<Asked>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (terminate, interrupt) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(watch(terminate, interrupt, &oversight, asked)))?;
    Ok(())
}

async fn watch(mut terminate: Signal, mut interrupt: Signal, oversight: &Oversight, asked: Sender<Asked>) {
    let name = next(&mut terminate, &mut interrupt).await;
    if oversight.phase() < Phase::Serving {
        tracing::info!(signal = name, "asked to stop before orders were taken");
        std::process::exit(0);
    }
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
