//! Trying a command: it runs on a view of the workspace, a person or a rule approves what it changed there, and that is
//! committed through the journal like any change. A command that cannot be tried runs directly, after a question, and what
//! it changed is kept or undone by the answer to another. How a view works is haft-sandbox's matter.

mod parts;
mod shown;
mod warnings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::permissions::Stage;
use haft_core::trials::{EffectsQuestion, Kept, Otherwise, TrialOffer, Wanted};
use haft_core::{AbsPath, Context, Fault, FaultKind, Preview, blocking};
use haft_journal as journal;
use haft_rules::{Happened, SessionJudge};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::trial::{self, ChangeKind as Kind, CommitError, Committed, Listing, Trial};
use haft_sandbox::sandbox::{Layers, Network, recorder};

use super::recorded::{self, MAX_TEXT};
use super::run::{self, Finished, Started, Watched, wait_for_end};
use super::sandbox_options::EffectsCount;
use super::{CommandChanges, FileChange, Ran, SandboxOptions, Shell, TrialWish, Whole};
use parts::Parts;

/// What programs print when a view cannot do what the workspace could: rename a directory, or touch another user's file.
const REFUSED_BY_VIEW: [(&str, &str); 6] = [
    ("Invalid cross-device link", "a view cannot rename directories of the workspace"),
    ("EXDEV", "a view cannot rename directories of the workspace"),
    ("os error 18", "a view cannot rename directories of the workspace"),
    ("Value too large for defined data type", "a view cannot change files of other users or groups"),
    ("EOVERFLOW", "a view cannot change files of other users or groups"),
    ("os error 75", "a view cannot change files of other users or groups"),
];

/// What became of the changes of a command that was tried or asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialResult {
    /// Which of them count.
    pub kept: KeptChanges,
    /// What the command changed in its view, or would have: the first files.
    pub files: Vec<FileChange>,
    /// How many it changed.
    pub total: usize,
}

/// Which changes of a command count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptChanges {
    /// All of them.
    All,
    /// Some of them.
    Some,
    /// None of them.
    None,
}

impl KeptChanges {
    /// Its name in replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Some => "some",
            Self::None => "none",
        }
    }
}

/// A trial that has run.
struct Tried {
    started: Instant,
    trial: Trial,
    listing: Arc<Listing>,
    whole: Whole,
}

impl Shell {
    pub(super) fn trial_offer(&self, cx: &Context) -> Option<TrialOffer> {
        if self.command.is_read_only() || self.command.free || self.plan.is_some() {
            return None;
        }
        let options = cx.session().extension::<SandboxOptions>();
        let wanted = match (self.wish, options.effects) {
            (TrialWish::Try, _) => Wanted::Always,
            (TrialWish::None, EffectsCount::WhenApproved) => Wanted::InsteadOfQuestion,
            (TrialWish::None, EffectsCount::AtOnce) => Wanted::IfChosen,
        };
        let otherwise = if self.timeout.is_some() { Otherwise::Review } else { Otherwise::Record };
        Some(TrialOffer { wanted, is_confined: options.network == Network::Off, otherwise })
    }

    pub(super) fn obstacle(&self, cx: &Context) -> Option<String> {
        let options = cx.session().extension::<SandboxOptions>();
        if self.timeout.is_none() {
            return Some("it runs in the background, where a view would soon be out of date".to_owned());
        }
        if cx.session().journal().is_none() {
            return Some("this session keeps no journal".to_owned());
        }
        if options.layers != Layers::All {
            return Some(trial::Obstacle::NoView.to_string());
        }
        let policy = options.policy(&self.command, cx);
        if policy.write.is_empty() {
            return Some("it may write nowhere".to_owned());
        }
        trial::obstacle(&policy.write).map(|obstacle| obstacle.to_string())
    }

    /// Runs the command as a trial, and asks about what it changed.
    pub(super) async fn try_it(&self, timeout: Duration, cx: &Context) -> Result<Ran, Fault> {
        let tried = match self.run_in_view(timeout, cx).await? {
            Ok(tried) => tried,
            Err(why) => return self.run_untriable(&why, timeout, cx).await,
        };
        if let Some(why) = refused_by_view(&tried.whole.finished) {
            drop(tried);
            return self.run_untriable(why, timeout, cx).await;
        }
        let Tried { started, trial, listing, mut whole } = tried;
        let parts = {
            let (listing, cx) = (listing.clone(), cx.clone());
            blocking(move || Ok(Parts::of(&listing, &cx))).await?
        };
        let files = shown::files(&listing, cx);
        let total = listing.changes.len();
        whole.start = started;
        whole.notes.extend(shown::refused(&listing, cx));
        let kept = match self.decide(&listing, &parts, &whole, cx).await? {
            Decided::All => (0..total).collect(),
            Decided::Some(chosen) => chosen,
            Decided::Nothing(why) => {
                // What was written to shared build folders stays; everything else goes with the trial.
                drop(trial);
                whole.notes.push(shown::not_kept(&why, &files, total));
                whole.trial = Some(TrialResult { kept: KeptChanges::None, files, total });
                return Ok(self.conclude(whole, cx).await);
            }
        };
        let kept: Vec<usize> = kept;
        let is_whole = kept.len() == total;
        match commit(trial, listing, kept, &self.command.text, cx).await? {
            Ok((changes, notes)) => {
                whole.changes = changes;
                whole.notes.extend(notes);
                let kept = if is_whole { KeptChanges::All } else { KeptChanges::Some };
                if !is_whole {
                    whole
                        .notes
                        .push("only some of what the command changed was kept: see `changes`".to_owned());
                }
                whole.trial = Some(TrialResult { kept, files, total });
            }
            Err(why) => {
                whole.notes.push(shown::not_kept(&why, &files, total));
                whole.trial = Some(TrialResult { kept: KeptChanges::None, files, total });
            }
        }
        Ok(self.conclude(whole, cx).await)
    }

    /// Runs the command in a view. The inner error says why there can be none.
    async fn run_in_view(&self, timeout: Duration, cx: &Context) -> Result<Result<Tried, String>, Fault> {
        let started = Instant::now();
        let policy = run::policy(&self.command, cx).await?;
        let Some(journal) = cx.session().journal() else { return Ok(Err("there is no journal".to_owned())) };
        let options = trial::Options {
            roots: policy.write.clone(),
            dir: self.command.dir.as_path().to_owned(),
            store: journal.new_recording(),
            is_build_folder: Arc::new(recorder::is_build_folder),
            guarded: policy.guarded.clone(),
        };
        let trial = match blocking(move || Ok(Trial::new(&options))).await? {
            Ok(trial) => trial,
            Err(error) => return Ok(Err(format!("its layers could not be made: {error}"))),
        };
        let watched = Watched { record: None, view: Some(trial.mounts()) };
        let Started { running, policy, notes, .. } =
            match run::start(&self.command, self.output, policy, watched, cx).await {
                Ok(started) => started,
                Err(fault) => return Ok(Err(fault.message().to_owned())),
            };
        let report = running.report().clone();
        let finished = cx.cooperative(wait_for_end(running, timeout, cx)).await?;
        let (trial, listing) = blocking(move || {
            let listing = trial.list()?;
            Ok((trial, Arc::new(listing)))
        })
        .await?;
        let changes = CommandChanges::default();
        let whole =
            Whole { finished, policy, report, changes, trial: None, notes, start: started, limit: timeout };
        Ok(Ok(Tried { started, trial, listing, whole }))
    }

    /// Decides which changes are kept: by rule, or by asking.
    async fn decide(
        &self,
        listing: &Listing,
        parts: &Parts,
        whole: &Whole,
        cx: &Context,
    ) -> Result<Decided, Fault> {
        if cx.is_cancelled() || whole.finished.end.exit == Exit::Cancelled {
            return Ok(Decided::Nothing("the call was cancelled".to_owned()));
        }
        if listing.changes.is_empty() {
            return Ok(Decided::All);
        }
        if let Some(rule) = approving_rule(listing, cx)? {
            cx.approved_by_rule(&rule)?;
            return Ok(Decided::All);
        }
        let question = EffectsQuestion {
            stage: Stage::Tried,
            preview: Preview::new(parts.diff()).parts(parts.texts()).summary(parts.summary.clone()),
            reason: shown::reason(listing, whole.finished.end.exit),
        };
        Ok(match cx.ask_about_effects(question).await? {
            Kept::All => Decided::All,
            Kept::Parts(chosen) => Decided::Some(parts.changes(&chosen)),
            Kept::Nothing(why) => Decided::Nothing(why),
            Kept::Unanswered(why) => Decided::Nothing(format!("{why}; {}", shown::HOW_TO_APPROVE)),
            _ => Decided::Nothing("the answer is unknown".to_owned()),
        })
    }

    /// Asks whether a command that cannot be tried may run directly, and runs it.
    async fn run_untriable(&self, why: &str, timeout: Duration, cx: &Context) -> Result<Ran, Fault> {
        let reason = format!(
            "it cannot be tried: {why}; nothing has changed so far. Run directly, it counts at once, and afterwards you are \
             asked whether to keep or undo what it changed"
        );
        let question =
            EffectsQuestion { stage: Stage::Untriable, preview: Preview::new(&self.command.text), reason };
        match cx.ask_about_effects(question).await? {
            Kept::All => self.run_reviewed(timeout, cx).await,
            Kept::Nothing(denial) | Kept::Unanswered(denial) => Err(not_run(why, &denial)),
            _ => Err(not_run(why, "the answer is unknown")),
        }
    }

    /// Runs the command directly, and asks afterwards whether to keep or undo what it changed.
    pub(super) async fn run_reviewed(&self, timeout: Duration, cx: &Context) -> Result<Ran, Fault> {
        let mut ran = self.wait(timeout, cx).await?;
        let Some(number) = ran.changes.number else { return Ok(ran) };
        let list = shown::listed(&ran.changes.files, ran.changes.total);
        let question = EffectsQuestion {
            stage: Stage::Done,
            preview: Preview::new(String::new()).summary(list),
            reason: format!(
                "it has run directly, and what it changed is change {number}; without it, that is undone"
            ),
        };
        let kept = match cx.ask_about_effects(question).await {
            Ok(Kept::Nothing(why) | Kept::Unanswered(why)) => Err(why),
            Err(fault) => Err(fault.message().to_owned()),
            Ok(_) => Ok(()),
        };
        let (files, total) = (ran.changes.files.clone(), ran.changes.total);
        match kept {
            Ok(()) => ran.trial = Some(TrialResult { kept: KeptChanges::All, files, total }),
            Err(why) => {
                let inside = cx.clone();
                let undone = cx
                    .record(move |journal, label| {
                        Ok(journal.undo(inside.session_workspace(), &[number], label)?)
                    })
                    .await;
                match undone {
                    Ok(_) => {
                        ran.notes.push(format!("what the command changed was undone: {why}"));
                        ran.trial = Some(TrialResult { kept: KeptChanges::None, files, total });
                    }
                    Err(fault) => {
                        ran.notes.push(format!("it should be undone ({why}), but could not be: {fault}"));
                        ran.trial = Some(TrialResult { kept: KeptChanges::All, files, total });
                    }
                }
            }
        }
        Ok(ran)
    }
}

/// The fault of a command that cannot be tried and may not run directly.
fn not_run(why: &str, denial: &str) -> Fault {
    Fault::new(FaultKind::Denied, format!("nothing was changed: {denial}"))
        .hint(format!("it cannot be tried ({why}), so it has to run directly, which the user can allow"))
}

/// What was decided about the changes of a trial.
enum Decided {
    All,
    Some(Vec<usize>),
    Nothing(String),
}

/// The words of a command that a view refused something, if it failed for that.
fn refused_by_view(finished: &Finished) -> Option<&'static str> {
    if finished.end.exit == Exit::Code(0) {
        return None;
    }
    let printed = [finished.out.text(), finished.err.text()];
    let said = |words: &str| printed.iter().any(|text| text.contains(words));
    REFUSED_BY_VIEW.iter().find(|(words, _)| said(words)).map(|(_, why)| *why)
}

/// The rules that together approve all changes, if they do.
fn approving_rule(listing: &Listing, cx: &Context) -> Result<Option<String>, Fault> {
    let Some(rules) = SessionJudge::rules(cx)? else { return Ok(None) };
    if !listing.refused.is_empty() {
        return Ok(None);
    }
    let mut named: Vec<String> = Vec::new();
    for change in &listing.changes {
        let happened = match change.kind {
            Kind::Created => Happened::Added,
            Kind::Deleted => Happened::Deleted,
            Kind::Attributes | Kind::Changed | Kind::Touched => Happened::Changed,
        };
        let path = AbsPath::lexical(&change.path);
        let rule = rules.approves(happened, &path).map(ToString::to_string);
        let Some(rule) = rule.filter(|_| change.conflict.is_none() && warnings::of(change, cx).is_empty())
        else {
            return Ok(None);
        };
        if !named.contains(&rule) {
            named.push(rule);
        }
    }
    Ok(Some(named.join("`, `")))
}

/// Commits changes through the journal. The inner error says why nothing was.
async fn commit(
    trial: Trial,
    listing: Arc<Listing>,
    chosen: Vec<usize>,
    text: &str,
    cx: &Context,
) -> Result<Result<(CommandChanges, Vec<String>), String>, Fault> {
    let text: String = text.chars().take(MAX_TEXT).collect();
    let inside = cx.clone();
    cx.commit(move |journal, label| {
        let committed = match trial.commit(&listing, &chosen, label.durability) {
            Ok(committed) => committed,
            Err(error) => return Ok(Err(shown::not_committed(&error, &inside))),
        };
        let mut changes = recorded::listed(&committed.effects, &inside);
        let mut notes = recorded::not_undoable(&committed.effects, &inside);
        match adopt(journal, &committed, &text, label, &inside) {
            Ok(Some(recorded)) => {
                changes.number = Some(recorded.number);
                notes.extend(recorded.notes);
            }
            Ok(None) => {}
            // Its old sides are kept: the next start of haft records it.
            Err(error) => notes.push(format!("what the command changed cannot be undone yet: {error}")),
        }
        Ok(Ok((changes, notes)))
    })
    .await
}

fn adopt(
    journal: &journal::Journal,
    committed: &Committed,
    text: &str,
    label: journal::Label<'_>,
    cx: &Context,
) -> Result<Option<journal::Recorded>, journal::JournalError> {
    let recording = committed.store().file_name().and_then(|name| name.to_str()).unwrap_or_default();
    journal.adopt(cx.session_workspace(), journal::Command { recording, text }, &committed.effects, label)
}

/// Which paths a failed commit names.
fn conflicting(error: &CommitError) -> &[(std::path::PathBuf, &'static str)] {
    match error {
        CommitError::Conflicts(conflicts) => conflicts,
        _ => &[],
    }
}
