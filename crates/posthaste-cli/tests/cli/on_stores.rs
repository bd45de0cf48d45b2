//! Claims about several stores: each is written once and tested on each store, in a module named for the store.

/// Defines a test for each store and claim. A claim is a function of the module that takes a `StoreKind`.
macro_rules! on_stores {
    ([$($store:ident),+] $claims:tt) => { $(on_stores!(@$store $claims);)+ };
    (@sqlite [$($claim:ident),+]) => {
        mod on_sqlite { $(
            #[test]
            fn $claim() { insta::allow_duplicates! { super::$claim($crate::shop::StoreKind::Sqlite); } }
        )+ }
    };
    (@postgres [$($claim:ident),+]) => {
        mod on_postgres { $(
            #[test]
            #[ignore = "needs PostgreSQL: cargo xtask test"]
            fn $claim() { insta::allow_duplicates! { super::$claim($crate::shop::StoreKind::Postgres); } }
        )+ }
    };
    (@mysql [$($claim:ident),+]) => {
        mod on_mysql { $(
            #[test]
            #[ignore = "needs MariaDB: cargo xtask test"]
            fn $claim() { insta::allow_duplicates! { super::$claim($crate::shop::StoreKind::MySql); } }
        )+ }
    };
    (@redis [$($claim:ident),+]) => {
        mod on_redis { $(
            #[test]
            #[ignore = "needs Redis: cargo xtask test"]
            fn $claim() { insta::allow_duplicates! { super::$claim($crate::shop::StoreKind::Redis); } }
        )+ }
    };
}
pub(crate) use on_stores;
