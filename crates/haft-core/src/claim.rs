//! What a call reads and writes, said before it runs. Permissions, the sandbox and the schedule all read
//! the same claims. Knows nothing of tools or of how a claim was found.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use haft_sandbox::AbsPath;

/// Something that a call can read or write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// A file or folder, and everything below it.
    Path(AbsPath),
    /// A command for a shell.
    Command(CommandLine),
    /// A network host.
    Host(String),
    /// A named part of the session's own state, such as `todos`.
    State(Cow<'static, str>),
    /// Everything there is: what a call claims when nothing better is known.
    Everything,
}

impl Resource {
    /// Whether touching one may touch the other.
    pub fn overlaps(&self, other: &Resource) -> bool {
        match (self, other) {
            (Resource::Everything, _) | (_, Resource::Everything) => true,
            (Resource::Path(a), Resource::Path(b)) => a.is_within(b) || b.is_within(a),
            (a, b) => a == b,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Path(path) => path.fmt(f),
            Resource::Command(line) => f.write_str(line.text()),
            Resource::Host(host) => f.write_str(host),
            Resource::State(name) => f.write_str(name),
            Resource::Everything => f.write_str("everything"),
        }
    }
}

/// A command for a shell, and what was understood of it. Two are the same if their texts are.
#[derive(Clone)]
pub struct CommandLine {
    text: Arc<str>,
    understood: Option<Arc<dyn Any + Send + Sync>>,
}

impl CommandLine {
    /// A command of which nothing was understood yet.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), understood: None }
    }

    /// With what was understood of it, for judges that can read it, so that they need not understand it again.
    pub fn understood<T: Any + Send + Sync>(mut self, understood: Arc<T>) -> Self {
        self.understood = Some(understood);
        self
    }

    /// What the shell is told.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What was understood of it, if it was by somebody who left a `T`.
    pub fn meaning<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.understood.clone()?.downcast().ok()
    }
}

impl PartialEq for CommandLine {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CommandLine {}

impl Hash for CommandLine {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// How a resource is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Looked at.
    Read,
    /// Changed.
    Write,
}

/// Everything a call may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(Vec<(Access, Resource)>);

impl Claims {
    /// A call that touches nothing: it conflicts with no other call.
    pub fn none() -> Self {
        Self::default()
    }

    /// A call of which nothing is known: it conflicts with every other call.
    pub fn everything() -> Self {
        Self::none().write(Resource::Everything)
    }

    /// Adds something that is looked at.
    pub fn read(mut self, resource: Resource) -> Self {
        self.0.push((Access::Read, resource));
        self
    }

    /// Adds something that is changed.
    pub fn write(mut self, resource: Resource) -> Self {
        self.0.push((Access::Write, resource));
        self
    }

    /// The claims, in the order they were made.
    pub fn iter(&self) -> impl Iterator<Item = (Access, &Resource)> {
        self.0.iter().map(|(access, resource)| (*access, resource))
    }

    /// Whether nothing is changed.
    pub fn is_read_only(&self) -> bool {
        self.0.iter().all(|(access, _)| *access == Access::Read)
    }

    /// The resource of these claims over which the two calls may not run at once, if there is one.
    pub fn conflict(&self, other: &Claims) -> Option<&Resource> {
        self.0.iter().find_map(|(mine, resource)| {
            other
                .0
                .iter()
                .any(|(theirs, elsewhere)| {
                    (*mine == Access::Write || *theirs == Access::Write) && resource.overlaps(elsewhere)
                })
                .then_some(resource)
        })
    }
}
