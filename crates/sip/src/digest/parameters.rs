//! The parameters of challenges and credentials (RFC 7616 §3.3, §3.4).

use super::DigestError;
use crate::reader::{Malformed, Reader};

/// The values of these parameters of a field, each as it stands between its quotes.
pub(super) fn parse<'a, const N: usize>(
    value: &'a [u8],
    names: &[&str; N],
) -> Result<[Option<&'a [u8]>; N], DigestError> {
    let mut reader = Reader::new(value, 0, value.len());
    reader.skip_blank();
    match reader.token() {
        Ok(scheme) if scheme.eq_ignore_ascii_case(b"Digest") => (),
        _ => return Err(DigestError::Scheme),
    }
    reader.skip_blank();
    let mut values = [None; N];
    while reader.peek().is_some() {
        let (name, value) = read(&mut reader).map_err(|Malformed| DigestError::Malformed)?;
        let is_name = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
        if let Some(known) = names.iter().position(is_name)
            && values[known].replace(value).is_some()
        {
            return Err(DigestError::Malformed);
        }
    }
    Ok(values)
}

/// Reads a parameter and the comma behind it. A semicolon behind the last one does no harm.
fn read<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    let name = reader.token()?;
    if !reader.separator(b'=') {
        return Err(Malformed);
    }
    let value = read_value(reader)?;
    let is_followed = reader.separator(b',');
    if is_followed || reader.peek().is_none() || is_stray(reader) {
        Ok((name, value))
    } else {
        Err(Malformed)
    }
}

fn is_stray(reader: &mut Reader<'_>) -> bool {
    reader.separator(b';') && reader.peek().is_none()
}

/// A token, or what is between quotes.
fn read_value<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    if !reader.byte(b'"') {
        return reader.token();
    }
    let start = reader.at();
    reader.unquote()?;
    let quoted = reader.since(start);
    Ok(&quoted[..quoted.len() - 1])
}
