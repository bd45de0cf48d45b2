//! Cases that every database passes: one function each, and a test of it in the program of each database.

/// Makes a test of each of these async functions of a module: cases that every database passes. The attributes in
/// brackets are given to each test, the arguments in parentheses, if there are any, to `#[tokio::test]`.
#[macro_export]
macro_rules! case_tests {
    ($attributes:tt $module:path: $($case:ident),* $(,)?) => {
        $crate::case_tests!($attributes $module, (): $($case),*);
    };
    ($attributes:tt $module:path, $runtime:tt: $($case:ident),* $(,)?) => {
        $($crate::case_test!($attributes $module, $runtime: $case);)*
    };
}

/// One test, for [`case_tests!`].
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
