//! Overload control with neighbours: RFC 7339 and RFC 7415. `overload` has the arithmetic.
//!
//! As a client, the node offers control to the servers of pools that want it, and obeys what they
//! tell. Only a server at which a request is open may tell anything, by an answer to that request.
//! As a server, it tells known neighbours that offer it how much they may send. What strangers offer
//! is left alone: anybody can write an offer and somebody's address on a datagram.

mod client;
mod of_server;
mod offered;
mod terms;

pub(crate) use self::{
    client::{Repeats, ignore_rest, may_offer, offers, on_response, on_silence, refuse, withhold},
    of_server::Control,
    offered::{is_granted, key_of_neighbour, note, note_refused, takes_part},
    terms::terms,
};
