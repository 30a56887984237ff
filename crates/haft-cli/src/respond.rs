//! Questions of tools, answered at the terminal. How they are asked and what an answer means knows nothing of where
//! that is.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::{Answer, BoxFuture, Choosing, Inquiry, QuestionSet, Respondent};
use haft_sandbox::terminal::Terminal;

use crate::approve::{AtTerminal, Withdraws};
use crate::style::{BOLD, DIM, NAME, harmless, one_line};

impl Respondent for AtTerminal {
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, String>> {
        let over = Arc::new(AtomicBool::new(false));
        let withdraws = Withdraws(over.clone());
        let turn = self.turn();
        Box::pin(async move {
            let _withdraws = withdraws;
            let asking = tokio::task::spawn_blocking(move || {
                let _turn = turn.lock();
                let terminal = Terminal::open().map_err(|error| error.to_string())?;
                terminal.forget_typed();
                respond(&set, &mut Sitting { terminal, over: &over })
            });
            asking.await.map_err(|error| error.to_string())?
        })
    }
}

/// Somebody to talk to.
pub(crate) trait Talk {
    /// Shows something.
    fn print(&mut self, text: &str) -> io::Result<()>;
    /// The next line, or nothing if none will come.
    fn line(&mut self) -> io::Result<Option<String>>;
}

/// Whoever sits at the terminal, as long as the answer is wanted.
struct Sitting<'a> {
    terminal: Terminal,
    over: &'a AtomicBool,
}

impl Talk for Sitting<'_> {
    fn print(&mut self, text: &str) -> io::Result<()> {
        self.terminal.print(text)
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        self.terminal.line(&|| self.over.load(Ordering::Acquire))
    }
}

/// Asks one question after the other. What makes no sense is asked again; if no line comes, there is no answer.
pub(crate) fn respond(set: &QuestionSet, talk: &mut impl Talk) -> Result<Vec<Answer>, String> {
    let lost = |error: io::Error| format!("the user could not be asked: {error}");
    let mut answers = Vec::with_capacity(set.questions.len());
    for question in &set.questions {
        talk.print(&shown(question)).map_err(lost)?;
        loop {
            talk.print("> ").map_err(lost)?;
            let Some(line) = talk.line().map_err(lost)? else {
                return Err("the user gave no answer".to_owned());
            };
            match read(&line, question) {
                Ok(answer) => break answers.push(answer),
                Err(why) => talk.print(&format!("{DIM}{why}{DIM:#}\n")).map_err(lost)?,
            }
        }
    }
    Ok(answers)
}

fn shown(question: &Inquiry) -> String {
    let (header, text) = (one_line(&question.header), harmless(&question.text));
    let mut shown = format!("{NAME}{header}{NAME:#}  {BOLD}{text}{BOLD:#}\n");
    for (at, option) in question.options.iter().enumerate() {
        let (label, description) = (one_line(&option.label), one_line(&option.description));
        shown.push_str(&format!("  {}  {label}  {DIM}{description}{DIM:#}\n", at + 1));
    }
    let how = match question.choosing {
        Choosing::One => "a number, or an answer in your own words",
        Choosing::Several => "numbers such as 1,3, 0 for none, or an answer in your own words",
    };
    shown.push_str(&format!("{DIM}{how}{DIM:#}\n"));
    shown
}

/// What somebody typed, as an answer; or what is wrong with it. Words in quotes are never numbers.
fn read(line: &str, question: &Inquiry) -> Result<Answer, String> {
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
    let several = question.choosing == Choosing::Several;
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
    use haft::AnswerOption;

    use super::*;

    fn set(choosing: Choosing) -> QuestionSet {
        let option = |label: &str| AnswerOption { label: label.to_owned(), description: "why".to_owned() };
        let question = Inquiry {
            header: "Library".to_owned(),
            text: "Which \u{1b}[31mone?".to_owned(),
            options: vec![option("chrono"), option("jiff"), option("time")],
            choosing,
        };
        QuestionSet::new("call", "session", vec![question])
    }

    /// Somebody who types these lines and no more.
    struct Typing<'a>(std::str::Lines<'a>, String);

    impl Talk for Typing<'_> {
        fn print(&mut self, text: &str) -> io::Result<()> {
            self.1.push_str(text);
            Ok(())
        }

        fn line(&mut self) -> io::Result<Option<String>> {
            Ok(self.0.next().map(str::to_owned))
        }
    }

    fn answer(choosing: Choosing, typed: &str) -> (Result<Vec<Answer>, String>, String) {
        let mut talk = Typing(typed.lines(), String::new());
        let answers = respond(&set(choosing), &mut talk);
        (answers, talk.1)
    }

    #[test]
    fn a_number_chooses_and_other_words_are_an_answer() {
        assert_eq!(answer(Choosing::One, "2\n").0, Ok(vec![Answer::option(1)]));
        assert_eq!(answer(Choosing::One, "neither of them\n").0, Ok(vec![Answer::other("neither of them")]));
        assert_eq!(answer(Choosing::One, "\"2\"\n").0, Ok(vec![Answer::other("2")]));
    }

    #[test]
    fn several_can_be_chosen_where_that_is_asked() {
        let chosen = |typed| answer(Choosing::Several, typed).0.map(|mut answers| answers.remove(0).chosen);
        assert_eq!(chosen("1, 3 1\n"), Ok(vec![0, 2]));
        assert_eq!(chosen("0\n"), Ok(vec![]));
    }

    #[test]
    fn what_makes_no_sense_is_asked_again() {
        let (answers, printed) = answer(Choosing::One, "\n7\n0\n1,2\n3\n");
        assert_eq!(answers, Ok(vec![Answer::option(2)]));
        for why in ["please answer", "7 is none of them; they go from 1 to 3", "only one can be chosen"] {
            assert!(printed.contains(why), "`{why}` is not in `{printed}`");
        }
    }

    #[test]
    fn no_answer_is_no_choice() {
        assert_eq!(answer(Choosing::One, "").0, Err("the user gave no answer".to_owned()));
        assert_eq!(answer(Choosing::Several, "\n").0, Err("the user gave no answer".to_owned()));
    }

    #[test]
    fn what_a_model_writes_cannot_steer_the_terminal() {
        let (_, printed) = answer(Choosing::One, "1\n");
        assert!(printed.contains("\\u{1b}[31mone?"), "{printed}");
        assert!(!printed.contains("\u{1b}[31m"), "{printed}");
    }
}
