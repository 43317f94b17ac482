//! What strangers send in others' names.

use node::stats::Dropped;

use crate::{
    harness::{Cluster, EDGE, ONE, TWO, config},
    message::request,
};

/// Requests with the node's own address as their source went to servers, whose answers led nowhere; so the
/// servers seemed silent.
#[test]
fn what_claims_to_be_ours_goes_nowhere() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    for method in ["OPTIONS", "INVITE", "BYE", "REGISTER"] {
        let sent = cluster.send(&request(method, EDGE, method));
        assert!(sent.is_empty(), "{sent:?}");
    }
    assert_eq!(cluster.dropped(Dropped::FromUs), 4);
}
