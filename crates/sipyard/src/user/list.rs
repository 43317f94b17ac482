//! Reads tables of users: CSV, and what `mysql -B` prints of Kamailio's `subscriber`.

use csv::StringRecord;
use location::{Aor, Subscriber};
use settings::table;

use super::subscriber;
use crate::store::read_hex;

/// The number of a line, from 1, and its problem.
type Problem = (u64, String);

/// The positions of the columns.
struct Columns {
    username: usize,
    domain: Option<usize>,
    password: Option<usize>,
    ha1: Option<usize>,
    ha1_sha256: Option<usize>,
}

/// Reads a table. Its users belong to `domain` if the table has no such column. `check` says if a
/// domain is allowed.
pub(super) fn read(
    text: &[u8],
    domain: Option<&str>,
    check: impl Fn(&str) -> Result<(), String>,
) -> Result<Vec<Subscriber>, Vec<Problem>> {
    let mut reader = table(text).from_reader(text);
    let columns = match reader.headers() {
        Ok(names) => Columns::find(names, domain),
        Err(error) => Err(error.to_string()),
    };
    let columns = columns.map_err(|problem| vec![(1, problem)])?;
    let (mut users, mut problems) = (Vec::new(), Vec::new());
    for row in reader.records() {
        let (line, user) = match row {
            Ok(row) => {
                let line = row.position().map_or(0, csv::Position::line);
                (line, columns.user(&row, domain))
            }
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                (line, Err(error.to_string()))
            }
        };
        match user.and_then(|user| check(user.aor.domain()).map(|()| user)) {
            Ok(user) => users.push(user),
            Err(problem) => problems.push((line, problem)),
        }
    }
    if problems.is_empty() {
        Ok(users)
    } else {
        Err(problems)
    }
}

impl Columns {
    fn find(names: &StringRecord, domain: Option<&str>) -> Result<Self, String> {
        let find = |name| names.iter().position(|known| known.trim() == name);
        let columns = Self {
            username: find("username")
                .ok_or("there is no column `username`: name the columns in the first line")?,
            domain: find("domain"),
            password: find("password"),
            ha1: find("ha1"),
            ha1_sha256: find("ha1_sha256"),
        };
        if columns.domain.is_none() && domain.is_none() {
            return Err(
                "there is no column `domain`: add it, or use --domain DOMAIN for all users".into(),
            );
        }
        if [columns.password, columns.ha1, columns.ha1_sha256] == [None; 3] {
            return Err(
                "there is no column `password`, `ha1` or `ha1_sha256`: add one of them".into(),
            );
        }
        Ok(columns)
    }

    fn user(&self, row: &StringRecord, domain: Option<&str>) -> Result<Subscriber, String> {
        let cell = |column: Option<usize>| {
            let text = row.get(column?)?.trim();
            // mysql -B writes what is absent so.
            (!text.is_empty() && text != "NULL").then_some(text)
        };
        let user = cell(Some(self.username)).ok_or("the username is missing")?;
        let domain = cell(self.domain)
            .or(domain)
            .ok_or("the domain is missing")?;
        let aor = Aor::new(user, domain).ok_or_else(|| {
            format!("\"{user}@{domain}\" is not USER@DOMAIN, such as alice@example.com")
        })?;
        if let Some(password) = cell(self.password) {
            return Ok(subscriber(aor, password));
        }
        let md5 = cell(self.ha1).map(|text| read_hex("ha1", text));
        let sha256 = cell(self.ha1_sha256).map(|text| read_hex("ha1_sha256", text));
        if md5.is_none() && sha256.is_none() {
            return Err("the line has no password, ha1 or ha1_sha256: add one of them".into());
        }
        Ok(Subscriber {
            aor,
            ha1_md5: md5.transpose()?,
            ha1_sha256: sha256.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Result<Vec<Subscriber>, Vec<Problem>> {
        read(text.as_bytes(), None, |domain| match domain {
            "example.com" => Ok(()),
            _ => Err("foreign".into()),
        })
    }

    #[test]
    fn passwords_and_hashes_make_the_same_user() {
        // By `printf alice:example.com:secret | md5sum`.
        let md5 = "b1726872c344b6dc8365b774f8fd6412";
        let by_password = read_all("username,domain,password\nalice,example.com,secret\n").unwrap();
        let hash = by_password[0].ha1_md5.unwrap();
        let shown: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, md5);
        let tables = [
            format!(
                "id\tusername\tdomain\tpassword\tha1\tha1b\n1\talice\tEXAMPLE.com\t\t{md5}\tx\n"
            ),
            format!("username;domain;ha1\nalice;example.com;{md5}\n"),
            format!("domain,username,password,ha1\nexample.com,alice,NULL,{md5}\n"),
        ];
        for table in tables {
            let users = read_all(&table).unwrap();
            assert_eq!(users[0].aor, by_password[0].aor, "{table}");
            assert_eq!(users[0].ha1_md5, Some(hash), "{table}");
            assert_eq!(users[0].ha1_sha256, None, "{table}");
        }
        assert!(by_password[0].ha1_sha256.is_some());
    }

    #[test]
    fn every_wrong_line_is_told() {
        let table = "username,domain,password,ha1\n\
                     alice,example.com,secret,\n\
                     bob,example.com,,12\n\
                     ,example.com,secret,\n\
                     carol,example.org,secret,\n\
                     dave,example.com,,\n\
                     erin,example.com\n";
        let lines: Vec<u64> = read_all(table).unwrap_err().iter().map(|it| it.0).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7]);
        for table in [
            "",
            "username,domain\n",
            "domain,password\n",
            "username,password\n",
        ] {
            assert_eq!(read_all(table).unwrap_err()[0].0, 1, "{table}");
        }
    }
}
