//! Search and replace over files. The whole replacement is planned before approval, so the preview shows all of it, and
//! applied atomically as one entry of the journal. Knows nothing of how the search runs (`grep`) or how files are
//! written (`patch`).

use std::sync::Arc;

use bytes::Bytes;
use grep_matcher::{Captures as _, Matcher};
use haft_core::{Claims, Context, Fault, FaultKind, Operation, Preview, Resource};

use super::pattern::Compiled;
use super::{Grep, GrepResult, LineMode, Page, Searching, Sorting, Stopped, drive};
use crate::change::Current;
use crate::patch::{self, PatchFate, Planned};
use crate::{Knowledge, Patched};
use haft_text::{Draft, Follows, Mismatch, Source, TextSplice, count_of};

/// Maximum number of files that one replacement changes.
const MAX_FILES: u64 = 2000;
/// Maximum size in bytes of all files that one replacement changes.
const MAX_BYTES: usize = 256 << 20;

/// A content search, with an optional replacement of the matches.
pub struct Sweep {
    grep: Arc<Grep>,
    replacing: Option<Arc<Substitution>>,
    /// The planned replacement, once it was checked.
    plan: Option<ReplacePlan>,
}

/// The replacement of the matches of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// Replacement text; `\1` and `\g<name>` stand for capture groups of the pattern.
    pub with: String,
    /// Number of places that must match, if the caller gives one; otherwise nothing is replaced.
    pub expected: Option<u64>,
    /// Dry run: report what would change, and change nothing.
    pub only_shown: bool,
}

/// Result of a [`Sweep`].
pub enum Swept {
    /// The matches of a search without a replacement.
    Found(GrepResult),
    /// The replacement that was made, or would be in a dry run.
    Replaced(Replaced),
}

/// Result of a replacement over files.
pub struct Replaced {
    /// Number of places that were found in all files.
    pub places: u64,
    /// Number of places that change in each file, in the order of `patched`; one that has the replacement already does not.
    pub counts: Vec<u64>,
    /// The changed files.
    pub patched: Patched,
    /// Number of files that were searched.
    pub searched: u64,
}

/// A replacement with the new content of every file.
struct ReplacePlan {
    files: Vec<Planned>,
    counts: Vec<u64>,
    /// How many places have the replacement already.
    same: u64,
    searched: u64,
}

impl Sweep {
    /// A search, or a replacement that is planned later.
    pub fn new(grep: Grep, replacing: Option<Substitution>) -> Self {
        Self { grep: Arc::new(grep), replacing: replacing.map(Arc::new), plan: None }
    }

    /// Whether it changes files.
    pub fn changes(&self) -> bool {
        self.replacing.as_ref().is_some_and(|replacing| !replacing.only_shown)
    }

    /// The plan of [`check`](Operation::check), or a new one.
    async fn planned(&mut self, replacing: Arc<Substitution>, cx: &Context) -> Result<ReplacePlan, Fault> {
        if let Some(plan) = self.plan.take() {
            return Ok(plan);
        }
        let searching = cx.session().extension::<Searching>();
        let (grep, inside, time) = (self.grep.clone(), cx.clone(), searching.time);
        drive(cx, time, move |signal| {
            let all = Grep {
                what: LineMode::Any,
                sorting: Sorting::Path,
                page: Page { skip: 0, limit: Some(MAX_FILES), bytes: usize::MAX, each: 0, line_chars: 0 },
                ..(*grep).clone()
            };
            let compiled = grep.pattern.compiled()?;
            let found = match &compiled {
                Compiled::Regex(matcher) => all.search(matcher, &searching, signal, &inside)?,
                #[cfg(feature = "pcre2")]
                Compiled::Perl(matcher) => all.search(matcher, &searching, signal, &inside)?,
            };
            match found.stopped {
                Some(Stopped::Time) => return Err(unfinished("the search was not finished in time")),
                Some(Stopped::PageFull) => {
                    return Err(unfinished(&format!("the pattern is found in more than {MAX_FILES} files")));
                }
                None => {}
            }
            match &compiled {
                Compiled::Regex(matcher) => plan(matcher, &replacing, found, &inside),
                #[cfg(feature = "pcre2")]
                Compiled::Perl(matcher) => plan(matcher, &replacing, found, &inside),
            }
        })
        .await
    }
}

/// The fault for a search that did not cover everything: replacing a part of the matches would be misleading.
fn unfinished(why: &str) -> Fault {
    Fault::failed(format!("{why}; nothing was replaced"))
        .hint("search fewer files: name a folder, or a pattern of file names")
}

impl Operation for Sweep {
    type Output = Swept;

    fn claims(&self) -> Claims {
        let root = Resource::Path(self.grep.root.clone());
        if self.changes() { Claims::none().write(root) } else { Claims::none().read(root) }
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let Some(replacing) = self.replacing.clone() else { return Ok(None) };
        let plan = self.planned(replacing, cx).await?;
        let diff: String = plan.files.iter().map(|planned| planned.file.diff.text.as_str()).collect();
        self.plan = Some(plan);
        Ok(Some(Preview::new(diff)))
    }

    async fn run(mut self, cx: &Context) -> Result<Swept, Fault> {
        let Some(replacing) = self.replacing.clone() else {
            let grep = Arc::unwrap_or_clone(self.grep);
            return grep.run(cx).await.map(Swept::Found);
        };
        let ReplacePlan { files, counts, same, searched } = self.planned(replacing.clone(), cx).await?;
        let patched = match replacing.only_shown || files.is_empty() {
            true => patch::shown(files),
            false => patch::commit(files, cx).await?,
        };
        let places = counts.iter().sum::<u64>() + same;
        Ok(Swept::Replaced(Replaced { places, counts, patched, searched }))
    }
}

/// Computes the new content of every file with matches.
fn plan(
    matcher: &impl Matcher,
    replacing: &Substitution,
    found: GrepResult,
    cx: &Context,
) -> Result<ReplacePlan, Fault> {
    let template = Template::parse(&replacing.with, matcher)?;
    let mut plan = ReplacePlan { files: Vec::new(), counts: Vec::new(), same: 0, searched: found.searched };
    let mut held = 0;
    for file in found.files {
        let name = cx.workspace().display(&file.path);
        cx.workspace().require_writable(&file.path)?;
        let Some(current) = Current::read(&file.path, &name, cx)? else { continue };
        current.require_known(&file.path, &name, Knowledge::Current, cx)?;
        held += current.bytes.len();
        if held > MAX_BYTES {
            return Err(unfinished(&format!("the files have more than {MAX_BYTES} bytes together")));
        }
        let Ok(source) = Source::new(current.bytes.to_vec()) else { continue };
        let (splices, same) = splices(matcher, &template, source.text());
        let count = splices.len() as u64;
        plan.same += same;
        if splices.is_empty() {
            continue;
        }
        let mut draft = Draft::new(&source);
        draft.apply(splices, Follows::Nothing).map_err(|problem| {
            let mismatch = Mismatch { edit: 1, of: 1, problem };
            Fault::new(FaultKind::Encoding, format!("`{name}`: {}", mismatch.message())).at(&name)
        })?;
        let content = draft.done().splices.content(&Bytes::from(source.into_bytes()));
        plan.files.push(Planned::new(file.path, &name, PatchFate::Updated, current, content, cx));
        plan.counts.push(count);
    }
    let places = plan.counts.iter().sum::<u64>() + plan.same;
    match replacing.expected {
        Some(expected) if expected != places => Err(Fault::new(
            FaultKind::NoMatch,
            format!(
                "the pattern is found at {} in {}, not at {expected}; nothing was replaced",
                count_of(places, "place"),
                count_of(plan.files.len() as u64, "file")
            ),
        )
        .hint("look at what is found, then give the right number or a narrower pattern")
        .with("expected", expected)
        .with("found", places)),
        _ => Ok(plan),
    }
}

/// The edits of a text, and the number of matches that equal their replacement already.
fn splices(matcher: &impl Matcher, template: &Template, text: &str) -> (Vec<TextSplice>, u64) {
    let (mut splices, mut same) = (Vec::new(), 0);
    let Ok(mut captures) = matcher.new_captures() else { return (splices, 0) };
    let _ = matcher.captures_iter(text.as_bytes(), &mut captures, |captures| {
        if let Some(whole) = captures.get(0) {
            let range = whole.start()..whole.end();
            let new = template.filled(captures, text);
            match text.get(range.clone()) {
                Some(old) if old == new => same += 1,
                Some(_) => splices.push(TextSplice { range, text: new }),
                // In the middle of a character.
                None => {}
            }
        }
        true
    });
    (splices, same)
}

/// A replacement text, split into literal parts and references to capture groups.
struct Template(Vec<TemplatePart>);

enum TemplatePart {
    Text(String),
    /// Index of a capture group; 0 is the whole match.
    Group(usize),
}

impl Template {
    fn parse(text: &str, matcher: &impl Matcher) -> Result<Self, Fault> {
        let unknown = |group: &str| {
            Fault::invalid(format!(
                "the replacement names the group `{group}`, which the pattern does not have"
            ))
            .hint("groups are counted from 1; `\\\\` stands for a backslash")
        };
        let groups = matcher.capture_count();
        let mut parts = vec![TemplatePart::Text(String::new())];
        let push = |parts: &mut Vec<TemplatePart>, char: char| match parts.last_mut() {
            Some(TemplatePart::Text(text)) => text.push(char),
            _ => parts.push(TemplatePart::Text(char.to_string())),
        };
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            if char != '\\' {
                push(&mut parts, char);
                continue;
            }
            match rest.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    let mut number = digit.to_string();
                    if let Some(next) = rest.next_if(char::is_ascii_digit) {
                        number.push(next);
                    }
                    let group = number.parse().ok().filter(|group| *group < groups.max(1));
                    parts.push(TemplatePart::Group(group.ok_or_else(|| unknown(&number))?));
                }
                Some('g') if rest.peek() == Some(&'<') => {
                    rest.next();
                    let name: String = rest.by_ref().take_while(|char| *char != '>').collect();
                    let group = match name.parse::<usize>() {
                        Ok(number) => Some(number).filter(|number| *number < groups.max(1)),
                        Err(_) => matcher.capture_index(&name),
                    };
                    parts.push(TemplatePart::Group(group.ok_or_else(|| unknown(&name))?));
                }
                Some('n') => push(&mut parts, '\n'),
                Some('t') => push(&mut parts, '\t'),
                Some('\\') | None => push(&mut parts, '\\'),
                Some(other) => {
                    push(&mut parts, '\\');
                    push(&mut parts, other);
                }
            }
        }
        Ok(Self(parts))
    }

    /// The replacement text for one match.
    fn filled(&self, captures: &impl grep_matcher::Captures, text: &str) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Group(group) => captures
                .get(*group)
                .and_then(|found| text.get(found.start()..found.end()))
                .unwrap_or_default()
                .to_owned(),
        };
        self.0.iter().map(part).collect()
    }
}
