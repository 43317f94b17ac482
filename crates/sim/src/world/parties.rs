//! The parties by their kinds.

use load::{Caller, Phones, Server};

use super::{Role, World};
use crate::{Edge, PartyId};

impl World {
    /// An edge, or another node.
    ///
    /// # Panics
    /// If the party is of another kind.
    #[must_use]
    pub fn edge(&self, id: PartyId) -> &Edge {
        match &self.parties[id.index()].role {
            Role::Edge(edge) => edge,
            other => panic!("{id:?} is no edge: {other:?}"),
        }
    }

    /// An edge, or another node, to change it.
    ///
    /// # Panics
    /// If the party is of another kind.
    pub fn edge_mut(&mut self, id: PartyId) -> &mut Edge {
        match &mut self.parties[id.index()].role {
            Role::Edge(edge) => edge,
            other => panic!("{id:?} is no edge: {other:?}"),
        }
    }

    /// A server.
    ///
    /// # Panics
    /// If the party is of another kind.
    #[must_use]
    pub fn server(&self, id: PartyId) -> &Server {
        match &self.parties[id.index()].role {
            Role::Server(server, _) => server,
            other => panic!("{id:?} is no server: {other:?}"),
        }
    }

    /// A server, to change it.
    ///
    /// # Panics
    /// If the party is of another kind.
    pub fn server_mut(&mut self, id: PartyId) -> &mut Server {
        match &mut self.parties[id.index()].role {
            Role::Server(server, _) => server,
            other => panic!("{id:?} is no server: {other:?}"),
        }
    }

    /// A caller.
    ///
    /// # Panics
    /// If the party is of another kind.
    #[must_use]
    pub fn caller(&self, id: PartyId) -> &Caller {
        match &self.parties[id.index()].role {
            Role::Caller(caller, _) => caller,
            other => panic!("{id:?} is no caller: {other:?}"),
        }
    }

    /// A caller, to change it.
    ///
    /// # Panics
    /// If the party is of another kind.
    pub fn caller_mut(&mut self, id: PartyId) -> &mut Caller {
        match &mut self.parties[id.index()].role {
            Role::Caller(caller, _) => caller,
            other => panic!("{id:?} is no caller: {other:?}"),
        }
    }

    /// Phones.
    ///
    /// # Panics
    /// If the party is of another kind.
    #[must_use]
    pub fn phones(&self, id: PartyId) -> &Phones {
        match &self.parties[id.index()].role {
            Role::Phones(phones, _) => phones,
            other => panic!("{id:?} are no phones: {other:?}"),
        }
    }

    /// Phones, to change them.
    ///
    /// # Panics
    /// If the party is of another kind.
    pub fn phones_mut(&mut self, id: PartyId) -> &mut Phones {
        match &mut self.parties[id.index()].role {
            Role::Phones(phones, _) => phones,
            other => panic!("{id:?} are no phones: {other:?}"),
        }
    }
}
