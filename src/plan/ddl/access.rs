//! Which keyspaces DDL may touch.

use crate::protocol::CqlError;
use crate::schema::system;

/// A keyspace that holds what this node knows is closed to everything.
pub fn check_not_local(keyspace: &str) -> Result<(), CqlError> {
    if system::is_local(keyspace) {
        return Err(CqlError::unauthorized(format!("{keyspace} keyspace is not user-modifiable.")));
    }
    Ok(())
}

/// Nothing is created in a system keyspace.
pub fn check_create(keyspace: &str) -> Result<(), CqlError> {
    check_not_local(keyspace)?;
    if system::is_replicated(keyspace) {
        return Err(CqlError::unauthorized(format!("Cannot CREATE <all tables in {keyspace}>")));
    }
    Ok(())
}

/// No table or type of a system keyspace is altered or dropped; `verb` is what was tried.
pub fn check_modify(verb: &str, keyspace: &str, name: &str) -> Result<(), CqlError> {
    check_not_local(keyspace)?;
    if system::is_replicated(keyspace) {
        return Err(CqlError::unauthorized(format!("Cannot {verb} <table {keyspace}.{name}>")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_user_keyspaces_are_open() {
        let text = |result: Result<(), CqlError>| result.err().map(|error| error.message().to_owned());
        assert_eq!(text(check_create("ks")), None);
        assert_eq!(text(check_modify("DROP", "ks", "t")), None);
        let closed = |keyspace: &str| Some(format!("{keyspace} keyspace is not user-modifiable."));
        assert_eq!(text(check_create("system_views")), closed("system_views"));
        assert_eq!(text(check_modify("ALTER", "system", "local")), closed("system"));
        assert_eq!(text(check_create("system_auth")).as_deref(), Some("Cannot CREATE <all tables in system_auth>"));
        assert_eq!(
            text(check_modify("ALTER", "system_auth", "roles")).as_deref(),
            Some("Cannot ALTER <table system_auth.roles>")
        );
    }
}
