//! Three members of a cluster on loopback, each a process of the real binary with its own folder. As in `harness`, all that
//! is started here is ended here, by its process id.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use protocol::UserName;
use rand::RngExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::passwords::Passwords;

use crate::harness::{PATIENCE, WHOLE_HISTORY, binary, plant_poison, ringpit, wait_for};
use crate::network::{self, Network};
use crate::tool::{Done, Job};

/// Members that a cluster is founded with; a test may add more.
const FOUNDERS: usize = 3;

/// A member's places.
pub(crate) struct Seat {
    pub(crate) id: usize,
    host: String,
    /// Its network namespace, where it has one of its own.
    namespace: Option<String>,
    folder: PathBuf,
    native: u16,
    members: u16,
    http: u16,
    child: Option<Child>,
    starts: usize,
}

/// Three members, some of which run.
pub(crate) struct Trio {
    /// Declared first: the members end before their network does.
    seats: Vec<Seat>,
    network: Option<Network>,
    _folder: tempfile::TempDir,
    toml: String,
    /// Quantity of the orders that break an invariant of members, where a test plants some.
    pub(crate) poison: Option<u64>,
}

/// Ports that nobody has now, below those that the system gives to outgoing connections: a member that is down for a moment
/// must find its own again. They are all held until all are known.
fn free_ports(count: usize) -> Vec<u16> {
    let mut held: Vec<TcpListener> = Vec::new();
    while held.len() < count {
        // One that somebody has is not taken.
        held.extend(TcpListener::bind(("127.0.0.1", rand::rng().random_range(20_000..32_000))));
    }
    held.iter().map(|listener| listener.local_addr().expect("a bound port").port()).collect()
}

/// The binary, in a network namespace or in that of the test.
fn within(namespace: Option<&str>) -> Command {
    match namespace {
        None => ringpit(),
        Some(namespace) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace]).arg(binary());
            command
        }
    }
}

impl Seat {
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(crate) fn native(&self) -> String {
        format!("{}:{}", self.host, self.native)
    }

    pub(crate) fn members(&self) -> String {
        format!("{}:{}", self.host, self.members)
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().expect("the member runs").id()
    }

    /// What its starts logged, the newest last.
    pub(crate) fn log(&self) -> String {
        let read = |start| fs::read_to_string(self.folder.join(format!("log-{start}"))).unwrap_or_default();
        (1..=self.starts).map(read).collect()
    }

    /// GET of its HTTP port; `None` where it doesn't answer.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        let address = format!("127.0.0.1:{}", self.http).parse().expect("an address");
        let get = || {
            let answer = server::http::client::request(address, "GET", path, None, "", PATIENCE).ok()?;
            Some((answer.status, answer.body))
        };
        match &self.namespace {
            None => get(),
            Some(namespace) => network::inside(namespace, get),
        }
    }

    /// What it says of the cluster; `None` where it doesn't answer, or is in none.
    pub(crate) fn cluster(&self) -> Option<Value> {
        let status: Value = serde_json::from_str(&self.get("/status")?.1).ok()?;
        status.get("cluster").filter(|cluster| cluster.is_object()).cloned()
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the member runs");
        kill_process(Pid::from_child(child), signal).expect("the signal is sent");
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that ended already can't be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM; it must end with success.
    #[track_caller]
    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        let code = self.ends();
        assert_eq!(code, Some(0), "member {}:\n{}", self.id, self.log());
    }

    /// Waits for it to end by itself; gives its exit status.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("the member runs");
        wait_for("the end of a member", || child.try_wait().expect("a child can be asked")).code()
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().expect("a child can be asked").is_none())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default();
            println!("member {} logged last:\n{}", self.id, last.join("\n"));
        }
        if let Some(child) = &self.child {
            // One that is paused can't be killed by its own signal handlers, but by this.
            let _ = kill_process(Pid::from_child(child), Signal::CONT);
        }
        self.kill();
    }
}

impl Trio {
    /// Three members that run, founded, with a leader.
    pub(crate) fn founded(durability: &str) -> Self {
        let mut trio = Self::new(durability, 3, WHOLE_HISTORY);
        trio.found();
        trio
    }

    /// Three members that run, each on a network of its own, founded, with a leader.
    pub(crate) fn founded_on(network: Network) -> Self {
        // The demonstration users are for loopback only.
        let folder = tempfile::Builder::new().prefix("ringpit-").tempdir().expect("a folder");
        let password = folder.path().join("operator");
        fs::write(&password, "operator\n").expect("the password is written");
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).expect("the file is ours");
        let open = format!(
            "{WHOLE_HISTORY}\n[gateway]\nallow_remote = true\n[users]\ndemonstration = false\noperator = \"admin\"\n\
             operator_password_file = \"{}\"\n[cluster]\nallow_clear_text = true\n",
            password.display()
        );
        let mut trio = Self::on(folder, Some(network), FOUNDERS, &open);
        trio.found();
        trio
    }

    pub(crate) fn network(&self) -> &Network {
        self.network.as_ref().expect("a network of its own")
    }

    /// Members of which none runs.
    pub(crate) fn new(durability: &str, count: usize, toml: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("ringpit-").tempdir().expect("a folder");
        let toml = format!("{toml}\n[cluster]\ndurability = \"{durability}\"\n");
        let trio = Self::on(folder, None, count, &toml);
        let names = ["demo", "demo2", "admin"].map(|name| UserName::new(name).expect("a name"));
        let passwords = Passwords::random(&names);
        for seat in &trio.seats {
            passwords.store(&seat.data()).expect("the passwords are written");
        }
        trio
    }

    fn on(folder: tempfile::TempDir, network: Option<Network>, count: usize, toml: &str) -> Self {
        let ports = free_ports(3 * count);
        let seats: Vec<Seat> = (1..=count)
            .map(|id| {
                let own = folder.path().join(format!("member-{id}"));
                fs::create_dir_all(own.join("data")).expect("a folder");
                let port = |place: usize| ports[3 * (id - 1) + place];
                let host =
                    network.as_ref().map_or_else(|| "127.0.0.1".to_owned(), |network| network.host(id));
                let namespace = network.as_ref().map(|network| network.namespace(id));
                Seat {
                    id,
                    host,
                    namespace,
                    folder: own,
                    native: port(0),
                    members: port(1),
                    http: port(2),
                    child: None,
                    starts: 0,
                }
            })
            .collect();
        let trio = Self { seats, network, _folder: folder, toml: toml.to_owned(), poison: None };
        for seat in &trio.seats {
            trio.configure(seat.id);
        }
        trio
    }

    /// The binary where clients are.
    fn client(&self) -> Command {
        let mut command = within(self.network.as_ref().map(Network::client).as_deref());
        if self.network.is_some() {
            command.env("RINGPIT_PASSWORD", "operator");
        }
        command
    }

    fn configure(&self, id: usize) {
        let seat = self.seat(id);
        let member = |seat: &Seat| {
            format!(
                "{{ id = {}, address = \"{}\", client_address = \"{}\" }}",
                seat.id,
                seat.members(),
                seat.native()
            )
        };
        let founders: Vec<String> = self.seats.iter().take(FOUNDERS).map(member).collect();
        let mut text = format!(
            "{}member = {id}\nlisten = \"{}\"\nclient_address = \"{}\"\n",
            self.toml,
            seat.members(),
            seat.native(),
        );
        if id <= FOUNDERS {
            text.push_str(&format!("members = [{}]\n", founders.join(", ")));
        }
        fs::write(seat.folder.join("ringpit.toml"), text).expect("the configuration is written");
    }

    pub(crate) fn seat(&self, id: usize) -> &Seat {
        &self.seats[id - 1]
    }

    pub(crate) fn seat_mut(&mut self, id: usize) -> &mut Seat {
        &mut self.seats[id - 1]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.seats.len()
    }

    /// Starts a member without waiting for anything.
    pub(crate) fn begin(&mut self, id: usize) {
        let poison = self.poison;
        let seat = self.seat_mut(id);
        assert!(seat.child.is_none(), "member {id} runs already");
        seat.starts += 1;
        let log = File::create(seat.folder.join(format!("log-{}", seat.starts))).expect("a log file");
        let mut command = within(seat.namespace.as_deref());
        plant_poison(&mut command, poison);
        command
            .args(["serve", "--http", &format!("127.0.0.1:{}", seat.http), "--listen", &seat.native()])
            .arg("--config")
            .arg(seat.folder.join("ringpit.toml"))
            .arg("--data")
            .arg(seat.data())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        seat.child = Some(command.spawn().expect("the binary starts"));
    }

    /// Starts a member and waits until it says what it is.
    pub(crate) fn start(&mut self, id: usize) {
        self.begin(id);
        wait_for("a member to answer", || {
            let seat = self.seat_mut(id);
            assert!(seat.runs(), "member {id} ended:\n{}", seat.log());
            seat.cluster()
        });
    }

    /// Starts the first three and founds their cluster.
    pub(crate) fn found(&mut self) {
        for id in 1..=FOUNDERS {
            self.start(id);
        }
        self.command(1, &["cluster", "init"]).finish().succeeded();
        self.leader();
        // The first leader makes the users.
        wait_for("the users", || (self.trade("admin", "").code == Some(0)).then_some(()));
    }

    /// Lets a demonstration user type some lines, wherever the leader is, and leave.
    pub(crate) fn trade(&self, user: &str, lines: &str) -> Done {
        self.trading(user, lines).finish()
    }

    /// As [`trade`](Self::trade), without waiting for the end.
    pub(crate) fn trading(&self, user: &str, lines: &str) -> Job {
        let mut command = self.client();
        command
            .args(["trade", "--connect", &self.addresses(), "--user", user])
            .arg("--data")
            .arg(self.seat(1).data());
        let mut job = Job::talking(command);
        job.say(&format!("{lines}\nquit\n"));
        job
    }

    /// A command on a member's data directory.
    pub(crate) fn command(&self, id: usize, arguments: &[&str]) -> Job {
        let mut command = within(self.seat(id).namespace.as_deref());
        command.args(arguments).arg("--data").arg(self.seat(id).data());
        Job::spawn(command)
    }

    /// The confirmed leader, if there is one now.
    pub(crate) fn leads(&self) -> Option<usize> {
        let running = self.seats.iter().filter(|seat| seat.child.is_some());
        running
            .filter(|seat| seat.get("/readyz").is_some_and(|(status, _)| status == 200))
            .map(|seat| seat.id)
            .next()
    }

    /// The confirmed leader, once there is one.
    #[track_caller]
    pub(crate) fn leader(&self) -> usize {
        wait_for("a leader", || self.leads())
    }

    /// All members' addresses for clients.
    pub(crate) fn addresses(&self) -> String {
        self.seats.iter().map(Seat::native).collect::<Vec<_>>().join(",")
    }

    /// The last frame of each member, once those of all that run are the same.
    #[track_caller]
    pub(crate) fn settled(&mut self) {
        wait_for("all members to have applied the same", || {
            let applied: Vec<_> = self
                .seats
                .iter()
                .filter(|seat| seat.child.is_some())
                .map(|seat| seat.cluster().map(|cluster| cluster["applied_index"].clone()))
                .collect();
            let first = applied.first()?.clone()?;
            applied.iter().all(|other| other.as_ref() == Some(&first)).then_some(())
        });
    }

    /// Ends all members in good order, the followers first so that nothing is left undecided.
    pub(crate) fn terminate(&mut self) {
        let leader = self.leads();
        for id in self.ids().filter(|id| Some(*id) != leader).chain(leader) {
            if self.seat_mut(id).runs() {
                self.seat_mut(id).terminate();
            }
        }
    }

    /// A load over all members, until it is told to end.
    pub(crate) fn load(&self, arguments: &[&str], outcomes: &Path) -> Job {
        let mut command = self.client();
        command
            .args(["load", "--connect", &self.addresses(), "--resend", "--json", "--outcomes"])
            .arg(outcomes)
            .args(arguments)
            .arg("--data")
            .arg(self.seat(1).data());
        Job::spawn(command)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self._folder.path().join(name)
    }

    /// Whether a member still doesn't vote.
    pub(crate) fn is_forgetful(&self, id: usize) -> bool {
        self.seat(id).cluster().is_none_or(|cluster| cluster["forgetful"] == true)
    }

    /// Waits until a member is as far as the leader is now, or nearly: under load nobody stands still.
    pub(crate) fn settled_roughly(&self, id: usize) {
        let leader = self.leader();
        let index = |id: usize| self.seat(id).cluster().and_then(|cluster| cluster["applied_index"].as_u64());
        let goal = wait_for("the leader's log", || index(leader));
        wait_for("a member to catch up", || index(id).filter(|index| *index >= goal));
    }

    /// Sleeps as long as a test's disturbance takes; no verdict depends on it.
    pub(crate) fn rest(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
