//! What the compiler says when a stack is not one.

#[test]
fn a_forgotten_peek_is_named() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
