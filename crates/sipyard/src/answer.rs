//! Waits for answers of a store, which come at once or later.

use std::task::Poll;

use store::Error;
use tokio::sync::oneshot;

/// Receives a store's answer, once.
pub(crate) type Done<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// The answer of a store, or the wait for it.
pub(crate) enum Submitted<T> {
    Answered(Result<T, Error>),
    Waiting(oneshot::Receiver<Result<T, Error>>),
}

/// Asks a store and waits for nothing, so that many questions may be under way.
pub(crate) fn submit<T: Send + 'static>(
    ask: impl FnOnce(Done<T>) -> Poll<Result<T, Error>>,
) -> Submitted<T> {
    let (sender, receiver) = oneshot::channel();
    // Whoever asked may have gone away.
    let done = move |answer| drop(sender.send(answer));
    match ask(Box::new(done)) {
        Poll::Ready(answer) => Submitted::Answered(answer),
        Poll::Pending => Submitted::Waiting(receiver),
    }
}

/// Waits for the answer. A store that is gone is busy.
pub(crate) async fn answered<T>(submitted: Submitted<T>) -> Result<T, Error> {
    match submitted {
        Submitted::Answered(answer) => answer,
        Submitted::Waiting(receiver) => receiver.await.unwrap_or(Err(Error::Busy)),
    }
}
