//! Kill switches: rule 92.

use protocol::{AccountId, CancelReason, Command, KillTarget, OrderId, ParticipantId, RejectReason};

use super::order::Order;
use super::{Fault, Oracle, UNASKED};

impl Oracle {
    pub(super) fn kill(
        &mut self,
        command: &Command,
        target: KillTarget,
        on: bool,
    ) -> Result<(), RejectReason> {
        let is_known = match target {
            KillTarget::Venue => true,
            KillTarget::Participant(id) => self.accounts.of_participant(id).next().is_some(),
            KillTarget::Account(id) => self.accounts.registered.contains_key(&id),
        };
        if !is_known {
            return Err(RejectReason::UnknownAccount);
        }
        let changed = match target {
            KillTarget::Venue => std::mem::replace(&mut self.killed_venue, on) != on,
            KillTarget::Participant(id) if on => self.killed_participants.insert(id),
            KillTarget::Participant(id) => self.killed_participants.remove(&id),
            KillTarget::Account(id) if on => self.killed_accounts.insert(id),
            KillTarget::Account(id) => self.killed_accounts.remove(&id),
        };
        if changed {
            self.configured(command);
        }
        if !on {
            return Ok(());
        }
        let spares_waiting = self.is_faulty(Fault::KillSparesWaiting);
        let mut meant: Vec<(protocol::SessionId, OrderId)> = self
            .orders
            .values()
            .filter(|order| self.is_meant(order, target) && !(spares_waiting && order.is_waiting()))
            .map(|order| (order.session, order.order_id))
            .collect();
        meant.sort_unstable();
        for (_, id) in meant {
            self.cancel(id, CancelReason::KillSwitch, UNASKED);
        }
        Ok(())
    }

    fn is_meant(&self, order: &Order, target: KillTarget) -> bool {
        let account = self.accounts.registered.get(&order.account).filter(|_| order.tracked.is_some());
        match target {
            KillTarget::Venue => true,
            KillTarget::Account(id) => account.is_some() && order.account == id,
            KillTarget::Participant(id) => {
                account.is_some_and(|account| account.definition.participant == id)
                    || self.sessions[&order.session].participant == id
            }
        }
    }

    /// Whether orders of a registered account, or of anybody, are refused.
    pub(super) fn check_killed(&self, account: Option<AccountId>) -> Result<(), RejectReason> {
        let participant = account
            .and_then(|id| self.accounts.registered.get(&id))
            .map_or(ParticipantId(0), |account| account.definition.participant);
        let killed = self.killed_venue
            || account.is_some_and(|id| self.killed_accounts.contains(&id))
            || self.killed_participants.contains(&participant);
        if killed { Err(RejectReason::Killed) } else { Ok(()) }
    }
}
