//! Programs that are missing, too old, crash or hang, and a lock that somebody else holds.
