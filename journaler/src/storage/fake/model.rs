//! What a disk holds, and what of it survives a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{SECTOR_BYTES, parent};

pub(super) type InodeId = u64;

/// One change of the disk, as a program asked for it.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Create { path: String, inode: InodeId },
    MakeFolder { path: String },
    Rename { from: String, to: String, inode: InodeId },
    Remove { path: String },
    RemoveFolder { path: String },
    Write { inode: InodeId, offset: u64, bytes: Arc<[u8]> },
    Allocate { inode: InodeId, length: u64 },
    SyncData { inode: InodeId },
    SyncDir { path: String },
    Note(u64),
}

/// Names and contents at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pub(super) names: BTreeMap<String, InodeId>,
    pub(super) folders: BTreeSet<String>,
    contents: BTreeMap<InodeId, Arc<Vec<u8>>>,
}

impl Image {
    pub(super) fn next_inode(&self) -> InodeId {
        self.contents.keys().chain(self.names.values()).max().map_or(1, |last| last + 1)
    }

    pub(super) fn content(&self, inode: InodeId) -> &[u8] {
        self.contents.get(&inode).map_or(&[], |content| content)
    }

    fn content_mut(&mut self, inode: InodeId) -> &mut Vec<u8> {
        Arc::make_mut(self.contents.entry(inode).or_default())
    }

    /// Bytes in all files that have a name.
    pub(super) fn bytes(&self) -> u64 {
        self.names.values().map(|inode| self.content(*inode).len() as u64).sum()
    }

    /// Turns over a bit and says whether there is such a byte.
    pub(super) fn flip(&mut self, path: &str, offset: u64, bit: u8) -> bool {
        let Some(inode) = self.names.get(path).copied() else { return false };
        match self.content_mut(inode).get_mut(offset as usize) {
            Some(byte) => *byte ^= 1 << bit,
            None => return false,
        }
        true
    }

    fn write(&mut self, inode: InodeId, offset: u64, bytes: &[u8]) {
        let content = self.content_mut(inode);
        let start = (offset as usize).min(content.len());
        let end = (offset as usize + bytes.len()).min(content.len());
        content[start..end].copy_from_slice(&bytes[..end - start]);
    }

    fn grow(&mut self, inode: InodeId, length: u64) {
        let content = self.content_mut(inode);
        if content.len() < length as usize {
            content.resize(length as usize, 0);
        }
    }

    /// Shows an operation at once, as the page cache does.
    pub(super) fn see(&mut self, operation: &Operation) {
        match operation {
            Operation::Write { inode, offset, bytes } => {
                self.grow(*inode, offset + bytes.len() as u64);
                self.write(*inode, *offset, bytes);
            }
            Operation::Allocate { inode, length } => self.grow(*inode, *length),
            Operation::SyncData { .. } | Operation::SyncDir { .. } | Operation::Note(_) => {}
            named => self.rename(named),
        }
    }

    /// Carries out an operation on names.
    fn rename(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { path, inode } => {
                self.names.insert(path.clone(), *inode);
            }
            Operation::Rename { from, to, inode } => {
                if self.names.get(from) == Some(inode) {
                    self.names.remove(from);
                }
                self.names.insert(to.clone(), *inode);
            }
            Operation::Remove { path } => {
                self.names.remove(path);
            }
            Operation::MakeFolder { path } => {
                self.folders.insert(path.clone());
            }
            Operation::RemoveFolder { path } => {
                self.folders.remove(path);
            }
            _ => {}
        }
    }

    /// Drops names and folders whose folder is gone, and contents without a name.
    fn sweep(&mut self) {
        let mut reachable = BTreeSet::new();
        // A folder sorts before those in it.
        for folder in std::mem::take(&mut self.folders) {
            if parent(&folder).is_empty() || reachable.contains(parent(&folder)) {
                reachable.insert(folder);
            }
        }
        self.folders = reachable;
        let folders = &self.folders;
        self.names.retain(|name, _| parent(name).is_empty() || folders.contains(parent(name)));
        let used: BTreeSet<InodeId> = self.names.values().copied().collect();
        self.contents.retain(|inode, _| used.contains(inode));
    }
}

/// A change that no sync has covered.
#[derive(Clone, Debug)]
enum Unit {
    Length { inode: InodeId, length: u64 },
    Sector { inode: InodeId, offset: u64, bytes: Arc<[u8]> },
    Name { folder: String, operation: Operation },
}

/// The durable state and what may or may not become durable.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) durable: Image,
    pending: Vec<Unit>,
}

impl Model {
    pub(super) fn new(durable: Image) -> Self {
        Self { durable, pending: Vec::new() }
    }

    /// Number of changes that may survive or not, each for itself.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn carry_out(&mut self, operation: &Operation) {
        match operation {
            Operation::Write { inode, offset, bytes } => self.write(*inode, *offset, bytes),
            Operation::Allocate { inode, length } => {
                self.pending.push(Unit::Length { inode: *inode, length: *length });
            }
            Operation::SyncData { inode } => self.settle(|unit| match unit {
                Unit::Length { inode: of, .. } | Unit::Sector { inode: of, .. } => of == inode,
                Unit::Name { .. } => false,
            }),
            Operation::SyncDir { path } => {
                self.settle(|unit| matches!(unit, Unit::Name { folder, .. } if folder == path));
            }
            Operation::Note(_) => {}
            Operation::Create { path, .. }
            | Operation::MakeFolder { path }
            | Operation::Remove { path }
            | Operation::RemoveFolder { path }
            | Operation::Rename { to: path, .. } => {
                self.pending
                    .push(Unit::Name { folder: parent(path).to_owned(), operation: operation.clone() });
            }
        }
    }

    fn write(&mut self, inode: InodeId, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let longest = self.pending.iter().filter_map(|unit| match unit {
            Unit::Length { inode: of, length } if *of == inode => Some(*length),
            _ => None,
        });
        let length = longest.max().unwrap_or(0).max(self.durable.content(inode).len() as u64);
        if end > length {
            self.pending.push(Unit::Length { inode, length: end });
        }
        let mut at = offset;
        while at < end {
            let sector_end = (at / SECTOR_BYTES as u64 + 1) * SECTOR_BYTES as u64;
            let piece = &bytes[(at - offset) as usize..(sector_end.min(end) - offset) as usize];
            // Writing what is there already makes no other state, whether it survives or not.
            if !self.already_there(inode, at, piece) {
                self.pending.push(Unit::Sector { inode, offset: at, bytes: piece.into() });
            }
            at = sector_end.min(end);
        }
    }

    fn already_there(&self, inode: InodeId, offset: u64, bytes: &[u8]) -> bool {
        let end = offset + bytes.len() as u64;
        let touched = self.pending.iter().any(|unit| match unit {
            Unit::Sector { inode: of, offset: at, bytes } => {
                *of == inode && *at < end && offset < *at + bytes.len() as u64
            }
            _ => false,
        });
        let content = self.durable.content(inode);
        let there = content.get((offset as usize).min(content.len())..(end as usize).min(content.len()));
        let there = there.unwrap_or_default();
        !touched && there == &bytes[..there.len()] && bytes[there.len()..].iter().all(|byte| *byte == 0)
    }

    fn settle(&mut self, mut covered: impl FnMut(&Unit) -> bool) {
        for unit in std::mem::take(&mut self.pending) {
            if covered(&unit) {
                apply(&mut self.durable, &unit);
            } else {
                self.pending.push(unit);
            }
        }
    }

    /// The disk after a power cut, `keep` choosing by number which pending changes survive.
    pub(super) fn survivors(&self, keep: &mut dyn FnMut(usize) -> bool) -> Image {
        let mut image = self.durable.clone();
        let mut kept: Vec<&Unit> =
            self.pending.iter().enumerate().filter(|(place, _)| keep(*place)).map(|(_, unit)| unit).collect();
        // A file's length first: a sector behind a lost length is lost.
        kept.sort_by_key(|unit| !matches!(unit, Unit::Length { .. }));
        for unit in kept {
            apply(&mut image, unit);
        }
        image.sweep();
        image
    }
}

fn apply(image: &mut Image, unit: &Unit) {
    match unit {
        Unit::Length { inode, length } => image.grow(*inode, *length),
        Unit::Sector { inode, offset, bytes } => image.write(*inode, *offset, bytes),
        Unit::Name { operation, .. } => image.rename(operation),
    }
}
