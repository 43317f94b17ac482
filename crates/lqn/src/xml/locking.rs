//! The attributes of what requests take of semaphores and locks.

use crate::model::Locking;

const ATTRIBUTES: [(&str, &str, Locking); 6] = [
    ("semaphore", "signal", Locking::Signal),
    ("semaphore", "wait", Locking::Wait),
    ("rwlock", "r-lock", Locking::ReadLock),
    ("rwlock", "r-unlock", Locking::ReadUnlock),
    ("rwlock", "w-lock", Locking::WriteLock),
    ("rwlock", "w-unlock", Locking::WriteUnlock),
];

/// What an attribute says; `r_lock` means `r-lock`.
pub(super) fn locking(key: &str, value: &str) -> Option<Locking> {
    let value = value.replace('_', "-");
    let mut known = ATTRIBUTES.iter();
    known.find_map(|known| (known.0 == key && known.1 == value).then_some(known.2))
}

pub(super) fn attribute(locking: Locking) -> (&'static str, &'static str) {
    let known = ATTRIBUTES.iter().find(|known| known.2 == locking);
    known
        .map(|known| (known.0, known.1))
        .expect("each has an attribute")
}
