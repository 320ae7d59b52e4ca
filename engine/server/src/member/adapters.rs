//! The snapshots' and the gateway's ends in the words of the replicator, and the other way round. Nothing is decided here.

use gateway::Leadership;
use protocol::{Sequence, Term};
use replicator::{Lead, MemberId, SnapshotFolder};
use snapshots::SnapshotStore;

/// The snapshots that can be sent to others.
pub(super) struct Folder(pub(super) SnapshotStore);

impl SnapshotFolder for Folder {
    fn newest_first(&self) -> Vec<Sequence> {
        // A folder that can't be read has none to send; the engine's own snapshot thread complains of it.
        let mut all = self.0.list().unwrap_or_default();
        all.reverse();
        all
    }

    fn path(&self, sequence: Sequence) -> String {
        snapshots::snapshot_path(sequence)
    }
}

/// Leadership as clients see it.
#[derive(Debug)]
pub(super) struct Leads {
    pub(super) lead: Lead,
    pub(super) own: MemberId,
}

impl Leadership for Leads {
    fn term(&self) -> Option<Term> {
        // A login that is published sooner is dropped, and its client would wait for an answer.
        self.lead.open_term()
    }

    fn is_confirmed(&self) -> bool {
        self.lead.is_confirmed()
    }

    fn leader(&self) -> Option<String> {
        self.lead.leader().filter(|leader| leader.id != self.own).map(|leader| leader.client_address)
    }
}

#[cfg(test)]
mod tests {
    use replicator::{LeadState, Member};

    use super::*;

    #[test]
    fn clients_are_sent_to_another_leader_only() {
        let lead = Lead::new();
        let leads = Leads { lead: lead.clone(), own: MemberId(2) };
        let check = |term: Option<u64>, leader: Option<u64>, told: Option<&str>| {
            let member =
                |id| Member { id: MemberId(id), client_address: format!("m{id}:1"), ..Member::default() };
            lead.set(&LeadState { term: term.map(Term), leader: leader.map(member) });
            assert_eq!(leads.term(), None, "the proposer has not begun");
            lead.begin(term.map(Term));
            assert_eq!((leads.term(), leads.leader().as_deref()), (term.map(Term), told));
        };
        check(None, None, None);
        check(None, Some(1), Some("m1:1"));
        // It has just lost the leadership and does not know yet to whom.
        check(None, Some(2), None);
        check(Some(5), Some(2), None);
        assert!(!leads.is_confirmed());
    }
}
