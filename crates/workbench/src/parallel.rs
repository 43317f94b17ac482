//! Works on many items at once.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    num::NonZero,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// How many threads the machine runs at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Works on all items, on as many threads as there are cores; the results are in the items' order.
pub(crate) fn each<T, R: Send>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let Ok(results) = try_each(cores(), items, |item| Ok::<_, Infallible>(work(item)));
    results
}

/// The same on so many threads. After an error no further item is begun.
///
/// # Errors
/// That of the first item that failed.
pub(crate) fn try_each<T, R: Send, E: Send>(
    threads: usize,
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let items = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(BTreeMap::new());
    let has_failed = AtomicBool::new(false);
    let take = || match has_failed.load(Ordering::Relaxed) {
        true => None,
        false => locked(&items).next(),
    };
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some((place, item)) = take() {
                    let result = work(item);
                    has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    locked(&results).insert(place, result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_values().collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let squares: Vec<usize> = (0..1_000).map(|number| number * number).collect();
        assert_eq!(each(0..1_000, |number| number * number), squares);
        let none: Vec<usize> = each(Vec::<usize>::new(), |number| number);
        assert!(none.is_empty());
    }

    #[test]
    fn the_first_error_ends_it() {
        let begun = AtomicUsize::new(0);
        let work = |number: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if number < 10 { Ok(number) } else { Err(number) }
        };
        assert_eq!(try_each(1, 0..1_000, work), Err(10));
        assert_eq!(begun.into_inner(), 11);
    }
}
