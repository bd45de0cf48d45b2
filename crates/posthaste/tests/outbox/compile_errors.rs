//! The compiler's messages for the commonest mistakes of a newcomer. After a change of the messages or of the compiler,
//! write them again with `TRYBUILD=overwrite`.

#[test]
fn compiler_reports_common_mistakes_with_the_next_step() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}
