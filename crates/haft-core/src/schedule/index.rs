//! The index of claims: a trie of resources whose nodes hold the calls in order. It works like the intention locks of a
//! database: a claim is marked in full on its own node and as an intention on every node above it, so that a conflict
//! with anything above or below is found on one path from leaf to root. Knows nothing of waiting or waking.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Component;
use std::sync::Arc;

use crate::claim::{Access, Resource};

/// The position of a call in the order. The lower key goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The first sequence number of the group of calls that `class` orders: a turn, or the call alone.
    pub(super) group: u64,
    pub(super) class: Class,
    /// Unique, rising with every call.
    pub(super) seq: u64,
    /// The index of the call's entry; irrelevant for the order because `seq` is unique.
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

/// A claim as a node of the trie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) node: NodeId,
    pub(super) access: Access,
}

/// How a call is marked on a node: a claim of the node itself, or an intention for a claim below it.
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

/// Freed nodes are reused. An arena larger than this is deallocated once it is empty.
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

    /// The node of a resource, created if it does not exist. Only [`Index::remove`] prunes nodes, so every call of this
    /// must be followed by [`Index::insert`].
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

    /// A node without parent and children; it lives until [`Index::remove_root`].
    pub(super) fn add_root(&mut self) -> NodeId {
        self.add(Node::default())
    }

    pub(super) fn remove_root(&mut self, node: NodeId) {
        self.nodes[node] = Node::default();
        self.recycle(node);
    }

    /// The latest call that a call at `key` with this claim must wait for: an earlier one, or one that already runs. The
    /// call itself must not be marked as running.
    ///
    /// On the claim's own node, full marks and intentions conflict: an intention stands for a claim below. On the nodes
    /// above, only full marks do: an intention there may be for a sibling.
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

    /// Marks a claim on its node, and its intention on every node above.
    pub(super) fn insert(&mut self, mark: Mark, key: Key, state: State) {
        let mut next = Some(mark.node);
        let (mut mode, above) = modes(mark.access);
        while let Some(id) = next {
            let node = &mut self.nodes[id];
            node.keys(state, mode).add(key);
            mode = above;
            next = node.parent;
        }
    }

    /// Removes a mark, and prunes the nodes that have no marks left.
    pub(super) fn remove(&mut self, mark: Mark, key: Key, state: State) {
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
                // A mark below has an intention here, so an unmarked node has no children.
                let name = node.name.take();
                node.parent = None;
                if let Some(name) = name {
                    self.nodes[parent].children.remove(&name);
                }
                self.recycle(id);
            }
        }
    }

    /// Moves a mark from waiting to running.
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

    /// The number of nodes in use besides the fixed ones.
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

/// An ordered multiset of keys, since one call may claim two paths below one folder. Most nodes hold one call, which
/// needs no allocation.
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

/// The mode of a claim on its own node, and of its intentions on the nodes above.
fn modes(access: Access) -> (Mode, Mode) {
    match access {
        Access::Read => (Mode::Read, Mode::ReadBelow),
        Access::Write => (Mode::Write, Mode::WriteBelow),
    }
}

fn fixed_nodes() -> Vec<Node> {
    (0..FIXED).map(|id| Node { parent: (id != TOP).then_some(TOP), ..Node::default() }).collect()
}
