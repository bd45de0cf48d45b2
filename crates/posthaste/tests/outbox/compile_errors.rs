//! The compiler's messages for the commonest mistakes of a newcomer. After a change of the messages or of the compiler,
//! write them again with `TRYBUILD=overwrite`.

#[test]
fn compiler_says_what_to_do_about_common_mistakes() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}
