//! Kamailio's and OpenSIPS's table of registered phones.

use std::net::SocketAddr;

use crate::{
    Source,
    notes::Notes,
    rows::{Row, Table, rows},
};

/// A registered phone.
#[derive(Clone, Debug, PartialEq)]
pub struct Contact {
    /// The line in its file.
    pub line: usize,
    /// `USER@DOMAIN`.
    pub aor: String,
    /// The URI at which it is called.
    pub contact: String,
    /// The address that it registered from, if it is known.
    pub received: Option<SocketAddr>,
    /// In thousandths.
    pub q: u16,
    /// `YYYY-MM-DD HH:MM:SS`, or seconds since 1970, as the table has it.
    pub expires: String,
    /// Of its last REGISTER.
    pub call_id: String,
    /// Of its last REGISTER.
    pub cseq: u32,
    /// The route to it; may be empty.
    pub path: String,
}

/// The phones of a table; users without a domain are of `domain`. None if it is no such table.
#[must_use]
pub fn contacts(source: Source<'_>, domain: &str) -> Option<Vec<Contact>> {
    let rows = rows(0, source.text, &mut Notes::default())?;
    let found: Vec<Contact> = rows
        .iter()
        .filter(|row| row.table == Table::Location)
        .map(|row| contact(row, domain))
        .collect();
    (!found.is_empty()).then_some(found)
}

fn contact(row: &Row, domain: &str) -> Contact {
    let own = row.get("domain");
    let domain = if own.is_empty() { domain } else { own };
    let received = row.get("received").trim_start_matches("sip:");
    let received = received.split(';').next().unwrap_or_default();
    let q = row.get("q").parse::<f64>().unwrap_or(1.0);
    Contact {
        line: row.at.line,
        aor: format!("{}@{domain}", row.get("username")),
        contact: row.get("contact").to_owned(),
        received: received.parse().ok(),
        // A negative q means none.
        q: if (0.0..=1.0).contains(&q) {
            (q * 1e3) as u16
        } else {
            1_000
        },
        expires: row.get("expires").to_owned(),
        call_id: row.get("callid").to_owned(),
        cseq: row.get("cseq").parse().unwrap_or(0),
        path: row.get("path").to_owned(),
    }
}
