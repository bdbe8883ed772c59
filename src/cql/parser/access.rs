//! Roles, users, identities and permissions.

use super::name::unbindable;
use super::{Parse, Parser};
use crate::cql::ast::AccessStatement;
use crate::cql::ast::access::{AccessScope, Permission, Permissions, Resource, RoleOptions};
use crate::cql::error::SyntaxError;
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl Parser<'_> {
    /// What follows CREATE for a role or user.
    pub(super) fn create_role(&mut self) -> Parse<AccessStatement> {
        if self.eat_keyword(Keyword::Role) {
            let if_not_exists = self.if_not_exists()?;
            return Ok(AccessStatement::CreateRole {
                role: self.role_name()?,
                if_not_exists,
                options: self.role_options()?,
            });
        }
        self.expect_keyword(Keyword::User)?;
        let if_not_exists = self.if_not_exists()?;
        let role = self.user_name()?;
        let mut options = self.user_options()?;
        options.login = Some(true);
        options.superuser = options.superuser.or(Some(false));
        Ok(AccessStatement::CreateRole { role, if_not_exists, options })
    }

    /// What follows ALTER for a role or user.
    pub(super) fn alter_role(&mut self) -> Parse<AccessStatement> {
        let is_user = self.bump().kind == TokenKind::Keyword(Keyword::User);
        let if_exists = self.if_exists()?;
        let (role, options) =
            if is_user { (self.user_name()?, self.user_options()?) } else { (self.role_name()?, self.role_options()?) };
        Ok(AccessStatement::AlterRole { role, if_exists, options })
    }

    /// What follows DROP for a role, user or identity.
    pub(super) fn drop_role(&mut self) -> Parse<AccessStatement> {
        let kind = self.bump().kind;
        let if_exists = self.if_exists()?;
        match kind {
            TokenKind::Keyword(Keyword::Identity) => {
                Ok(AccessStatement::DropIdentity { identity: self.identity()?, if_exists })
            }
            TokenKind::Keyword(Keyword::User) => Ok(AccessStatement::DropRole { role: self.user_name()?, if_exists }),
            _ => Ok(AccessStatement::DropRole { role: self.role_name()?, if_exists }),
        }
    }

    /// `ADD IDENTITY 'x' TO ROLE 'r'`
    pub(super) fn add_identity(&mut self) -> Parse<AccessStatement> {
        self.expect_keyword(Keyword::Add)?;
        self.expect_keyword(Keyword::Identity)?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.identity()?;
        self.expect_keyword(Keyword::To)?;
        self.expect_keyword(Keyword::Role)?;
        Ok(AccessStatement::AddIdentity { identity, role: self.identity()?, if_not_exists })
    }

    pub(super) fn grant(&mut self) -> Parse<AccessStatement> {
        self.expect_keyword(Keyword::Grant)?;
        if self.keyword_at(1) == Some(Keyword::To) {
            let role = self.role_name()?;
            self.expect_keyword(Keyword::To)?;
            let grantee = self.role_name()?;
            return Ok(AccessStatement::GrantRole { role, grantee });
        }
        let permissions = self.permissions()?;
        self.expect_keyword(Keyword::On)?;
        let resource = self.resource()?;
        self.expect_keyword(Keyword::To)?;
        Ok(AccessStatement::GrantPermissions { permissions, resource, grantee: self.role_name()? })
    }

    pub(super) fn revoke(&mut self) -> Parse<AccessStatement> {
        self.expect_keyword(Keyword::Revoke)?;
        if self.keyword_at(1) == Some(Keyword::From) {
            let role = self.role_name()?;
            self.expect_keyword(Keyword::From)?;
            let revokee = self.role_name()?;
            return Ok(AccessStatement::RevokeRole { role, revokee });
        }
        let permissions = self.permissions()?;
        self.expect_keyword(Keyword::On)?;
        let resource = self.resource()?;
        self.expect_keyword(Keyword::From)?;
        Ok(AccessStatement::RevokePermissions { permissions, resource, revokee: self.role_name()? })
    }

    /// LIST ROLES, USERS, SUPERUSERS or permissions.
    pub(super) fn list_access(&mut self) -> Parse<AccessStatement> {
        self.expect_keyword(Keyword::List)?;
        if self.eat_keyword(Keyword::Users) {
            return Ok(AccessStatement::ListUsers);
        }
        if self.eat_keyword(Keyword::Superusers) {
            return Ok(AccessStatement::ListSuperusers);
        }
        if self.eat_keyword(Keyword::Roles) {
            return Ok(AccessStatement::ListRoles {
                of: self.of_role()?,
                recursive: !self.eat_keyword(Keyword::NoRecursive),
            });
        }
        let permissions = self.permissions()?;
        let mut resource = None;
        if self.eat_keyword(Keyword::On) {
            resource = Some(self.resource()?);
        }
        Ok(AccessStatement::ListPermissions {
            permissions,
            resource,
            of: self.of_role()?,
            recursive: !self.eat_keyword(Keyword::NoRecursive),
        })
    }

    fn of_role(&mut self) -> Parse<Option<String>> {
        if !self.eat_keyword(Keyword::Of) {
            return Ok(None);
        }
        Ok(Some(self.role_name()?))
    }

    fn permissions(&mut self) -> Parse<Permissions> {
        if self.eat_keyword(Keyword::All) {
            self.eat_keyword(Keyword::Permissions);
            return Ok(Permissions::All);
        }
        let permissions = self.separated(|parser| {
            let permission = parser.peek_keyword().and_then(permission_named).ok_or_else(|| parser.no_viable())?;
            parser.bump();
            parser.eat_keyword(Keyword::Permission);
            Ok(permission)
        })?;
        Ok(Permissions::Some(permissions))
    }

    fn resource(&mut self) -> Parse<Resource> {
        // A word that is followed by TO or FROM is a table's name, whatever else it may mean.
        let is_last = matches!(self.keyword_at(1), Some(Keyword::To | Keyword::From));
        match self.peek_keyword() {
            Some(Keyword::All) if !is_last => {
                self.bump();
                self.all_resources()
            }
            Some(Keyword::Keyspace) => {
                self.bump();
                Ok(Resource::Keyspace(self.keyspace_name()?))
            }
            Some(Keyword::Role) if !is_last => {
                self.bump();
                Ok(Resource::Role(self.role_name()?))
            }
            Some(Keyword::Function) if !is_last => {
                self.bump();
                Ok(Resource::Function { name: self.function_name()?, arg_types: self.arg_types()? })
            }
            Some(Keyword::Mbean) if !is_last => {
                self.bump();
                Ok(Resource::Mbean(self.string()?))
            }
            Some(Keyword::Mbeans) if !is_last => {
                self.bump();
                Ok(Resource::Mbeans(self.string()?))
            }
            _ => {
                self.eat_table_keyword();
                Ok(Resource::Table(self.table_name()?))
            }
        }
    }

    /// What follows ALL.
    fn all_resources(&mut self) -> Parse<Resource> {
        let Some(keyword) = self.peek_keyword() else {
            return Err(self.no_viable());
        };
        let resource = match keyword {
            Keyword::Keyspaces => Resource::AllKeyspaces,
            Keyword::Roles => Resource::AllRoles,
            Keyword::Mbeans => Resource::AllMbeans,
            Keyword::Functions => {
                self.bump();
                if !self.eat_keyword(Keyword::In) {
                    return Ok(Resource::AllFunctions);
                }
                self.expect_keyword(Keyword::Keyspace)?;
                let keyspace = self.keyspace_name()?;
                return Ok(Resource::KeyspaceFunctions { keyspace });
            }
            Keyword::Tables | Keyword::ColumnFamilies => {
                self.bump();
                self.expect_keyword(Keyword::In)?;
                self.expect_keyword(Keyword::Keyspace)?;
                let keyspace = self.keyspace_name()?;
                return Ok(Resource::AllTables { keyspace });
            }
            _ => return Err(self.no_viable()),
        };
        self.bump();
        Ok(resource)
    }

    /// A role's name; only in quotes does its case count.
    fn role_name(&mut self) -> Parse<String> {
        match self.peek() {
            TokenKind::String => self.string(),
            TokenKind::Question => Err(unbindable("role")),
            _ => Ok(self.ident()?.into_string()),
        }
    }

    /// The name of a user, whose case counts even without quotes.
    fn user_name(&mut self) -> Parse<String> {
        self.bare_name(
            "Quoted strings are are not supported for user names and USER is deprecated, \
             please use ROLE",
        )
    }

    fn identity(&mut self) -> Parse<String> {
        self.bare_name("Quoted strings are are not supported for identity")
    }

    fn bare_name(&mut self, quoted: &str) -> Parse<String> {
        match self.peek() {
            TokenKind::String => self.string(),
            TokenKind::Ident => {
                let token = self.bump();
                Ok(self.source(token).to_owned())
            }
            TokenKind::QuotedName => Err(SyntaxError::rule(quoted)),
            _ => Err(self.no_viable()),
        }
    }

    /// `WITH PASSWORD 'x' SUPERUSER`: the older form, without equals signs.
    fn user_options(&mut self) -> Parse<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.eat_keyword(Keyword::With) {
            let hashed = self.eat_keyword(Keyword::Hashed);
            self.expect_keyword(Keyword::Password)?;
            let password = Some(self.string()?);
            if hashed {
                options.hashed_password = password;
            } else {
                options.password = password;
            }
        }
        if self.eat_keyword(Keyword::Superuser) {
            options.superuser = Some(true);
        } else if self.eat_keyword(Keyword::NoSuperuser) {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    fn role_options(&mut self) -> Parse<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.eat_keyword(Keyword::With) {
            self.joined_by_and(|parser| parser.role_option(&mut options))?;
        }
        if options.password.is_some() && options.hashed_password.is_some() {
            return Err(SyntaxError::rule("Options 'password' and 'hashed password' are mutually exclusive"));
        }
        Ok(options)
    }

    fn role_option(&mut self, options: &mut RoleOptions) -> Parse<()> {
        let Some(keyword) = self.peek_keyword() else {
            return Err(self.no_viable());
        };
        match keyword {
            Keyword::Password => {
                self.bump();
                self.expect(TokenKind::Eq)?;
                options.password = Some(self.string()?);
            }
            Keyword::Hashed => {
                self.bump();
                self.expect_keyword(Keyword::Password)?;
                self.expect(TokenKind::Eq)?;
                options.hashed_password = Some(self.string()?);
            }
            Keyword::Options => {
                self.bump();
                self.expect(TokenKind::Eq)?;
                options.custom = Some(self.constant_map()?);
            }
            Keyword::Superuser => {
                self.bump();
                options.superuser = Some(self.switch()?);
            }
            Keyword::Login => {
                self.bump();
                options.login = Some(self.switch()?);
            }
            Keyword::Access => {
                self.bump();
                self.access_option(options)?;
            }
            _ => return Err(self.no_viable()),
        }
        Ok(())
    }

    /// `= true` or `= false`
    fn switch(&mut self) -> Parse<bool> {
        self.expect(TokenKind::Eq)?;
        let token = self.expect(TokenKind::Boolean)?;
        Ok(self.source(token).eq_ignore_ascii_case("true"))
    }

    /// `TO [ALL] DATACENTERS …` or `FROM [ALL] CIDRS …`
    fn access_option(&mut self, options: &mut RoleOptions) -> Parse<()> {
        if self.eat_keyword(Keyword::To) {
            options.datacenters = Some(self.access_scope(Keyword::Datacenters)?);
        } else if self.eat_keyword(Keyword::From) {
            options.cidrs = Some(self.access_scope(Keyword::Cidrs)?);
        } else {
            return Err(self.no_viable());
        }
        Ok(())
    }

    fn access_scope(&mut self, keyword: Keyword) -> Parse<AccessScope> {
        if self.eat_keyword(Keyword::All) {
            self.expect_keyword(keyword)?;
            return Ok(AccessScope::All);
        }
        self.expect_keyword(keyword)?;
        self.expect(TokenKind::LeftBrace)?;
        let names = self.separated(Self::string)?;
        self.expect(TokenKind::RightBrace)?;
        Ok(AccessScope::Only(names))
    }
}

fn permission_named(keyword: Keyword) -> Option<Permission> {
    match keyword {
        Keyword::Create => Some(Permission::Create),
        Keyword::Alter => Some(Permission::Alter),
        Keyword::Drop => Some(Permission::Drop),
        Keyword::Select => Some(Permission::Select),
        Keyword::Modify => Some(Permission::Modify),
        Keyword::Authorize => Some(Permission::Authorize),
        Keyword::Describe => Some(Permission::Describe),
        Keyword::Execute => Some(Permission::Execute),
        Keyword::Unmask => Some(Permission::Unmask),
        Keyword::SelectMasked => Some(Permission::SelectMasked),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, named, qualified, statement};
    use super::*;
    use crate::cql::ast::{DataType, FunctionName, NativeType, Statement};

    fn check(cql: &str, expected: AccessStatement) {
        assert_eq!(statement(cql), Statement::Access(expected), "{cql}");
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn roles() {
        let created = |role: &str, if_not_exists, options| AccessStatement::CreateRole {
            role: role.to_owned(),
            if_not_exists,
            options,
        };
        check("CREATE ROLE R", created("r", false, RoleOptions::default()));
        check("CREATE ROLE 'R x'", created("R x", false, RoleOptions::default()));
        check(
            "CREATE ROLE IF NOT EXISTS \"R\" WITH PASSWORD = 'p' AND LOGIN = true AND SUPERUSER = FALSE \
             AND OPTIONS = {'a': 'b'} AND ACCESS TO DATACENTERS {'d1', 'd2'} AND ACCESS FROM ALL CIDRS",
            created(
                "R",
                true,
                RoleOptions {
                    password: some("p"),
                    hashed_password: None,
                    superuser: Some(false),
                    login: Some(true),
                    custom: Some(vec![("a".to_owned(), "b".to_owned())]),
                    datacenters: Some(AccessScope::Only(vec!["d1".to_owned(), "d2".to_owned()])),
                    cidrs: Some(AccessScope::All),
                },
            ),
        );
        check(
            "ALTER ROLE IF EXISTS r WITH HASHED PASSWORD = 'h'",
            AccessStatement::AlterRole {
                role: "r".to_owned(),
                if_exists: true,
                options: RoleOptions { hashed_password: some("h"), ..RoleOptions::default() },
            },
        );
        check("DROP ROLE IF EXISTS r", AccessStatement::DropRole { role: "r".to_owned(), if_exists: true });
        check_error(
            "ALTER ROLE r WITH PASSWORD = 'p' AND HASHED PASSWORD = 'h'",
            "Options 'password' and 'hashed password' are mutually exclusive",
        );
        check_error("CREATE ROLE r WITH x = 1", "line 1:19 no viable alternative at input 'x'");
    }

    #[test]
    fn users() {
        check(
            "CREATE USER IF NOT EXISTS Bob WITH PASSWORD 'p' SUPERUSER",
            AccessStatement::CreateRole {
                role: "Bob".to_owned(),
                if_not_exists: true,
                options: RoleOptions {
                    password: some("p"),
                    superuser: Some(true),
                    login: Some(true),
                    ..RoleOptions::default()
                },
            },
        );
        check(
            "ALTER USER 'bob' NOSUPERUSER",
            AccessStatement::AlterRole {
                role: "bob".to_owned(),
                if_exists: false,
                options: RoleOptions { superuser: Some(false), ..RoleOptions::default() },
            },
        );
        check("DROP USER bob", AccessStatement::DropRole { role: "bob".to_owned(), if_exists: false });
        check_error(
            "CREATE USER \"bob\"",
            "Quoted strings are are not supported for user names and USER is deprecated, \
             please use ROLE",
        );
    }

    #[test]
    fn identities() {
        check(
            "ADD IDENTITY IF NOT EXISTS 'spiffe://x' TO ROLE 'r'",
            AccessStatement::AddIdentity {
                identity: "spiffe://x".to_owned(),
                role: "r".to_owned(),
                if_not_exists: true,
            },
        );
        check(
            "DROP IDENTITY IF EXISTS 'x'",
            AccessStatement::DropIdentity { identity: "x".to_owned(), if_exists: true },
        );
        check_error("DROP IDENTITY \"x\"", "Quoted strings are are not supported for identity");
    }

    #[test]
    fn membership_in_roles() {
        check("GRANT a TO \"B\"", AccessStatement::GrantRole { role: "a".to_owned(), grantee: "B".to_owned() });
        check("REVOKE all FROM b", AccessStatement::RevokeRole { role: "all".to_owned(), revokee: "b".to_owned() });
    }

    #[test]
    fn permissions_on_resources() {
        for (text, resource) in [
            ("ALL KEYSPACES", Resource::AllKeyspaces),
            ("KEYSPACE k", Resource::Keyspace(ident("k"))),
            ("ALL TABLES IN KEYSPACE k", Resource::AllTables { keyspace: ident("k") }),
            ("TABLE k.t", Resource::Table(qualified("k", "t"))),
            ("t", Resource::Table(named("t"))),
            ("role", Resource::Table(named("role"))),
            ("ALL ROLES", Resource::AllRoles),
            ("ROLE 'x'", Resource::Role("x".to_owned())),
            ("ALL FUNCTIONS", Resource::AllFunctions),
            ("ALL FUNCTIONS IN KEYSPACE k", Resource::KeyspaceFunctions { keyspace: ident("k") }),
            (
                "FUNCTION k.f(int)",
                Resource::Function {
                    name: FunctionName { keyspace: Some(ident("k")), name: ident("f") },
                    arg_types: vec![DataType::Native(NativeType::INT)],
                },
            ),
            ("ALL MBEANS", Resource::AllMbeans),
            ("MBEAN 'a:b=c'", Resource::Mbean("a:b=c".to_owned())),
            ("MBEANS 'a:*'", Resource::Mbeans("a:*".to_owned())),
        ] {
            check(
                &format!("GRANT SELECT PERMISSION, MODIFY ON {text} TO r"),
                AccessStatement::GrantPermissions {
                    permissions: Permissions::Some(vec![Permission::Select, Permission::Modify]),
                    resource: resource.clone(),
                    grantee: "r".to_owned(),
                },
            );
            check(
                &format!("REVOKE ALL PERMISSIONS ON {text} FROM r"),
                AccessStatement::RevokePermissions { permissions: Permissions::All, resource, revokee: "r".to_owned() },
            );
        }
        check_error("GRANT", "line 0:-1 no viable alternative at input '<EOF>'");
        check_error("GRANT FLY ON t TO r", "line 1:6 no viable alternative at input 'FLY'");
    }

    #[test]
    fn lists() {
        let roles = |of, recursive| AccessStatement::ListRoles { of, recursive };
        check("LIST ROLES", roles(None, true));
        check("LIST ROLES OF r NORECURSIVE", roles(some("r"), false));
        check("LIST USERS", AccessStatement::ListUsers);
        check("LIST SUPERUSERS", AccessStatement::ListSuperusers);
        check(
            "LIST ALL PERMISSIONS",
            AccessStatement::ListPermissions {
                permissions: Permissions::All,
                resource: None,
                of: None,
                recursive: true,
            },
        );
        check(
            "LIST SELECT_MASKED, UNMASK ON t OF r NORECURSIVE",
            AccessStatement::ListPermissions {
                permissions: Permissions::Some(vec![Permission::SelectMasked, Permission::Unmask]),
                resource: Some(Resource::Table(named("t"))),
                of: some("r"),
                recursive: false,
            },
        );
    }

    #[test]
    fn every_permission_has_a_word() {
        use Permission::*;
        for (word, permission) in [
            ("CREATE", Create),
            ("ALTER", Alter),
            ("DROP", Drop),
            ("SELECT", Select),
            ("MODIFY", Modify),
            ("AUTHORIZE", Authorize),
            ("DESCRIBE", Describe),
            ("EXECUTE", Execute),
            ("UNMASK", Unmask),
            ("SELECT_MASKED", SelectMasked),
        ] {
            let keyword = Keyword::parse(word).and_then(permission_named);
            assert_eq!(keyword, Some(permission), "{word}");
        }
        assert_eq!(permission_named(Keyword::Insert), None);
    }
}
