//! The documented matrix is the real one.

use llm_call::Matrix;

#[test]
fn the_docs_show_the_default_matrix() {
    let shown = Matrix::default().to_string();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/MATRIX.md");
    if std::env::var_os("MATRIX").is_some_and(|how| how == "overwrite") {
        std::fs::write(path, &shown).expect("MATRIX.md can be written");
    }
    assert_eq!(
        include_str!("../MATRIX.md"),
        shown,
        "run this test with MATRIX=overwrite and look at the difference"
    );
    // The README of the project shows it too; it is not there in a packaged crate.
    if let Ok(readme) =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"))
    {
        assert!(readme.contains(&shown), "the README shows another matrix");
    }
}
