//! The clients' connections: packets that arrive in order after a time, until the connection ends. It must not change a packet.

use std::collections::VecDeque;

use crate::client::Act;
use crate::edge::{Given, ToClient, ToServer};
use crate::member::Process;
use crate::world::World;

/// A client's connection.
pub(crate) struct Wire {
    pub(crate) client: usize,
    pub(crate) member: u64,
    pub(crate) to_server: VecDeque<(u64, ToServer)>,
    pub(crate) to_client: VecDeque<(u64, ToClient)>,
    /// The client knows that it is over. What is left is for a member that is paused: its kernel keeps that.
    over: bool,
}

impl World {
    pub(crate) fn give(&mut self, given: Vec<Given>) {
        for (number, packet) in given.into_iter().flat_map(|given| given.to_clients) {
            let at = self.now + 1 + self.random.below(2);
            let Some(wire) = self.wires.get_mut(&number) else { continue };
            let at = wire.to_client.back().map_or(at, |(last, _)| at.max(*last));
            wire.to_client.push_back((at, packet));
        }
    }

    pub(crate) fn step_clients(&mut self) {
        let now = self.now;
        let mut acts: Vec<(usize, Act)> = Vec::new();
        for (number, wire) in self.wires.iter_mut().filter(|(_, wire)| !wire.over) {
            while wire.to_client.front().is_some_and(|(at, _)| *at <= now)
                && let Some((_, packet)) = wire.to_client.pop_front()
            {
                if matches!(packet, ToClient::Closed) {
                    wire.over = true;
                    wire.to_server.retain(|(_, packet)| matches!(packet, ToServer::Close));
                }
                let Some(client) = self.clients.get_mut(wire.client) else { continue };
                let mut own = Vec::new();
                if let Some(sequence) = client.take(now, *number, packet, &mut own) {
                    self.promises.acknowledged(sequence);
                }
                acts.extend(own.into_iter().map(|act| (wire.client, act)));
            }
        }
        self.wires.retain(|_, wire| !wire.over || !wire.to_server.is_empty());
        let members: Vec<u64> = self.seats.keys().copied().collect();
        for (place, client) in self.clients.iter_mut().enumerate() {
            let own = client.step(now, &members, self.promises.acknowledged_sequence());
            acts.extend(own.into_iter().map(|act| (place, act)));
        }
        for (client, act) in acts {
            self.act(client, act);
        }
    }

    fn act(&mut self, client: usize, act: Act) {
        match act {
            Act::Connect { member, login } => {
                self.wires_made += 1;
                let number = self.wires_made;
                let mut wire = Wire {
                    client,
                    member,
                    to_server: VecDeque::new(),
                    to_client: VecDeque::new(),
                    over: false,
                };
                let up = self
                    .seats
                    .get(&member)
                    .is_some_and(|seat| matches!(seat.process, Some(Process::Member(_))));
                if up {
                    wire.to_server.push_back((self.now + 1 + self.random.below(3), login));
                } else {
                    wire.to_client.push_back((self.now + 2, ToClient::Closed));
                }
                self.wires.insert(number, wire);
                if let Some(client) = self.clients.get_mut(client) {
                    client.connected(number);
                }
            }
            Act::Send { wire, packet } => self.send(wire, packet),
            Act::Hang { wire } => {
                self.send(wire, ToServer::Close);
                if let Some(wire) = self.wires.get_mut(&wire) {
                    wire.to_client.clear();
                }
            }
        }
    }

    fn send(&mut self, wire: u64, packet: ToServer) {
        let at = self.now + 1 + self.random.below(3);
        let Some(wire) = self.wires.get_mut(&wire) else { return };
        let at = wire.to_server.back().map_or(at, |(last, _)| at.max(*last));
        wire.to_server.push_back((at, packet));
    }

    /// A client's connection breaks: what is on its way is lost, and only the server learns of it at once.
    pub(crate) fn break_a_wire(&mut self) {
        let live = self.wires.iter().filter(|(_, wire)| !wire.over);
        let numbers: Vec<u64> = live.map(|(number, _)| *number).collect();
        if numbers.is_empty() {
            return;
        }
        let number = *self.random.pick(&numbers);
        if let Some(wire) = self.wires.get_mut(&number) {
            wire.to_client.clear();
            wire.to_server.clear();
            wire.to_server.push_back((self.now + 1, ToServer::Close));
            wire.to_client.push_back((self.now + 20, ToClient::Closed));
        }
    }
}
