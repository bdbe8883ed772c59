//! The tables of the `system_auth` keyspace: roles and permissions.

use super::definition::{Definition, TABLE};

/// What all tables here are.
const AUTH: Definition = Definition { gc_grace_s: 7_776_000, ..TABLE };

pub const TABLES: &[Definition] = &[
    Definition {
        name: "cidr_groups",
        comment: "cidr groups to cidrs mapping",
        partition_key: "cidr_group text",
        regulars: "cidrs frozen<set<frozen<tuple<inet, smallint>>>>",
        ..AUTH
    },
    Definition {
        name: "cidr_permissions",
        comment: "user cidr permissions",
        partition_key: "role text",
        regulars: "cidr_groups frozen<set<text>>",
        ..AUTH
    },
    Definition {
        name: "identity_to_role",
        comment: "mtls authorized identities lookup table",
        partition_key: "identity text",
        regulars: "role text",
        ..AUTH
    },
    Definition {
        name: "network_permissions",
        comment: "user network permissions",
        partition_key: "role text",
        regulars: "dcs frozen<set<text>>",
        ..AUTH
    },
    Definition {
        name: "resource_role_permissons_index",
        comment: "index of db roles with permissions granted on a resource",
        partition_key: "resource text",
        clustering: "role text",
        ..AUTH
    },
    Definition {
        name: "role_members",
        comment: "role memberships lookup table",
        partition_key: "role text",
        clustering: "member text",
        ..AUTH
    },
    Definition {
        name: "role_permissions",
        comment: "permissions granted to db roles",
        partition_key: "role text",
        clustering: "resource text",
        regulars: "permissions set<text>",
        ..AUTH
    },
    Definition {
        name: "roles",
        comment: "role definitions",
        partition_key: "role text",
        regulars: "can_login boolean, is_superuser boolean, member_of set<text>, salted_hash text",
        ..AUTH
    },
];
