//! What the consensus stands on, over real sockets.

mod certificates;
mod tcp;
