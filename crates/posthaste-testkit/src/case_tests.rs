//! Test cases shared by several databases: one async function each, and a test of it in the test program of each
//! database.

/// Declares a test for each of these async functions of a module. The attributes in brackets are added to every test;
/// the arguments in parentheses, if any, are passed to `#[tokio::test]`.
#[macro_export]
macro_rules! case_tests {
    ($attributes:tt $module:path: $($case:ident),* $(,)?) => {
        $crate::case_tests!($attributes $module, (): $($case),*);
    };
    ($attributes:tt $module:path, $runtime:tt: $($case:ident),* $(,)?) => {
        $($crate::case_test!($attributes $module, $runtime: $case);)*
    };
}

/// Declares one test, for [`case_tests!`].
#[doc(hidden)]
#[macro_export]
macro_rules! case_test {
    ([$($attribute:tt)*] $module:path, $runtime:tt: $case:ident) => {
        #[tokio::test $runtime]
        $($attribute)*
        async fn $case() {
            use $module as cases;
            cases::$case().await;
        }
    };
}
