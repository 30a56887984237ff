//! Where every unfinished call stands: a trie of resources whose nodes hold the calls in order. A claim
//! is marked in full on its own node and as an intention on every node above it, so that a conflict with
//! anything above or below is found on one path from leaf to root. Knows nothing of waiting or waking.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Component;
use std::sync::Arc;

use crate::claim::{Access, Resource};

/// The place of a call in the order. The lower key goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Where the group of calls begins that is ordered among itself: a turn, or the call alone.
    pub(super) group: u64,
    pub(super) class: Class,
    /// Unique, rising with every call.
    pub(super) seq: u64,
    /// Where the call is stored; plays no part in the order because `seq` is unique.
    pub(super) slot: usize,
}

/// Which of the calls of a group go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    First,
    Second,
}

/// Whether a call still waits for its conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Running,
}

pub(super) type NodeId = usize;

/// One claim, as the node it stands on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) node: NodeId,
    pub(super) access: Access,
}

/// In what way a call is marked on a node.
#[derive(Clone, Copy)]
enum Mode {
    Read,
    Write,
    ReadBelow,
    WriteBelow,
}

const MODES: usize = 4;

const TOP: NodeId = 0;
const PATHS: NodeId = 1;
const COMMANDS: NodeId = 2;
const HOSTS: NodeId = 3;
const STATES: NodeId = 4;
const FIXED: usize = 5;

/// The arena keeps freed nodes for reuse; one this large is given back once nothing lives in it.
const KEPT_WHEN_EMPTY: usize = 1024;

/// The trie of everything that unfinished calls claim.
pub(super) struct Index {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
}

#[derive(Default)]
struct Node {
    parent: Option<NodeId>,
    /// The key under which the parent holds this node; shared with the parent's map.
    name: Option<Arc<OsStr>>,
    children: BTreeMap<Arc<OsStr>, NodeId>,
    waiting: [Keys; MODES],
    running: [Keys; MODES],
}

impl Index {
    pub(super) fn new() -> Self {
        Self { nodes: fixed_nodes(), free: Vec::new() }
    }

    /// The node of a resource, made if it is not there. A node that gets no mark afterwards would stay,
    /// so every call of this is followed by [`Index::place`].
    pub(super) fn node(&mut self, resource: &Resource) -> NodeId {
        match resource {
            Resource::Everything => TOP,
            Resource::Path(path) => {
                let mut node = PATHS;
                for component in path.as_path().components() {
                    match component {
                        Component::Normal(name) => node = self.child(node, name),
                        Component::Prefix(prefix) => node = self.child(node, prefix.as_os_str()),
                        Component::RootDir | Component::CurDir | Component::ParentDir => {}
                    }
                }
                node
            }
            Resource::Command(line) => self.child(COMMANDS, OsStr::new(line.text())),
            Resource::Host(host) => self.child(HOSTS, OsStr::new(host)),
            Resource::State(name) => self.child(STATES, OsStr::new(name.as_ref())),
        }
    }

    /// A node of its own, below and above nothing; lives until [`Index::remove_root`].
    pub(super) fn add_root(&mut self) -> NodeId {
        self.add(Node::default())
    }

    pub(super) fn remove_root(&mut self, node: NodeId) {
        self.nodes[node] = Node::default();
        self.recycle(node);
    }

    /// The latest call that a call at `key` with this claim must wait for: an earlier one, or one that
    /// already runs. The call itself must not be marked as running.
    pub(super) fn conflict(&self, mark: Mark, key: Key) -> Option<Key> {
        let (here, above): (&[Mode], &[Mode]) = match mark.access {
            Access::Read => (&[Mode::Write, Mode::WriteBelow], &[Mode::Write]),
            Access::Write => {
                (&[Mode::Read, Mode::Write, Mode::ReadBelow, Mode::WriteBelow], &[Mode::Read, Mode::Write])
            }
        };
        let mut found = self.nodes[mark.node].latest(here, key);
        let mut next = self.nodes[mark.node].parent;
        while let Some(node) = next {
            found = found.max(self.nodes[node].latest(above, key));
            next = self.nodes[node].parent;
        }
        found
    }

    pub(super) fn place(&mut self, mark: Mark, key: Key, state: State) {
        let mut next = Some(mark.node);
        let (mut mode, above) = modes(mark.access);
        while let Some(id) = next {
            let node = &mut self.nodes[id];
            node.keys(state, mode).add(key);
            mode = above;
            next = node.parent;
        }
    }

    /// Takes a mark back and prunes the nodes on which nothing stands any more.
    pub(super) fn unplace(&mut self, mark: Mark, key: Key, state: State) {
        let mut next = Some(mark.node);
        let (mut mode, above) = modes(mark.access);
        while let Some(id) = next {
            let node = &mut self.nodes[id];
            node.keys(state, mode).remove(key);
            mode = above;
            next = node.parent;
            if let Some(parent) = next
                && id >= FIXED
                && node.is_unmarked()
            {
                // Whatever is marked below has an intention here, so an unmarked node has no children.
                let name = node.name.take();
                node.parent = None;
                if let Some(name) = name {
                    self.nodes[parent].children.remove(&name);
                }
                self.recycle(id);
            }
        }
    }

    /// The mark goes from the waiting to the running ones.
    pub(super) fn start(&mut self, mark: Mark, key: Key) {
        let mut next = Some(mark.node);
        let (mut mode, above) = modes(mark.access);
        while let Some(id) = next {
            let node = &mut self.nodes[id];
            node.keys(State::Waiting, mode).remove(key);
            node.keys(State::Running, mode).add(key);
            mode = above;
            next = node.parent;
        }
    }

    pub(super) fn is_unmarked(&self, node: NodeId) -> bool {
        self.nodes[node].is_unmarked()
    }

    fn child(&mut self, parent: NodeId, name: &OsStr) -> NodeId {
        if let Some(&child) = self.nodes[parent].children.get(name) {
            return child;
        }
        let name: Arc<OsStr> = name.into();
        let child = self.add(Node { parent: Some(parent), name: Some(name.clone()), ..Node::default() });
        self.nodes[parent].children.insert(name, child);
        child
    }

    fn add(&mut self, node: Node) -> NodeId {
        match self.free.pop() {
            Some(id) => {
                self.nodes[id] = node;
                id
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }

    fn recycle(&mut self, node: NodeId) {
        self.free.push(node);
        if self.nodes.len() > KEPT_WHEN_EMPTY && self.live() == 0 {
            self.free = Vec::new();
            self.nodes.truncate(FIXED);
            self.nodes.shrink_to_fit();
        }
    }

    /// How many nodes there are besides the fixed ones.
    pub(super) fn live(&self) -> usize {
        self.nodes.len() - FIXED - self.free.len()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.live() == 0
            && self.nodes[..FIXED].iter().all(|node| node.is_unmarked())
            && self.nodes[PATHS..FIXED].iter().all(|node| node.children.is_empty())
    }
}

impl Node {
    fn keys(&mut self, state: State, mode: Mode) -> &mut Keys {
        match state {
            State::Waiting => &mut self.waiting[mode as usize],
            State::Running => &mut self.running[mode as usize],
        }
    }

    fn latest(&self, modes: &[Mode], key: Key) -> Option<Key> {
        modes.iter().fold(None, |found, mode| {
            found.max(self.waiting[*mode as usize].last_before(key)).max(self.running[*mode as usize].last())
        })
    }

    fn is_unmarked(&self) -> bool {
        self.waiting.iter().chain(&self.running).all(|keys| matches!(keys, Keys::None))
    }
}

/// An ordered set that counts how often a key was added, since one call may claim two places below one
/// folder. Most nodes hold one call, and one call needs no allocation.
#[derive(Default)]
enum Keys {
    #[default]
    None,
    One(Key, u32),
    /// Never empty.
    Many(BTreeMap<Key, u32>),
}

impl Keys {
    fn add(&mut self, key: Key) {
        match self {
            Keys::None => *self = Keys::One(key, 1),
            Keys::One(held, count) if *held == key => *count += 1,
            Keys::One(held, count) => *self = Keys::Many(BTreeMap::from([(*held, *count), (key, 1)])),
            Keys::Many(counts) => *counts.entry(key).or_default() += 1,
        }
    }

    fn remove(&mut self, key: Key) {
        match self {
            Keys::None => {}
            Keys::One(held, count) if *held == key => {
                *count -= 1;
                if *count == 0 {
                    *self = Keys::None;
                }
            }
            Keys::One(..) => {}
            Keys::Many(counts) => {
                if let Some(count) = counts.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        counts.remove(&key);
                    }
                }
                if counts.is_empty() {
                    *self = Keys::None;
                }
            }
        }
    }

    fn last(&self) -> Option<Key> {
        match self {
            Keys::None => None,
            Keys::One(key, _) => Some(*key),
            Keys::Many(counts) => counts.last_key_value().map(|(key, _)| *key),
        }
    }

    fn last_before(&self, limit: Key) -> Option<Key> {
        match self {
            Keys::None => None,
            Keys::One(key, _) => (*key < limit).then_some(*key),
            Keys::Many(counts) => counts.range(..limit).next_back().map(|(key, _)| *key),
        }
    }
}

/// How a claim is marked on its own node, and on those above.
fn modes(access: Access) -> (Mode, Mode) {
    match access {
        Access::Read => (Mode::Read, Mode::ReadBelow),
        Access::Write => (Mode::Write, Mode::WriteBelow),
    }
}

fn fixed_nodes() -> Vec<Node> {
    (0..FIXED).map(|id| Node { parent: (id != TOP).then_some(TOP), ..Node::default() }).collect()
}
