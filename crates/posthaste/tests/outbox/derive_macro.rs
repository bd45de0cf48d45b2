//! `#[derive(Event)]`: what compiles and runs, and the compiler's messages for what does not.

#[test]
fn derive_accepts_and_refuses_as_documented() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/derive/pass/*.rs");
    cases.compile_fail("tests/derive/fail/*.rs");
}
