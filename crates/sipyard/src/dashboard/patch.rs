//! What has changed between two states. RFC 7396

use serde_json::{Map, Value};

/// The merge patch that makes `new` of `old`; none if they are the same.
pub(super) fn between(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for (key, value) in after {
        let changed = match before.get(key) {
            Some(known) => between(known, value),
            None => Some(value.clone()),
        };
        patch.extend(changed.map(|changed| (key.clone(), changed)));
    }
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    patch.extend(gone.map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_has_what_changed_and_no_more() {
        let old = json!({ "a": 1, "b": { "c": [1], "d": 2 }, "e": 3 });
        for (new, patch) in [
            (old.clone(), None),
            (
                json!({ "a": 2, "b": { "c": [1], "d": 2 }, "e": 3 }),
                Some(json!({ "a": 2 })),
            ),
            (
                json!({ "a": 1, "b": { "c": [1, 2], "d": 2 }, "f": {} }),
                Some(json!({ "b": { "c": [1, 2] }, "e": null, "f": {} })),
            ),
        ] {
            assert_eq!(between(&old, &new), patch, "{new}");
        }
    }
}
