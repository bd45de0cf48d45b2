//! Minimum permissions on PostgreSQL, as in `migrations/postgres/grants.sql`, for roles of one test.

use crate::environment::variable;

const GRANTS_SQL: &str = include_str!("../../posthaste-sqlx/migrations/postgres/grants.sql");
const ROLES: [&str; 3] = ["writer", "relay", "viewer"];

/// The statements that create the roles for the outbox in this schema. Their names start with the schema's name.
pub fn create_roles_sql(schema: &str) -> String {
    let grants = GRANTS_SQL.replace("\"{table}", &format!("\"{schema}\".\"outbox_event"));
    let mut grants = grants.replace("{schema}", schema);
    for role in ROLES {
        for end in [",", ";"] {
            grants = grants.replace(&format!(" {role}{end}"), &format!(" {schema}_{role}{end}"));
        }
    }
    ROLES.map(|role| format!("CREATE ROLE {schema}_{role} LOGIN; ")).concat() + &grants
}

/// The statements that remove the roles.
pub fn drop_roles_sql(schema: &str) -> String {
    let roles = ROLES.map(|role| format!("{schema}_{role}")).join(", ");
    format!("DROP OWNED BY {roles}; DROP ROLE {roles}")
}

/// URL of the test server with one of the roles as its user.
pub fn url_as(schema: &str, role: &str) -> String {
    let url = variable("POSTHASTE_TEST_POSTGRES_URL");
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (_, address) = rest.rsplit_once('@').expect("a URL with a user");
    format!("{scheme}://{schema}_{role}@{address}")
}
