//! A member's start up to its open journal: who it is, whether a snapshot arrived, and whether it may have lost something
//! that it once acknowledged. It must not start anything.

use journaler::storage::Lock;
use journaler::{Durability, Journal, JournalOptions, Recovery, SharedStorage};
use protocol::Sequence;

use super::record::{RecordError, RecordFile};
use super::snapshot::{self, InstallError};
use crate::member::MemberId;

/// Why a member can't start from its data directory.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Its own file.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A snapshot that arrived.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// Another process has it.
    #[error("the data directory is in use by {}", .holder.map_or("another process".to_owned(), |id| format!("process {id}")))]
    Locked {
        /// Its process id, if it is known.
        holder: Option<u32>,
    },
    /// It can't be locked.
    #[error("the data directory can't be locked: {0}")]
    Lock(#[source] std::io::Error),
    /// It is another member's.
    #[error(
        "the data directory is member {found}'s, the configuration says member {configured}: a wrong data directory?"
    )]
    OtherMember {
        /// As the directory has it.
        found: MemberId,
        /// As the configuration has it.
        configured: MemberId,
    },
    /// It was copied.
    #[error(
        "the data directory is a copy of member {member}'s: two of them would vote twice. Start the original, or wipe this \
         one and let the cluster fill it; if the original is gone for good, `ringpit cluster adopt` makes this one the member"
    )]
    Copied {
        /// Whose.
        member: MemberId,
    },
}

/// How a member starts.
pub enum Start {
    /// It is in no cluster yet.
    Blank,
    /// It is in one.
    Member(Box<Prepared>),
}

/// A member that is in a cluster, before its journal is open.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) record: RecordFile,
    installed: Option<Sequence>,
}

/// Looks at a data directory. `place` tells a directory from a copy of it; with `adopt` another place is taken for good.
///
/// # Errors
/// [`PrepareError`].
pub fn prepare(
    storage: &SharedStorage,
    member: MemberId,
    journal: &JournalOptions,
    place: u64,
    adopt: bool,
) -> Result<Start, PrepareError> {
    match storage.lock("lock").map_err(PrepareError::Lock)? {
        // Only looked at: the journal takes it for good.
        Lock::Held(guard) => drop(guard),
        Lock::Taken { holder } => return Err(PrepareError::Locked { holder }),
    }
    let Some(mut record) = RecordFile::open(storage)? else { return Ok(Start::Blank) };
    let found = record.record().member;
    if found != member {
        return Err(PrepareError::OtherMember { found, configured: member });
    }
    let known = record.record().place;
    if known != place {
        if known != 0 && !adopt {
            return Err(PrepareError::Copied { member });
        }
        // A copy may be older than what its original acknowledged and voted since.
        let copied = known != 0;
        record.change(|record| {
            record.place = place;
            record.forgetful |= copied;
            record.vote_forgotten |= copied;
        })?;
    }
    let journal = JournalOptions { cluster_id: record.record().cluster, ..journal.clone() };
    let installed = snapshot::finish_install(storage, &journal, &mut record)?;
    Ok(Start::Member(Box::new(Prepared { record, installed })))
}

impl Prepared {
    /// The cluster that the data directory belongs to.
    #[must_use]
    pub fn cluster(&self) -> u128 {
        self.record.record().cluster
    }

    /// The snapshot that arrived and was put in place, if one did.
    #[must_use]
    pub fn installed(&self) -> Option<Sequence> {
        self.installed
    }

    /// Judges from the open journal whether the member may have lost something, and remembers that it runs.
    ///
    /// # Errors
    /// The member's own file can't be written.
    pub fn judge(
        &mut self,
        journal: &Journal,
        recovery: &Recovery,
        durability: Durability,
        boot: &str,
    ) -> Result<Option<String>, RecordError> {
        let record = self.record.record();
        let lost = if !recovery.cut.is_empty() {
            Some("the end of its log was torn and cut".to_owned())
        } else if journal.index() < record.last_index_min {
            Some(format!(
                "its log ends at entry {}, and once reached {}",
                journal.index(),
                record.last_index_min
            ))
        } else if durability == Durability::Memory
            && record.boot != boot
            && !record.boot.is_empty()
            && !recovery.clean_stop
        {
            Some("at durability `memory`, and the machine was started anew".to_owned())
        } else {
            None
        };
        let (index, boot) = (journal.index(), boot.to_owned());
        let forgetful = lost.is_some();
        self.record.change(|record| {
            record.boot = boot;
            record.forgetful |= forgetful;
            record.last_index_min = index;
        })?;
        Ok(lost)
    }
}
