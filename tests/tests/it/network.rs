//! A network of the test's own: a namespace for each member and one for the clients, with a bridge between them. Nothing of
//! it is left behind, and nothing outside it is touched.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// Namespaces of one cluster.
pub(crate) struct Network {
    prefix: String,
    members: usize,
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Runs `work` on a thread that is in a namespace.
pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let namespace = File::open(format!("/run/netns/{namespace}")).expect("the namespace is there");
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("a test that made a namespace may enter it");
            work()
        });
        thread.join().expect("the work is done")
    })
}

impl Network {
    /// A network of so many members; an error where this process may not make one.
    pub(crate) fn new(members: usize) -> Result<Self, String> {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let network = Self { prefix: format!("ringpit-{}-{number}", std::process::id()), members };
        let client = network.client();
        ip(&["netns", "add", &client])?;
        ip(&["-n", &client, "link", "set", "lo", "up"])?;
        ip(&["-n", &client, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", &client, "addr", "add", "10.77.0.254/24", "dev", "bridge"])?;
        ip(&["-n", &client, "link", "set", "bridge", "up"])?;
        for id in 1..=members {
            let (namespace, port) = (network.namespace(id), format!("port{id}"));
            ip(&["netns", "add", &namespace])?;
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            ip(&[
                "-n", &client, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns",
                &namespace,
            ])?;
            ip(&["-n", &client, "link", "set", &port, "master", "bridge"])?;
            ip(&["-n", &client, "link", "set", &port, "up"])?;
            ip(&["-n", &namespace, "addr", "add", &format!("{}/24", network.host(id)), "dev", "eth0"])?;
            ip(&["-n", &namespace, "link", "set", "eth0", "up"])?;
        }
        Ok(network)
    }

    pub(crate) fn client(&self) -> String {
        format!("{}-clients", self.prefix)
    }

    pub(crate) fn namespace(&self, id: usize) -> String {
        format!("{}-{id}", self.prefix)
    }

    pub(crate) fn host(&self, id: usize) -> String {
        format!("10.77.0.{id}")
    }

    /// Nothing that `from` sends to `to` arrives any more.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        let target = format!("{}/32", self.host(to));
        ip(&["-n", &self.namespace(from), "route", "replace", "blackhole", &target]).expect("a way is cut");
    }

    /// All ways are open again.
    pub(crate) fn heal(&self) {
        for from in 1..=self.members {
            for to in 1..=self.members {
                // Most were not cut.
                let target = format!("{}/32", self.host(to));
                let _ = ip(&["-n", &self.namespace(from), "route", "del", "blackhole", &target]);
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for id in 1..=self.members {
            // One that was not made can't be removed.
            let _ = ip(&["netns", "del", &self.namespace(id)]);
        }
        let _ = ip(&["netns", "del", &self.client()]);
    }
}
