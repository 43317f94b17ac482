//! Reads tables of users with their passwords.

use std::{fs, path::Path};

use csv::{Position, StringRecord, Trim};
use load::Account;
use settings::table;

use super::Refusal;

/// The number of a line, from 1, and its problem.
type Problem = (u64, String);

/// Reads the users of a CSV file. Its first line names the columns.
pub(super) fn read(path: &Path) -> Result<Vec<Account>, Refusal> {
    let file = path.display();
    let text = fs::read(path).map_err(|error| Refusal::Arguments(format!("{file}: {error}")))?;
    parse(&text).map_err(|problems| {
        let place = |(line, problem)| format!("{file}:{line}: {problem}");
        Refusal::File(problems.into_iter().map(place).collect())
    })
}

/// Returns all accounts, or all problems.
fn parse(text: &[u8]) -> Result<Vec<Account>, Vec<Problem>> {
    let line_of = |place: Option<&Position>| place.map_or(1, Position::line);
    let failed = |error: csv::Error| (line_of(error.position()), error.to_string());
    let mut reader = table(text).trim(Trim::All).from_reader(text);
    let names = reader.headers().map_err(|error| vec![failed(error)])?;
    let [username, password] = columns(names).map_err(|problem| vec![(1, problem)])?;
    let (mut accounts, mut problems) = (Vec::new(), Vec::new());
    for row in reader.records() {
        let account = row.map_err(failed).and_then(|row| {
            let account = account(&row[username], &row[password]);
            account.map_err(|problem| (line_of(row.position()), problem))
        });
        match account {
            Ok(account) => accounts.push(account),
            Err(problem) => problems.push(problem),
        }
    }
    match (problems.is_empty(), accounts.is_empty()) {
        (true, false) => Ok(accounts),
        (true, true) => Err(vec![(
            1,
            "the table has no users: add at least one line".to_owned(),
        )]),
        (false, _) => Err(problems),
    }
}

/// The positions of the columns for user names and passwords.
fn columns(names: &StringRecord) -> Result<[usize; 2], String> {
    let find = |name| {
        let place = names.iter().position(|known| known == name);
        place.ok_or_else(|| {
            format!("there is no column `{name}`: name the columns in the first line")
        })
    };
    Ok([find("username")?, find("password")?])
}

fn account(user: &str, password: &str) -> Result<Account, String> {
    // RFC 3261 §25.1: what a user part needs no escapes for.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/".contains(&byte);
    if user.is_empty() || !user.bytes().all(is_plain) {
        return Err(format!(
            "\"{user}\" has characters that a SIP URI must escape: use another user name"
        ));
    }
    Ok(Account {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_passwords() {
        let table = "username;domain;password\nalice;example.com;a,b\nbob; example.com ; secret \n";
        let account = |user: &str, password: &str| Account {
            user: user.to_owned(),
            password: password.to_owned(),
        };
        let expected = vec![account("alice", "a,b"), account("bob", "secret")];
        assert_eq!(parse(table.as_bytes()), Ok(expected));
    }

    #[test]
    fn every_wrong_line_is_told() {
        let problems = parse(b"username,password\na b,1\nalice,2\nbob\n,3\n").unwrap_err();
        let lines: Vec<_> = problems.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 4, 5], "{problems:?}");
        for (table, told) in [
            ("", "username"),
            ("username,password\n", "no users"),
            ("username\nalice\n", "password"),
        ] {
            let problems = parse(table.as_bytes()).unwrap_err();
            assert!(problems[0].1.contains(told), "{problems:?}");
        }
    }
}
