//! Words of a `.lqn` text with their lines.

use crate::builder::Problem;

/// A word and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) line: u32,
    pub(super) word: &'a str,
}

/// The words that are left.
pub(super) struct Tokens<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token<'a>>>,
    last_line: u32,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut tokens = Vec::new();
        let mut line = 1;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '#' => rest.find('\n').unwrap_or(rest.len()),
                '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
                _ if first.is_whitespace() => first.len_utf8(),
                _ => rest
                    .find(|c: char| c.is_whitespace() || c == '#' || c == '"')
                    .unwrap_or(rest.len()),
            };
            let (word, after) = rest.split_at(length);
            if first != '#' && !first.is_whitespace() {
                tokens.push(Token { line, word });
            }
            line += u32::try_from(word.matches('\n').count()).unwrap_or(u32::MAX);
            rest = after;
        }
        let last_line = tokens.last().map_or(1, |token| token.line);
        Self {
            tokens: tokens.into_iter().peekable(),
            last_line,
        }
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        self.tokens.next()
    }

    pub(super) fn peek(&mut self) -> Option<&Token<'a>> {
        self.tokens.peek()
    }

    /// The next word, which must be there.
    pub(super) fn expect(&mut self, what: &str) -> Result<Token<'a>, Problem> {
        let line = self.last_line;
        self.next()
            .ok_or_else(|| at(line, format!("the file ends, but {what} was expected")))
    }

    /// The next word, if it stands in this line and is wanted.
    pub(super) fn next_if(
        &mut self,
        line: u32,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<Token<'a>> {
        self.tokens
            .next_if(|token| token.line == line && wanted(token.word))
    }

    pub(super) fn number(&mut self) -> Result<f64, Problem> {
        number(&self.expect("a number")?)
    }

    /// A whole number that is not negative.
    pub(super) fn count(&mut self) -> Result<u32, Problem> {
        let token = self.expect("a whole number")?;
        let parsed = token.word.parse();
        parsed.map_err(|_| {
            at(
                token.line,
                format!("{}: expected a whole number", token.word),
            )
        })
    }

    /// Numbers until -1, or the end of the line.
    pub(super) fn numbers(&mut self, line: u32) -> Result<Vec<f64>, Problem> {
        let mut numbers = Vec::new();
        while let Some(token) = self.next_if(line, |_| true) {
            if token.word == END {
                break;
            }
            numbers.push(number(&token)?);
        }
        Ok(numbers)
    }

    /// Drops what is left of the line.
    pub(super) fn skip_line(&mut self, line: u32) {
        while self.tokens.next_if(|token| token.line <= line).is_some() {}
    }

    /// Drops what is left of the section.
    pub(super) fn skip_section(&mut self) {
        while self.next().is_some_and(|token| token.word != END) {}
    }

    pub(super) fn last_line(&self) -> u32 {
        self.last_line
    }
}

/// What ends a list or a section.
pub(super) const END: &str = "-1";

pub(super) fn at(line: u32, message: String) -> Problem {
    Problem {
        line: Some(line),
        message,
    }
}

fn number(token: &Token<'_>) -> Result<f64, Problem> {
    let parsed = token
        .word
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite());
    parsed.ok_or_else(|| at(token.line, format!("{}: expected a number", token.word)))
}
