//! Roles, users, identities and permissions.

use super::data_type::DataType;
use super::name::{FunctionName, Ident, QualifiedName};

/// A statement about who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessStatement {
    /// `CREATE ROLE`, and `CREATE USER` with LOGIN set.
    CreateRole {
        role: String,
        if_not_exists: bool,
        options: RoleOptions,
    },
    /// `ALTER ROLE` or `ALTER USER`
    AlterRole {
        role: String,
        if_exists: bool,
        options: RoleOptions,
    },
    /// `DROP ROLE` or `DROP USER`
    DropRole {
        role: String,
        if_exists: bool,
    },
    /// `GRANT role TO grantee`
    GrantRole {
        role: String,
        grantee: String,
    },
    /// `REVOKE role FROM revokee`
    RevokeRole {
        role: String,
        revokee: String,
    },
    ListRoles {
        of: Option<String>,
        recursive: bool,
    },
    ListUsers,
    ListSuperusers,
    GrantPermissions {
        permissions: Permissions,
        resource: Resource,
        grantee: String,
    },
    RevokePermissions {
        permissions: Permissions,
        resource: Resource,
        revokee: String,
    },
    ListPermissions {
        permissions: Permissions,
        resource: Option<Resource>,
        of: Option<String>,
        recursive: bool,
    },
    AddIdentity {
        identity: String,
        role: String,
        if_not_exists: bool,
    },
    DropIdentity {
        identity: String,
        if_exists: bool,
    },
}

/// What WITH says of a role; None where it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleOptions {
    pub password: Option<String>,
    pub hashed_password: Option<String>,
    pub superuser: Option<bool>,
    pub login: Option<bool>,
    pub custom: Option<Vec<(String, String)>>,
    pub datacenters: Option<AccessScope>,
    pub cidrs: Option<AccessScope>,
}

/// `ACCESS TO ALL DATACENTERS`, `ACCESS TO DATACENTERS {…}` and the same for CIDRS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessScope {
    All,
    Only(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permissions {
    All,
    Some(Vec<Permission>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    Unmask,
    SelectMasked,
}

/// What a permission is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    AllKeyspaces,
    Keyspace(Ident),
    AllTables { keyspace: Ident },
    Table(QualifiedName),
    AllRoles,
    Role(String),
    AllFunctions,
    KeyspaceFunctions { keyspace: Ident },
    Function { name: FunctionName, arg_types: Vec<DataType> },
    AllMbeans,
    Mbean(String),
    Mbeans(String),
}
