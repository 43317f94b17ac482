//! How a node lets a tap see what it does.

use std::time::Duration;

use crate::{
    io::{Datagram, Outbox},
    node::Node,
    tap::What,
};

impl Node {
    /// Lets the tap see what came in, what the node sends, and why. Messages that are dropped unread are
    /// left out: a flood of them would leave no room for calls.
    pub(crate) fn tapped<T>(
        &mut self,
        now: Duration,
        received: Option<Datagram<'_>>,
        out: &mut Outbox,
        work: impl FnOnce(&mut Self, &mut Outbox) -> T,
    ) -> T {
        let sent = out.transmits.len();
        let made = self.desks.proxy.work.decisions.made();
        let (_, cx) = self.parts(now);
        // What moved without a tap is not of this step.
        let _ = cx.stats.take_moves();
        let done = work(self, out);
        let (desks, cx) = self.parts(now);
        let moves = cx.stats.take_moves();
        let Outbox {
            transmits,
            bytes,
            tap,
            ..
        } = out;
        // To take it out and put it back would wait for the last copy to get into memory.
        let Some(tap) = tap.as_mut() else {
            return done;
        };
        let messages = || {
            let came = received.map_or(0, |datagram| datagram.bytes.len());
            let sent = transmits[sent..].iter().map(|sent| sent.range.len());
            came + sent.sum::<usize>()
        };
        if tap.leaves_out(messages) || moves.is_unheard() || !tap.takes(now, moves) {
            return done;
        }
        tap.begin_step();
        if let Some(Datagram { flow, bytes, .. }) = received {
            tap.record(now, What::Received(flow), bytes);
        }
        tap.explain(now, moves);
        let placed = desks.proxy.work.decisions.since(made);
        placed.for_each(|decision| tap.place(now, decision));
        for transmit in &transmits[sent..] {
            let bytes = &bytes[transmit.range.clone()];
            tap.record(now, What::Sent(transmit.flow), bytes);
        }
        done
    }
}
