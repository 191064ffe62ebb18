//! What other versions, chain names, families and stacks left goes once ours is in place, and nothing of strangers does.
