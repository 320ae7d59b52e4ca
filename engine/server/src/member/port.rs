//! The port to the other members, and who is told when leadership changes. Both live on the consensus's runtime.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use replicator::Cluster;
use replicator::tcp::{Handler, ServeLimits, TcpTransport, serve};
use ring::WakeSet;
use tokio::sync::oneshot;

use crate::oversight::Oversight;

/// The open port of a member. Dropped, it closes.
pub(super) struct MembersPort {
    stop: oneshot::Sender<()>,
}

impl MembersPort {
    /// Serves the other members on the consensus's runtime, which then needs no other thread to answer.
    pub(super) fn open(
        listener: TcpListener,
        transport: TcpTransport,
        cluster: &Cluster,
    ) -> io::Result<Self> {
        let runtime = cluster.runtime().ok_or_else(|| io::Error::other("the consensus has ended"))?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let cluster = cluster.clone();
        let handler: Handler = Arc::new(move |envelope| cluster.handle(envelope));
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(serve(listener, transport, ServeLimits::default(), handler, async {
            // Closed or dropped: it ends either way.
            let _ = stopped.await;
        }));
        Ok(Self { stop })
    }

    /// Closes the port and all its connections.
    pub(super) fn close(self) {
        // The receiver is gone if the consensus has ended.
        let _ = self.stop.send(());
    }
}

/// Wakes the proposer and the clients' connections whenever leadership changes.
pub(super) fn watch_leadership(cluster: &Cluster, proposer: WakeSet, oversight: Arc<Oversight>) {
    let lead = cluster.lead();
    let mut changes = lead.changes();
    let Some(runtime) = cluster.runtime() else { return };
    runtime.spawn(async move {
        while changes.changed().await.is_ok() {
            proposer.wake();
            oversight.leadership_changed();
            match (lead.term(), lead.leader()) {
                (Some(_), _) if lead.open_term().is_none() => {}
                (Some(_), _) => tracing::info!("this member leads"),
                (None, Some(leader)) => {
                    tracing::info!(leader = leader.id.0, "another member leads, or is about to")
                }
                (None, None) => tracing::info!("no leader is known"),
            }
        }
    });
}
