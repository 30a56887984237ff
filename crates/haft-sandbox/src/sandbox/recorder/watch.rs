//! Serving notifications: before a call goes on, the old side of all that it is about to change is kept. It only ever reads
//! the workspace, and answers every notification, whatever goes wrong.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use rustix::fs::{CWD, Mode};

use super::calls::{self, Named, Op};
use super::keep::{self, Keep};
use super::model::{Area, Fact, Id, Kept, Meta, Model};
use super::notify::{Answer, Notification, Task};
use super::place::{DIRECTORY, Place, path_of_fd};
use super::resolve::{self, Target};
use super::{IsBuildFolder, Options};

/// Longest wait for calls in progress around one that moves a directory or a link.
const MAX_WAIT: Duration = Duration::from_micros(500);
/// A call that went on longer ago than this is assumed to be done.
const IN_FLIGHT: Duration = Duration::from_millis(20);

/// Keeps the old side of changes.
pub(super) struct Watch {
    pub(super) model: Model,
    keep: Keep,
    pub(super) is_build_folder: IsBuildFolder,
    deny: Option<super::Deny>,
    pub(super) roots: Vec<(PathBuf, Rc<OwnedFd>, Id)>,
    /// Directories of the workspace, in haft's own view, with their paths.
    pub(super) open: HashMap<Id, (Rc<OwnedFd>, PathBuf)>,
    /// Files that may have reached a name by a call that was let go on, until it is looked at again.
    arriving: HashMap<(Id, OsString), Vec<Id>>,
    /// The last call of each task that was let go on.
    in_flight: HashMap<u32, InFlight>,
    /// The name that the call at hand is about to write to.
    writing: Option<(Id, OsString)>,
    /// A name that leads elsewhere after the call at hand, and what has it now.
    reshaping: Option<(Rc<OwnedFd>, OsString, Option<Id>)>,
    /// The build folder that each directory in one belongs to.
    pub(super) build_folders: HashMap<Id, PathBuf>,
}

/// A call that was let go on.
struct InFlight {
    call: i64,
    since: Instant,
    writing: Option<(Id, OsString)>,
}

impl Watch {
    /// What was learned, and the lock on what was kept.
    pub(super) fn into_parts(self) -> (Model, Option<OwnedFd>) {
        (self.model, self.keep.into_lock())
    }

    pub(super) fn new(options: Options) -> io::Result<Self> {
        let keep = Keep::new(&options.store, options.limits);
        let mut model = Model::new(now());
        let mut roots = Vec::new();
        for path in options.roots {
            let fd = rustix::fs::openat(CWD, &path, DIRECTORY, Mode::empty())?;
            let Some(meta) = Meta::of(&fd, OsStr::new(""))? else { continue };
            model.learn(Fact::Root(path.clone().into_os_string(), meta.id));
            roots.push((path, Rc::new(fd), meta.id));
        }
        // A folder inside another one comes first.
        roots.sort_by_key(|(path, ..)| std::cmp::Reverse(path.as_os_str().len()));
        let (is_build_folder, deny) = (options.is_build_folder, options.deny);
        Ok(Self {
            model,
            keep,
            is_build_folder,
            deny,
            roots,
            open: HashMap::new(),
            arriving: HashMap::new(),
            in_flight: HashMap::new(),
            writing: None,
            reshaping: None,
            build_folders: HashMap::new(),
        })
    }

    /// Keeps what a call is about to change. `is_valid` tells whether its task still waits.
    pub(super) fn handle(&mut self, call: &Notification, is_valid: impl Fn() -> bool) -> Answer {
        self.in_flight.remove(&call.pid);
        let answer = match calls::decode(call) {
            Ok(op) if is_valid() => self.perform(&Task::new(call), &op),
            Ok(_) => Answer::Continue,
            Err(error) => {
                // A bad address makes the call fail, too, and a task that has died makes none.
                if !matches!(error.raw_os_error(), Some(libc::EFAULT | libc::ESRCH | libc::ENAMETOOLONG))
                    && error.kind() != io::ErrorKind::InvalidInput
                {
                    self.lose(Path::new("?"), format!("the path of a call could not be read: {error}"));
                }
                Answer::Continue
            }
        };
        if let Err(error) = self.model.flush(|| self.keep.make_log()) {
            self.model.lost.insert(PathBuf::from("?"), format!("the record could not be written: {error}"));
        }
        if answer == Answer::Continue {
            let writing = self.writing.take();
            self.in_flight.insert(call.pid, InFlight { call: call.call, since: Instant::now(), writing });
            if self.in_flight.len() > 1024 {
                self.in_flight.retain(|_, call| call.since.elapsed() < IN_FLIGHT);
            }
        }
        answer
    }

    fn perform(&mut self, task: &Task<'_>, op: &Op) -> Answer {
        match op {
            Op::Nothing => {}
            Op::Write { file, creates } => {
                let Some(place) = self.place(task, file) else { return Answer::Continue };
                if place.meta.is_none() && *creates && self.is_denied(&place) {
                    return Answer::Fail(libc::EACCES);
                }
                if place.meta.is_some_and(|meta| !meta.is_file()) {
                    return Answer::Continue;
                }
                if place.meta.is_some() || *creates {
                    let found = self.note(&place);
                    self.keep_arriving(&place);
                    if let Some(id) = found {
                        self.keep_content(&place, &id);
                    }
                    self.writing = Some((place.dir, place.name));
                }
            }
            Op::Create { name, is_link } => {
                let Some(place) = self.place(task, name) else { return Answer::Continue };
                if place.meta.is_none() {
                    if self.is_denied(&place) {
                        return Answer::Fail(libc::EACCES);
                    }
                    self.note(&place);
                    if *is_link {
                        self.wait_for_writer(task.call.pid, &place);
                        self.reshaping = Some((place.fd, place.name, None));
                    }
                }
            }
            Op::Remove(name) => {
                if let Some(place) = self.place(task, name).filter(|place| place.meta.is_some()) {
                    self.note_going(&place);
                }
            }
            Op::Rename { from, to, exchanges } => return self.rename(task, from, to, *exchanges),
            Op::Link { from, to } => {
                let Some(to) = self.place(task, to).filter(|to| to.meta.is_none()) else {
                    return Answer::Continue;
                };
                if self.is_denied(&to) {
                    return Answer::Fail(libc::EACCES);
                }
                self.note_target(&to);
                if let Some(from) = self.place(task, from) {
                    // What is written by the new name is written by the old one, too.
                    let found = self.note(&from);
                    self.wait_for_writer(task.call.pid, &to);
                    if let (Some(id), Some(meta)) = (found, from.meta.filter(Meta::is_file)) {
                        self.keep_link(&from, &id, &meta);
                    }
                    self.note_arriving(&from, &to);
                }
            }
            Op::Attributes(file) => {
                if let Some(place) = self.place(task, file).filter(|place| place.meta.is_some()) {
                    self.note(&place);
                }
            }
            Op::Xattrs(file) => {
                if let Some(place) = self.place(task, file).filter(|place| place.meta.is_some())
                    && let Some(id) = self.note(&place)
                    && self.model.inodes.get(&id).is_some_and(|info| info.xattrs.is_none())
                {
                    self.model.learn(Fact::Xattrs(id, keep::xattrs(&place.fd, &place.name)));
                }
            }
        }
        Answer::Continue
    }

    fn rename(&mut self, task: &Task<'_>, from: &Named, to: &Named, exchanges: bool) -> Answer {
        let target = self.place(task, to);
        let Some(source) = self.place(task, from) else {
            // What comes from outside makes its name like a new file.
            if let Some(target) = target {
                if target.meta.is_none() && self.is_denied(&target) {
                    return Answer::Fail(libc::EACCES);
                }
                self.note_going(&target);
            }
            return Answer::Continue;
        };
        let Some(meta) = source.meta else { return Answer::Continue };
        let reshapes = !meta.is_file()
            || target.as_ref().and_then(|target| target.meta).is_some_and(|meta| !meta.is_file());
        if reshapes {
            self.wait_for_others(task.call.pid);
            self.reshaping = Some((source.fd.clone(), source.name.clone(), Some(meta.id)));
        }
        match &target {
            None => {
                self.note_going(&source);
                let is_outside = match resolve::resolve(task, to) {
                    Ok(Target::Name(dir, _)) => Meta::of(&dir, OsStr::new("")).is_ok_and(|dir| {
                        dir.is_some_and(|dir| dir.is_dir() && dir.id.device == source.dir.device)
                    }),
                    _ => false,
                };
                if is_outside && meta.is_dir() && self.original(&source).is_some() {
                    let why = "it was moved out of the workspace".to_owned();
                    self.model.learn(Fact::Kept(meta.id, Kept::Lost(why)));
                }
            }
            Some(target) => {
                if target.meta.is_none() && self.is_denied(target) {
                    return Answer::Fail(libc::EACCES);
                }
                self.wait_for_writer(task.call.pid, target);
                if exchanges {
                    self.wait_for_writer(task.call.pid, &source);
                }
                self.note_going(&source);
                self.note_going(target);
                self.note_target(target);
                self.note_arriving(&source, target);
                if exchanges {
                    self.note_target(&source);
                    self.note_arriving(target, &source);
                }
            }
        }
        Answer::Continue
    }

    /// Waits until a call that moves a directory or a link is done, so that later paths are followed as they will be. A call
    /// that fails shows nothing, so the wait is short.
    pub(super) fn after_answer(&mut self) {
        let Some((dir, name, id)) = self.reshaping.take() else { return };
        let start = Instant::now();
        while start.elapsed() < MAX_WAIT && Meta::of(&dir, &name).is_ok_and(|now| now.map(|now| now.id) == id)
        {
            std::thread::yield_now();
        }
    }

    /// Waits, for a short time, until the calls that were let go on are done.
    fn wait_for_others(&mut self, pid: u32) {
        let until = Instant::now() + MAX_WAIT;
        self.in_flight.retain(|_, call| call.since.elapsed() < IN_FLIGHT);
        for (other, call) in self.in_flight.iter().filter(|(other, _)| **other != pid) {
            wait_for(*other, call.call, until);
        }
        self.in_flight.retain(|other, _| *other == pid);
    }

    /// Waits, for a short time, until a call is done that writes to a name which is about to be another file's.
    fn wait_for_writer(&self, pid: u32, place: &Place) {
        let until = Instant::now() + MAX_WAIT;
        let is_here = |slot: &(Id, OsString)| slot.0 == place.dir && slot.1 == place.name;
        for (other, call) in &self.in_flight {
            if *other != pid && call.writing.as_ref().is_some_and(is_here) && call.since.elapsed() < IN_FLIGHT
            {
                wait_for(*other, call.call, until);
            }
        }
    }

    fn is_denied(&self, place: &Place) -> bool {
        self.deny.as_ref().is_some_and(|deny| {
            let dir = path_of_fd(&place.fd).unwrap_or_default();
            deny(&dir.join(&place.name))
        })
    }

    fn lose(&mut self, path: &Path, why: String) {
        if !self.model.lost.contains_key(path) {
            self.model.learn(Fact::Lost(path.as_os_str().to_owned(), why));
        }
    }

    /// The file that has a name, if it was there before the command.
    fn original(&self, place: &Place) -> Option<Id> {
        let id = place.meta?.id;
        self.model.is_original(&place.dir, &place.name, &id).then_some(id)
    }

    /// Notes that a name is about to change. Returns the file that has it, if that was there before the command.
    fn note(&mut self, place: &Place) -> Option<Id> {
        if place.area == Area::Build {
            let folder = self.build_folders.get(&place.dir).cloned().unwrap_or_default();
            *self.model.builds.entry(folder).or_default() += 1;
            return None;
        }
        let found = self.original(place);
        if let Some(id) = &found {
            self.note_inode(place, id);
        }
        if self.model.dirs.get(&place.dir).is_some_and(|dir| dir.is_original) {
            self.note_target(place);
        }
        found
    }

    /// Notes that a name may be that of a file from elsewhere.
    fn note_target(&mut self, place: &Place) {
        if place.area != Area::Build && !self.model.is_touched(&place.dir, &place.name) {
            let was = self.original(place);
            self.model.learn(Fact::Slot(place.dir, place.name.clone(), was));
        }
    }

    fn note_inode(&mut self, place: &Place, id: &Id) {
        let Some(meta) = place.meta else { return };
        if meta.is_dir() {
            let path = self.path_of(place);
            self.note_dir(id, &place.dir, &place.name, &path);
        }
        if self.model.inodes.contains_key(id) {
            return;
        }
        let mut target = OsString::new();
        if meta.is_link()
            && let Ok(found) = rustix::fs::readlinkat(&place.fd, &place.name, Vec::new())
        {
            target = OsStr::from_bytes(found.as_bytes()).to_owned();
        }
        self.model.learn(Fact::Inode(meta, target));
    }

    /// Notes that a name is about to go, and keeps its file.
    fn note_going(&mut self, place: &Place) {
        let found = self.note(place);
        let (Some(id), Some(meta)) = (found, place.meta) else { return };
        if meta.is_dir() || meta.is_link() {
            return;
        }
        self.keep_link(place, &id, &meta);
    }

    fn keep_link(&mut self, place: &Place, id: &Id, meta: &Meta) {
        let Some(info) = self.model.inodes.get(id) else { return };
        // A copy is enough where the number of the file, once it is free, is not mistaken for its own.
        if info.link.is_some() || (info.copy.is_some() && id.born != 0) {
            return;
        }
        match self.keep.link(&place.fd, &place.name) {
            Ok(link) => self.model.learn(Fact::Kept(*id, Kept::Link(link))),
            Err(_) if meta.is_file() => self.keep_content(place, id),
            Err(error) => self.model.learn(Fact::Kept(*id, Kept::Lost(error.to_string()))),
        }
    }

    fn keep_content(&mut self, place: &Place, id: &Id) {
        let needs = |info: &super::model::InodeInfo| {
            info.meta.is_file() && info.copy.is_none() && info.lost.is_none()
        };
        if self.model.inodes.get(id).is_some_and(needs) {
            let xattrs = keep::xattrs(&place.fd, &place.name);
            if !xattrs.is_empty() {
                self.model.learn(Fact::Xattrs(*id, xattrs));
            }
            let kept = match self.keep.copy(&place.fd, &place.name, id) {
                Ok(copy) => Kept::Copy(copy),
                Err(why) => Kept::Lost(why),
            };
            self.model.learn(Fact::Kept(*id, kept));
        }
    }

    fn note_arriving(&mut self, from: &Place, to: &Place) {
        let earlier = self.arriving.get(&(from.dir, from.name.clone())).cloned().unwrap_or_default();
        let ids: Vec<Id> = self.original(from).into_iter().chain(earlier).collect();
        if !ids.is_empty() {
            self.arriving.entry((to.dir, to.name.clone())).or_default().extend(ids);
        }
    }

    /// Copies files that may reach a name before the call that is about to write to it does.
    fn keep_arriving(&mut self, place: &Place) {
        let Some(ids) = self.arriving.get(&(place.dir, place.name.clone())) else { return };
        for id in ids.clone() {
            let Some(info) = self.model.inodes.get(&id) else { continue };
            if let (Some(link), None, true) = (info.link.clone(), &info.copy, info.meta.is_file())
                && let Ok(copy) = self.keep.copy_linked(&link, &id)
            {
                self.model.learn(Fact::Kept(id, Kept::Copy(copy)));
            }
        }
    }
}

/// The time now. A file that changes in the next milliseconds can get an earlier one, since the clock of file systems lags
/// behind: the check for changes without a record then misses it, but never blames a command for what was before it.
fn now() -> (i64, u32) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// Waits until a task is in another call than this.
fn wait_for(task: u32, call: i64, until: Instant) {
    while Instant::now() < until {
        // The number of the call that a task waits in, or `running`.
        let Ok(text) = fs::read_to_string(format!("/proc/{task}/syscall")) else { return };
        let number = text.split_whitespace().next().and_then(|number| number.parse().ok());
        if number.is_some_and(|number: i64| number != call) {
            return;
        }
        std::thread::yield_now();
    }
}
