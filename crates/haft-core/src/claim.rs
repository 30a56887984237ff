//! Claims: the resources that a call reads and writes, declared before it runs. Permissions, sandbox and scheduler all
//! use them. Knows nothing of tools or of how a claim was found.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use haft_sandbox::AbsPath;

/// A resource that a call can read or write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// A file or folder, and everything below it.
    Path(AbsPath),
    /// A shell command.
    Command(CommandLine),
    /// A network host.
    Host(String),
    /// A named part of the session's own state, such as `todos`.
    State(Cow<'static, str>),
    /// Everything: the claim of a call about which nothing better is known.
    Everything,
}

impl Resource {
    /// Whether access to one resource may affect the other.
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

/// A shell command, with the result of its analysis. Commands are equal if their texts are.
#[derive(Clone)]
pub struct CommandLine {
    text: Arc<str>,
    dir: Option<AbsPath>,
    understood: Option<Arc<dyn Any + Send + Sync>>,
}

impl CommandLine {
    /// A command that was not analysed.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), dir: None, understood: None }
    }

    /// Attaches the result of an analysis, so that judges need not analyse the command again.
    pub fn with_analysis<T: Any + Send + Sync>(mut self, understood: Arc<T>) -> Self {
        self.understood = Some(understood);
        self
    }

    /// Sets the folder in which the command starts.
    pub fn in_dir(mut self, dir: AbsPath) -> Self {
        self.dir = Some(dir);
        self
    }

    /// The folder in which the command starts, if that is known.
    pub fn dir(&self) -> Option<&AbsPath> {
        self.dir.as_ref()
    }

    /// The text of the command.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The result of the analysis, if one of type `T` is attached.
    pub fn analysis<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
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

/// Whether a claim reads or writes its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The call reads the resource.
    Read,
    /// The call may change the resource.
    Write,
}

/// The resources that a call may read and write. Two calls conflict if their claims overlap and one of them writes.
///
/// ```
/// use haft_core::{AbsPath, Claims, Resource};
///
/// let path = |path: &str| Resource::Path(AbsPath::lexical(path.as_ref()));
/// let search = Claims::none().read(path("/project"));
/// let edit = Claims::none().write(path("/project/src/main.rs"));
/// assert!(search.conflict(&edit).is_some());
/// assert!(search.conflict(&search).is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(Vec<(Access, Resource)>);

impl Claims {
    /// No claims: the call conflicts with no other.
    pub fn none() -> Self {
        Self::default()
    }

    /// A claim to write everything: the call conflicts with every other.
    pub fn everything() -> Self {
        Self::none().write(Resource::Everything)
    }

    /// Adds a resource that the call reads.
    pub fn read(mut self, resource: Resource) -> Self {
        self.0.push((Access::Read, resource));
        self
    }

    /// Adds a resource that the call may change.
    pub fn write(mut self, resource: Resource) -> Self {
        self.0.push((Access::Write, resource));
        self
    }

    /// The claims, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (Access, &Resource)> {
        self.0.iter().map(|(access, resource)| (*access, resource))
    }

    /// Whether no claim writes.
    pub fn is_read_only(&self) -> bool {
        self.0.iter().all(|(access, _)| *access == Access::Read)
    }

    /// The first resource of these claims that conflicts with the other claims, if any.
    pub fn conflict(&self, other: &Claims) -> Option<&Resource> {
        self.0.iter().find_map(|(access, resource)| {
            other
                .0
                .iter()
                .any(|(other_access, other_resource)| {
                    (*access == Access::Write || *other_access == Access::Write)
                        && resource.overlaps(other_resource)
                })
                .then_some(resource)
        })
    }
}
