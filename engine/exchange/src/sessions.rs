//! Users and their sessions: the live connection, the rising series of request ids, the count of reports, the list of
//! live orders, and the timers of cancel-on-disconnect. It doesn't decide what a request may do.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use protocol::{
    ConnectionId, Recipient, ReportNumber, RequestId, Role, SessionId, Timestamp, UserDefinition, UserName,
};

use crate::arena::{Arena, Handle};
use crate::directory::Directory;
use crate::throttle::Controls;

/// Place of the server's own session.
pub(crate) const SYSTEM: u32 = 0;

/// A session. What every request touches comes first, in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The live connection.
    pub(crate) connection: Option<ConnectionId>,
    /// Highest request id used; never falls.
    pub(crate) highest_request_id: RequestId,
    /// Number of the last report of the trading day.
    pub(crate) last_report: u64,
    /// The oldest live order.
    pub(crate) oldest: Handle,
    /// The youngest live order.
    pub(crate) youngest: Handle,
    pub(crate) open_orders: u32,
    /// It has a participant or a throttle: its requests never take the plain path.
    pub(crate) controlled: bool,
    /// Whether it may have orders: observers and the server itself may not.
    pub(crate) trades: bool,
    pub(crate) controls: Controls,
    /// When its orders are canceled unless it logs in before; mirrored in [`Sessions::timers`].
    deadline: Option<Timestamp>,
    /// `None` for the server's own session.
    pub(crate) user: Option<UserDefinition>,
}

impl Session {
    fn new(id: SessionId, user: Option<UserDefinition>) -> Self {
        Self {
            id,
            connection: None,
            highest_request_id: RequestId(0),
            last_report: 0,
            oldest: Handle::NONE,
            youngest: Handle::NONE,
            open_orders: 0,
            controlled: false,
            controls: Controls::default(),
            trades: user.is_some_and(|user| user.role != Role::Observer),
            deadline: None,
            user,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.user.is_none_or(|user| user.role == Role::Operator)
    }
}

const _: () = assert!(offset_of!(Session, controls) <= 64, "what every request touches is one cache line");

/// All sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: Vec<Session>,
    places: Directory,
    names: BTreeMap<UserName, u32>,
    timers: BTreeSet<(Timestamp, u32)>,
    /// The first timer, or the end of time.
    next_deadline: Timestamp,
}

impl Sessions {
    /// With the server's own session.
    pub(crate) fn new() -> Self {
        let mut places = Directory::default();
        places.insert(SessionId::SYSTEM.0, SYSTEM);
        Self {
            table: vec![Session::new(SessionId::SYSTEM, None)],
            places,
            names: BTreeMap::new(),
            timers: BTreeSet::new(),
            next_deadline: Timestamp(u64::MAX),
        }
    }

    #[inline]
    pub(crate) fn place(&self, id: SessionId) -> Option<u32> {
        self.places.get(id.0)
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Session {
        &self.table[place as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Session {
        &mut self.table[place as usize]
    }

    /// Users; the server's own session is none.
    pub(crate) fn users(&self) -> u32 {
        self.table.len() as u32 - 1
    }

    /// Places in the order of session ids, the server's own first.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.places.places()
    }

    /// Number of sessions, the server's own included.
    pub(crate) fn len(&self) -> u32 {
        self.table.len() as u32
    }

    pub(crate) fn by_name(&self, name: &UserName) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// Adds a user whose session and name are new.
    pub(crate) fn add(&mut self, user: UserDefinition) -> u32 {
        let place = self.table.len() as u32;
        self.places.insert(user.session.0, place);
        self.names.insert(user.name, place);
        self.table.push(Session::new(user.session, Some(user)));
        place
    }

    /// The next report number of a session.
    #[inline]
    pub(crate) fn report(&mut self, place: u32) -> Recipient {
        let session = &mut self.table[place as usize];
        session.last_report += 1;
        Recipient { session: session.id, number: ReportNumber(session.last_report) }
    }

    /// Sets or stops the timer of a session.
    pub(crate) fn set_deadline(&mut self, place: u32, deadline: Option<Timestamp>) {
        let session = &mut self.table[place as usize];
        let id = session.id.0;
        if let Some(before) = std::mem::replace(&mut session.deadline, deadline) {
            self.timers.remove(&(before, id));
        }
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, id));
        }
        self.next_deadline = self.timers.first().map_or(Timestamp(u64::MAX), |(deadline, _)| *deadline);
    }

    /// When the next timer is due, or the end of time.
    #[inline]
    pub(crate) fn next(&self) -> Timestamp {
        self.next_deadline
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }

    /// Stops and names the first session whose time has come; earlier timers and then lower sessions first.
    #[inline]
    pub(crate) fn take_due(&mut self, log_time: Timestamp) -> Option<u32> {
        if log_time < self.next_deadline {
            return None;
        }
        let (deadline, id) = *self.timers.first()?;
        if log_time < deadline {
            return None;
        }
        let place = self.places.get(id)?;
        self.set_deadline(place, None);
        Some(place)
    }

    /// Puts an order at the young end of its session's list.
    #[inline]
    pub(crate) fn adopt(&mut self, orders: &mut Arena, session: u32, handle: Handle) {
        debug_assert!(orders.get(handle).session == session);
        let session = &mut self.table[session as usize];
        let older = session.youngest;
        session.youngest = handle;
        session.open_orders += 1;
        if older.is_none() {
            session.oldest = handle;
        } else {
            orders.links_mut(older).younger = handle;
        }
        let links = orders.links_mut(handle);
        links.older = older;
        links.younger = Handle::NONE;
    }

    /// Takes an order out of its session's list.
    #[inline]
    pub(crate) fn disown(&mut self, orders: &mut Arena, handle: Handle) {
        let session = &mut self.table[orders.get(handle).session as usize];
        let links = *orders.links(handle);
        session.open_orders -= 1;
        if links.older.is_none() {
            session.oldest = links.younger;
        } else {
            orders.links_mut(links.older).younger = links.younger;
        }
        if links.younger.is_none() {
            session.youngest = links.older;
        } else {
            orders.links_mut(links.younger).older = links.older;
        }
    }
}
