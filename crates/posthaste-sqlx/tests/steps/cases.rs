//! Cases that every server has to pass.

/// Makes a test of each of these functions of the module `cases`, on this kind of runtime.
#[macro_export]
macro_rules! server_tests {
    ($ignored:literal, $runtime:tt, $($case:ident),* $(,)?) => {$(
        #[tokio::test $runtime]
        #[ignore = $ignored]
        async fn $case() {
            cases::$case().await;
        }
    )*};
}
