//! Questions of tools, answered at the terminal. Asking and parsing work on any [`Console`], so tests script the answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft_core::BoxFuture;
use haft_core::Fault;
use haft_core::questions::{Answer, QuestionSet, Respondent, Selection, UserQuestion};
use haft_sandbox::terminal::Terminal;

use crate::approve::{TerminalUser, WithdrawOnDrop};
use crate::live;
use crate::style::{self, BOLD, DIM, NAME, one_line, sanitize};

impl Respondent for TerminalUser {
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, Fault>> {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let guard = WithdrawOnDrop(withdrawn.clone());
        let lock = self.lock();
        Box::pin(async move {
            let _guard = guard;
            let asking = tokio::task::spawn_blocking(move || {
                let _held = lock.lock();
                let terminal = Terminal::open()?;
                terminal.forget_typed();
                let mut console = TerminalConsole { terminal, withdrawn: &withdrawn };
                Ok(live::suspend(|| respond(&set, &mut console))?)
            });
            asking.await?
        })
    }
}

/// Prints text and reads lines.
pub(crate) trait Console {
    /// Prints text.
    fn print(&mut self, text: &str) -> io::Result<()>;
    /// Reads a line. `None` if the question was withdrawn or the input has ended.
    fn line(&mut self) -> io::Result<Option<String>>;
}

/// The terminal, until the question is withdrawn.
struct TerminalConsole<'a> {
    terminal: Terminal,
    withdrawn: &'a AtomicBool,
}

impl Console for TerminalConsole<'_> {
    fn print(&mut self, text: &str) -> io::Result<()> {
        self.terminal.print(&style::for_terminal(text))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        self.terminal.line(&|| self.withdrawn.load(Ordering::Acquire))
    }
}

/// Asks one question after another. An invalid answer is asked again; without a line there is no answer.
pub(crate) fn respond(set: &QuestionSet, console: &mut impl Console) -> Result<Vec<Answer>, String> {
    let failed = |error: io::Error| format!("the user could not be asked: {error}");
    let mut answers = Vec::with_capacity(set.questions.len());
    for question in &set.questions {
        console.print(&render(question, style::columns())).map_err(failed)?;
        loop {
            console.print("> ").map_err(failed)?;
            let Some(line) = console.line().map_err(failed)? else {
                return Err("the user gave no answer".to_owned());
            };
            match parse(&line, question) {
                Ok(answer) => break answers.push(answer),
                Err(why) => console.print(&format!("{DIM}{why}{DIM:#}\n")).map_err(failed)?,
            }
        }
    }
    Ok(answers)
}

/// A question with its options, in lines that fit the columns.
fn render(question: &UserQuestion, columns: usize) -> String {
    let (header, text) = (one_line(&question.header), sanitize(&question.text));
    let mut shown = format!("{NAME}{header}{NAME:#}  {BOLD}{text}{BOLD:#}\n");
    for (at, option) in question.options.iter().enumerate() {
        let (label, description) = (one_line(&option.label), one_line(&option.description));
        shown.push_str(&format!("  {}  {label}  {DIM}{description}{DIM:#}\n", at + 1));
    }
    let how = match question.choosing {
        Selection::One => "a number, or an answer in your own words",
        Selection::Several => "numbers such as 1,3, 0 for none, or an answer in your own words",
    };
    shown.push_str(&format!("{DIM}{how}{DIM:#}\n"));
    shown.lines().map(|line| style::wrap(line, columns) + "\n").collect()
}

/// Parses a typed answer; the error says what is wrong with it. Text in quotes is never taken for numbers.
fn parse(line: &str, question: &UserQuestion) -> Result<Answer, String> {
    let line = line.trim();
    if line.is_empty() {
        return Err("please answer".to_owned());
    }
    let words = |text: &str| text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::parse).collect();
    let numbers: Result<Vec<usize>, _> = words(line);
    let Ok(numbers) = numbers else {
        let own = line.strip_prefix('"').and_then(|line| line.strip_suffix('"'));
        return Ok(Answer::other(own.filter(|own| !own.trim().is_empty()).unwrap_or(line)));
    };
    let several = question.choosing == Selection::Several;
    if several && numbers == [0] {
        return Ok(Answer::default());
    }
    let mut chosen: Vec<usize> = Vec::new();
    for number in numbers {
        match number.checked_sub(1).filter(|index| *index < question.options.len()) {
            Some(index) if !chosen.contains(&index) => chosen.push(index),
            Some(_) => {}
            None => {
                return Err(format!(
                    "{number} is none of them; they go from 1 to {}",
                    question.options.len()
                ));
            }
        }
    }
    match chosen.len() {
        0 => Err("please answer".to_owned()),
        1 => Ok(Answer { chosen, other: None }),
        _ if several => Ok(Answer { chosen, other: None }),
        _ => Err("only one can be chosen".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use haft_core::questions::AnswerOption;

    use super::*;

    fn set(choosing: Selection) -> QuestionSet {
        let option = |label: &str| AnswerOption { label: label.to_owned(), description: "why".to_owned() };
        let question = UserQuestion {
            header: "Library".to_owned(),
            text: "Which \u{1b}[31mone?".to_owned(),
            options: vec![option("chrono"), option("jiff"), option("time")],
            choosing,
        };
        QuestionSet::new("call", "session", vec![question])
    }

    /// A console with scripted input, and what was printed.
    struct ScriptedConsole<'a>(std::str::Lines<'a>, String);

    impl Console for ScriptedConsole<'_> {
        fn print(&mut self, text: &str) -> io::Result<()> {
            self.1.push_str(text);
            Ok(())
        }

        fn line(&mut self) -> io::Result<Option<String>> {
            Ok(self.0.next().map(str::to_owned))
        }
    }

    fn answer(choosing: Selection, typed: &str) -> (Result<Vec<Answer>, String>, String) {
        let mut console = ScriptedConsole(typed.lines(), String::new());
        let answers = respond(&set(choosing), &mut console);
        (answers, console.1)
    }

    #[test]
    fn a_number_chooses_and_other_words_are_an_answer() {
        assert_eq!(answer(Selection::One, "2\n").0, Ok(vec![Answer::option(1)]));
        assert_eq!(answer(Selection::One, "neither of them\n").0, Ok(vec![Answer::other("neither of them")]));
        assert_eq!(answer(Selection::One, "\"2\"\n").0, Ok(vec![Answer::other("2")]));
    }

    #[test]
    fn several_can_be_chosen_where_that_is_asked() {
        let chosen = |typed| answer(Selection::Several, typed).0.map(|mut answers| answers.remove(0).chosen);
        assert_eq!(chosen("1, 3 1\n"), Ok(vec![0, 2]));
        assert_eq!(chosen("0\n"), Ok(vec![]));
    }

    #[test]
    fn an_invalid_answer_is_asked_again() {
        let (answers, printed) = answer(Selection::One, "\n7\n0\n1,2\n3\n");
        assert_eq!(answers, Ok(vec![Answer::option(2)]));
        for why in ["please answer", "7 is none of them; they go from 1 to 3", "only one can be chosen"] {
            assert!(printed.contains(why), "`{why}` is not in `{printed}`");
        }
    }

    #[test]
    fn without_input_there_is_no_answer() {
        assert_eq!(answer(Selection::One, "").0, Err("the user gave no answer".to_owned()));
        assert_eq!(answer(Selection::Several, "\n").0, Err("the user gave no answer".to_owned()));
    }

    #[test]
    fn text_of_a_model_cannot_control_the_terminal() {
        let (_, printed) = answer(Selection::One, "1\n");
        assert!(printed.contains("\\u{1b}[31mone?"), "{printed}");
        assert!(!printed.contains("\u{1b}[31m"), "{printed}");
    }
}
