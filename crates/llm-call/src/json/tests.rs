use proptest::prelude::*;

use super::*;

fn shown(text: &str) -> Vec<String> {
    let mut shown = Vec::new();
    walk(text.as_bytes(), |path, value| {
        shown.push(format!("{path:?} {value:?}"));
    })
    .unwrap();
    shown
}

#[test]
fn each_value_is_shown_with_its_path() {
    assert_eq!(
        shown(r#"{"choices":[{"index":1,"x":"\n"}],"done":true,"usage":null}"#),
        [
            "[] Object",
            "[Choices] List",
            "[Choices, Item] Object",
            "[Choices, Item, Index] Number(1)",
            "[Choices, Item, Other] Text(\"\\n\")",
            "[Choices, Item] End",
            "[Done] Bool(true)",
            "[Usage] Null",
            "[] End",
        ]
    );
}

#[test]
fn an_array_at_the_root_is_many_roots() {
    assert_eq!(
        shown(r#"[{"done":1},2]"#),
        ["[] Object", "[Done] Number(1)", "[] End", "[] Number(2)"]
    );
}

#[test]
fn numbers_are_cut_to_whole_ones() {
    assert_eq!(
        shown("[-1,-2.9,2.9,1e30,18446744073709551615]"),
        [
            "[] Number(-1)",
            "[] Number(-2)",
            "[] Number(2)",
            "[] Number(9223372036854775807)",
            "[] Number(9223372036854775807)"
        ]
    );
}

#[test]
fn what_lies_too_deep_is_checked_and_not_shown() {
    let deep = |inner: &str| format!("{{\"x\":{}{inner}{}}}", "[".repeat(20), "]".repeat(20));
    assert_eq!(
        shown(&deep("1"))
            .iter()
            .filter(|line| line.contains("Number"))
            .count(),
        0
    );
    assert!(walk(deep("nope").as_bytes(), |_, _| {}).is_err());
}

#[test]
fn a_text_must_be_json_to_its_end() {
    let text = r#"{"error":{"message":"no \u00e9 \" }"},"list":[1,-2.5e3,true,null]}"#;
    walk(text.as_bytes(), |_, _| {}).unwrap();
    for end in 0..text.len() {
        assert!(
            walk(&text.as_bytes()[..end], |_, _| {}).is_err(),
            "cut at {end}"
        );
    }
    assert!(walk(format!("{text} x").as_bytes(), |_, _| {}).is_err());
    walk(format!("\n\n{text}\n").as_bytes(), |_, _| {}).unwrap();
}

/// Feature unification can turn this on behind our back.
#[test]
fn numbers_of_arbitrary_precision_are_numbers() {
    assert_eq!(
        shown(r#"{"done":{"$serde_json::private::Number":"-12"}}"#)[1],
        "[Done] Number(-12)"
    );
}

proptest! {
    #[test]
    fn garbage_never_panics(text in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = walk(&text, |_, _| {});
    }
}

#[test]
fn half_a_surrogate_pair_is_read_as_what_it_is_not() {
    for (text, mended) in [
        (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
        (r#""\ud83d""#, r#""\ufffd""#),
        (r#""\uDE00\uD83D\uDE00""#, r#""\ufffd\uD83D\uDE00""#),
        (
            r#""\ud83dx\ud83d\ud83d\ude00""#,
            r#""\ufffdx\ufffd\ud83d\ude00""#,
        ),
        (r#""\\ud83d\\\ud83d""#, r#""\\ud83d\\\ufffd""#),
        (r#""\ud7ff\ue000\"\ud8""#, r#""\ud7ff\ue000\"\ud8""#),
        ("\"\\", "\"\\"),
    ] {
        let whole = with_whole_surrogates(text.as_bytes());
        assert_eq!(String::from_utf8_lossy(&whole), mended);
        let is_borrowed = matches!(whole, std::borrow::Cow::Borrowed(_));
        assert_eq!(is_borrowed, text == mended);
    }
    assert!(walk(br#"{"a":"\ud83d"}"#, |_, _| {}).is_ok());
}
