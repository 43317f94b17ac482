//! Reads a model from `.lqn` text.

use super::{
    graph,
    locking::locking,
    tokens::{END, Token, Tokens, at},
};
use crate::{
    builder::{Builder, EntryDraft, Problem, TaskDraft},
    model::{CallKind, CallOrder, Model, Multiplicity, Scheduling},
    refused,
};

impl Model {
    /// Reads LQNS's `.lqn` text: sections G, P, T, E and A.
    ///
    /// It writes copies (r, i, o) and activity graphs (A) out as parts of their own. It ignores priorities of entries
    /// and the solver's parameters in G.
    ///
    /// # Errors
    /// Every problem, with its line.
    pub fn from_text(text: &str) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader {
            tokens: Tokens::new(text),
            builder: Builder::default(),
            problems: Vec::new(),
        };
        reader.sections();
        reader.builder.build_despite(reader.problems)
    }
}

struct Reader<'a> {
    tokens: Tokens<'a>,
    builder: Builder,
    problems: Vec<Problem>,
}

type Outcome = Result<(), Problem>;

impl<'a> Reader<'a> {
    fn sections(&mut self) {
        while let Some(token) = self.tokens.next() {
            let outcome = match token.word {
                "G" => self.general(),
                "P" => self.section(&token, Self::processor),
                "T" => self.section(&token, Self::task),
                "E" => self.section(&token, Self::entry),
                "A" => graph::section(&mut self.tokens, &mut self.builder),
                "U" => {
                    self.tokens.skip_section();
                    Err(at(token.line, refused::GROUPS.to_owned()))
                }
                word => {
                    let message = format!("{word}: expected a section: G, P, T, E or A");
                    self.tokens.skip_line(token.line);
                    Err(at(token.line, message))
                }
            };
            self.problems.extend(outcome.err());
        }
    }

    /// The comment; what follows it up to -1 steers other solvers.
    fn general(&mut self) -> Outcome {
        let comment = self.tokens.expect("a comment in quotes")?;
        self.builder.comment(comment.word.trim_matches('"'));
        loop {
            if self.tokens.expect("-1, the end of section G")?.word == END {
                return Ok(());
            }
        }
    }

    /// Lines until -1. A bad line is told and the next one read.
    fn section(
        &mut self,
        header: &Token<'a>,
        item: fn(&mut Self, Token<'a>) -> Outcome,
    ) -> Outcome {
        // The number of items to come, which nobody needs.
        self.tokens
            .next_if(header.line, |word| word.parse::<u32>().is_ok());
        while let Some(token) = self.tokens.next() {
            if token.word == END {
                return Ok(());
            }
            let line = token.line;
            if let Err(problem) = item(self, token) {
                self.problems.push(problem);
                self.tokens.skip_line(line);
            }
        }
        let section = header.word;
        let message = format!("the file ends within section {section}: end the section with -1");
        Err(at(self.tokens.last_line(), message))
    }

    fn processor(&mut self, token: Token<'a>) -> Outcome {
        let line = token.line;
        expect_word(&token, "p", "a processor")?;
        let name = self.tokens.expect("a processor's name")?.word;
        let scheduling = self.scheduling(line)?;
        let (mut multiplicity, mut speed, mut scheduling) = (1, 1.0, scheduling);
        let mut replicas = 1;
        while let Some(option) = self.tokens.next_if(line, |_| true) {
            match option.word {
                "m" => multiplicity = self.tokens.count()?,
                "i" => scheduling = Scheduling::Delay,
                "R" => speed = self.tokens.number()?,
                "r" => replicas = self.tokens.count()?,
                other => {
                    return Err(at(
                        line,
                        format!("{other}: write m, i, r or R after a processor's scheduling"),
                    ));
                }
            }
        }
        self.builder
            .at(line)
            .processor(name, scheduling)
            .multiplicity(multiplicity)
            .replicas(replicas)
            .speed(speed);
        Ok(())
    }

    fn scheduling(&mut self, line: u32) -> Result<Scheduling, Problem> {
        Ok(match self.tokens.expect("a scheduling")?.word {
            "f" => Scheduling::Fcfs,
            "h" => Scheduling::HeadOfLine,
            "p" => Scheduling::PreemptiveResume,
            "i" => Scheduling::Delay,
            "s" => Scheduling::Sharing {
                quantum: match self.tokens.peek() {
                    Some(next) if next.line == line && next.word.parse::<f64>().is_ok() => {
                        self.tokens.number()?
                    }
                    _ => 0.1,
                },
            },
            other => {
                let message = match other {
                    "c" => refused::GROUPS,
                    "r" => refused::RANDOM,
                    _ => {
                        "use f (first come, first served), h (head of line), p (preemptive), s \
                          (sharing) or i (delay)"
                    }
                };
                return Err(at(line, format!("processor scheduling {other}: {message}")));
            }
        })
    }

    fn task(&mut self, token: Token<'a>) -> Outcome {
        let line = token.line;
        expect_word(&token, "t", "a task")?;
        let name = self.tokens.expect("a task's name")?.word;
        let scheduling = self.tokens.expect("a task's scheduling")?.word;
        let mut entries = Vec::new();
        loop {
            let entry = self.tokens.expect("an entry or -1")?;
            if entry.word == END {
                break;
            }
            entries.push(entry.word);
        }
        let processor = self.tokens.expect("a processor's name")?.word;
        let mut draft = new_task(self.builder.at(line), scheduling, name, processor)
            .map_err(|message| at(line, message))?;
        while let Some(option) = self.tokens.next_if(line, |_| true) {
            draft = match option.word {
                "m" => draft.multiplicity(Multiplicity::Finite(self.tokens.count()?)),
                "i" if self.tokens.peek().is_some_and(|next| is_name(next, line)) => {
                    let caller = self.tokens.expect("a task's name")?.word;
                    draft.fan_in(caller, self.tokens.count()?)
                }
                "i" => draft.multiplicity(Multiplicity::Infinite),
                "o" => {
                    let called = self.tokens.expect("a task's name")?.word;
                    draft.fan_out(called, self.tokens.count()?)
                }
                "z" => draft.think_time(self.tokens.number()?),
                "q" => draft.queue_length(self.tokens.count()?),
                "T" => draft.initially(self.tokens.count()?),
                "r" => draft.replicas(self.tokens.count()?),
                "g" => return Err(at(line, refused::GROUPS.to_owned())),
                other => {
                    if let Ok(priority) = other.parse() {
                        draft.priority(priority);
                        continue;
                    }
                    return Err(at(
                        line,
                        format!(
                            "{other}: write a priority (0 or more), m, i, o, r, z, q or T after a task's processor"
                        ),
                    ));
                }
            };
        }
        for entry in entries {
            self.builder.entry(entry, name);
        }
        Ok(())
    }

    /// An entry that begins with an activity.
    fn start(&mut self, line: u32) -> Outcome {
        let entry = self.tokens.expect("an entry's name")?.word;
        let activity = self.tokens.expect("an activity's name")?.word;
        self.tokens.next_if(line, |word| word == END);
        let task = self.entry_named(line, entry)?.task.clone();
        let start = (entry.to_owned(), activity.to_owned());
        self.builder.at(line).graph(&task).starts.push(start);
        Ok(())
    }

    fn entry_named(&mut self, line: u32, name: &str) -> Result<&mut EntryDraft, Problem> {
        let draft = self.builder.entry_mut(name);
        draft.ok_or_else(|| at(line, format!("no task has an entry {name}")))
    }

    fn entry(&mut self, token: Token<'a>) -> Outcome {
        let Token { line, word } = token;
        if let Some(locking) = locking(word) {
            let name = self.tokens.expect("an entry's name")?.word;
            self.entry_named(line, name)?.locking(locking);
            return Ok(());
        }
        match word {
            "s" | "c" | "f" | "Z" | "a" | "y" | "z" | "F" => {}
            "A" => return self.start(line),
            "p" => {
                self.tokens.skip_line(line);
                return Ok(());
            }
            other => {
                let message = format!(
                    "{other}: begin a line of an entry with s, c, f, Z, y, z, F, A, a, P, V, R, U, W or X"
                );
                return Err(at(line, message));
            }
        }
        let name = self.tokens.expect("an entry's name")?.word;
        let target = match word {
            "y" | "z" | "F" => self.tokens.expect("the name of the entry called")?.word,
            _ => "",
        };
        let values = self.tokens.numbers(line)?;
        let entry = self.entry_named(line, name)?;
        match word {
            "s" => entry.service(&values),
            "c" => entry.cvsq(&values),
            "Z" => entry.think(&values),
            "f" => entry.order(&orders(line, &values)?),
            "y" => entry.add_calls(Some(line), target, &values, CallKind::Synchronous),
            "z" => entry.add_calls(Some(line), target, &values, CallKind::Asynchronous),
            "F" => entry.add_forward(Some(line), target, one(line, &values)?),
            _ => entry.open_arrivals(one(line, &values)?),
        };
        Ok(())
    }
}

/// A task of a scheduling, or why there is none.
fn new_task<'b>(
    builder: &'b mut Builder,
    scheduling: &str,
    name: &str,
    processor: &str,
) -> Result<&'b mut TaskDraft, String> {
    Ok(match scheduling {
        "r" => builder.reference(name, processor),
        "n" | "f" => builder.task(name, processor),
        "i" => builder
            .task(name, processor)
            .multiplicity(Multiplicity::Infinite),
        "S" => builder.semaphore(name, processor),
        // LQNS reads W and prints w.
        "W" | "w" => builder.read_write_lock(name, processor),
        other => {
            let message = match other {
                "h" | "p" => refused::ENTRY_PRIORITIES,
                "P" => refused::POLLING,
                "b" | "u" => refused::BURSTS,
                _ => {
                    "use r (reference), n (first come, first served), i (infinite), S \
                          (semaphore) or W (lock of readers and writers)"
                }
            };
            return Err(format!("task scheduling {other}: {message}"));
        }
    })
}

/// Whether a task's name follows `i` (fan-in), and not the next option.
fn is_name(next: &Token<'_>, line: u32) -> bool {
    let option = matches!(next.word, "m" | "z" | "q" | "r" | "o" | "i" | "T");
    next.line == line && !option && next.word.parse::<i32>().is_err()
}

fn expect_word(token: &Token<'_>, word: &str, what: &str) -> Outcome {
    if token.word == word {
        return Ok(());
    }
    Err(at(
        token.line,
        format!(
            "{}: {what} begins with {word}, and -1 ends the section",
            token.word
        ),
    ))
}

fn orders(line: u32, values: &[f64]) -> Result<Vec<CallOrder>, Problem> {
    let order = |&value: &f64| match value {
        0.0 => Ok(CallOrder::Stochastic),
        1.0 => Ok(CallOrder::Deterministic),
        _ => Err(at(
            line,
            format!("{value}: write 0 (random calls) or 1 (calls in order)"),
        )),
    };
    values.iter().map(order).collect()
}

fn one(line: u32, values: &[f64]) -> Result<f64, Problem> {
    match values {
        [value] => Ok(*value),
        _ => Err(at(line, format!("{} numbers: expected one", values.len()))),
    }
}
