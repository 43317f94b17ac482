//! Reads tables of users with their passwords.

use std::{fs, path::Path};

use csv::{Position, StringRecord, Trim};
use load::Account;
use settings::table;

use super::Refusal;

/// Reads the users of a CSV file. Its first line names the columns.
pub(super) fn read(path: &Path) -> Result<Vec<Account>, Refusal> {
    let named = |problem| Refusal::Arguments(format!("{}: {problem}", path.display()));
    let text = fs::read(path).map_err(|error| named(error.to_string()))?;
    parse(&text).map_err(|problems| named(problems.join("; ")))
}

/// Returns all accounts, or all problems.
fn parse(text: &[u8]) -> Result<Vec<Account>, Vec<String>> {
    let mut reader = table(text).trim(Trim::All).from_reader(text);
    let names = reader.headers().map_err(|error| vec![error.to_string()])?;
    let [username, password] = columns(names).map_err(|problem| vec![problem])?;
    let (mut accounts, mut problems) = (Vec::new(), Vec::new());
    for row in reader.records() {
        let account = row.map_err(|error| error.to_string()).and_then(|row| {
            let line = row.position().map_or(0, Position::line);
            account(&row[username], &row[password])
                .map_err(|problem| format!("line {line}: {problem}"))
        });
        match account {
            Ok(account) => accounts.push(account),
            Err(problem) => problems.push(problem),
        }
    }
    match (problems.is_empty(), accounts.is_empty()) {
        (true, false) => Ok(accounts),
        (true, true) => Err(vec![
            "the table has no users: add at least one line".to_owned(),
        ]),
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
        assert_eq!(problems.len(), 3, "{problems:?}");
        for (table, told) in [
            ("", "username"),
            ("username,password\n", "no users"),
            ("username\nalice\n", "password"),
        ] {
            let problems = parse(table.as_bytes()).unwrap_err();
            assert!(problems[0].contains(told), "{problems:?}");
        }
    }
}
