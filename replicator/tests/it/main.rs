//! The members' messages over real sockets; and members of a cluster in one process: real consensus, a network in memory,
//! fake disks, and time that only moves when everybody waits.

mod certificates;
mod disks;
mod elections;
mod forgetting;
mod membership;
mod rig;
mod tcp;
mod transfers;
