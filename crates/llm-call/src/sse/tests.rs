use proptest::{collection::vec, prelude::*};

use super::*;

type Owned = (Vec<u8>, Vec<u8>, bool);

fn own(event: Event<'_>) -> Owned {
    (event.name.to_vec(), event.data.to_vec(), event.error)
}

fn scan<'c>(framing: Framing, chunks: impl IntoIterator<Item = &'c [u8]>) -> Vec<Owned> {
    let mut scanner = Scanner::new(framing);
    let mut events = Vec::new();
    for chunk in chunks {
        scanner
            .feed(chunk, |event| events.push(own(event)))
            .unwrap();
    }
    events
}

fn data(body: &[u8]) -> Vec<String> {
    scan(Framing::Sse, [body])
        .into_iter()
        .map(|(_, data, _)| String::from_utf8(data).unwrap())
        .collect()
}

#[test]
fn lines_end_with_lf_crlf_or_cr() {
    for body in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\r\rdata: b\r\r",
    ] {
        assert_eq!(data(body.as_bytes()), ["a", "b"], "{body:?}");
    }
}

#[test]
fn a_chunk_that_ends_in_cr_is_not_waited_on() {
    let mut scanner = Scanner::new(Framing::Sse);
    let mut seen = 0;
    scanner.feed(b"data: a\r\r", |_| seen += 1).unwrap();
    assert_eq!(seen, 1);

    // The LF that comes later belongs to that line end, and is not a blank line.
    let mut scanner = Scanner::new(Framing::Sse);
    let mut seen = Vec::new();
    for chunk in ["data: a\r", "", "\ndata: b\r", "\n\r", "\n"] {
        let scan = scanner.feed(chunk.as_bytes(), |event| seen.push(own(event).1));
        scan.unwrap();
    }
    assert_eq!(seen, [b"a\nb".to_vec()]);
}

#[test]
fn unicode_line_separators_end_no_line() {
    let body = "data: a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\n\n";
    assert_eq!(
        data(body.as_bytes()),
        ["a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f"]
    );
}

#[test]
fn one_space_after_the_colon_and_one_mark_at_the_start_are_skipped() {
    assert_eq!(data(b"\xEF\xBB\xBFdata:  a\n\n"), [" a"]);
    assert_eq!(data(b"data:a\n\ndata\n\ndata:\n\n"), ["a", "", ""]);
    // A second mark is the start of an unknown field.
    assert_eq!(
        data(b"\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: b\n\n"),
        ["b"]
    );
    // Half a mark is no mark.
    assert_eq!(data(b"\xEF\xBBdata: a\n\ndata: b\n\n"), ["b"]);
}

#[test]
fn an_event_without_its_blank_line_was_not_received() {
    let mut scanner = Scanner::new(Framing::Sse);
    let scan = scanner.feed(b"data: a\n", |event| panic!("{event:?}"));
    scan.unwrap();
    assert!(!scanner.is_between_events());
    scanner.feed(b"\n", |_| {}).unwrap();
    assert!(scanner.is_between_events());
}

#[test]
fn a_name_without_data_is_no_event_and_does_not_stay() {
    let events = scan(Framing::Sse, [&b"event: ping\n\ndata: a\n\n"[..]]);
    assert_eq!(events, [(vec![], b"a".to_vec(), false)]);
}

#[test]
fn errors_outside_of_data_are_seen() {
    let events = scan(Framing::Sse, [&b"error: {\"code\":400}\n\n"[..]]);
    assert_eq!(events, [(vec![], b"{\"code\":400}".to_vec(), true)]);

    // Gemini at times writes plain JSON into an event stream, and no blank line behind it.
    let json = b"{\n  \"error\": {\n    \"message\": \"a } \\\" b\"\n  }\n}";
    for cut in 0..json.len() {
        let body = [b"data: a\n\n", &json[..]].concat();
        let (start, rest) = body.split_at(cut);
        let events = scan(Framing::Sse, [start, rest]);
        assert_eq!(events[1], (vec![], json.to_vec(), true), "cut at {cut}");
    }
}

#[test]
fn ndjson_is_one_event_a_line() {
    let body = b"{\"a\":1}\r\n\n  \n{\"b\":2}\n{\"c\"";
    for cut in 0..body.len() {
        let (start, rest) = body.split_at(cut);
        let events = scan(Framing::Ndjson, [start, rest]);
        let data: Vec<_> = events.iter().map(|(_, data, _)| &data[..]).collect();
        assert_eq!(data, [&b"{\"a\":1}"[..], b"{\"b\":2}"], "cut at {cut}");
    }
}

#[test]
fn what_is_held_is_bounded() {
    let inputs: [(Framing, &[u8]); 5] = [
        (Framing::Sse, b"data: 0123456789"),
        (Framing::Sse, b"data: 01234\ndata: 56789\n"),
        (Framing::Sse, b": 01234567890123\n"),
        (Framing::Sse, b"{\"a\":\"0123456789\"}"),
        (Framing::Ndjson, b"{\"a\":\"0123456789\"}\n"),
    ];
    for (framing, body) in inputs {
        for size in [1, 7, body.len()] {
            let mut scanner = Scanner::new(framing).max_event(15);
            let failed = body
                .chunks(size)
                .find_map(|chunk| scanner.feed(chunk, |_| {}).err());
            assert_eq!(
                failed,
                Some(EventTooLarge { limit: 15 }),
                "{framing:?} {size}"
            );
            // What comes next may be the middle of an event.
            assert!(scanner.feed(b"data: a\n\n", |_| {}).is_err());
        }
        let mut scanner = Scanner::new(framing).max_event(20);
        scanner.feed(body, |_| {}).unwrap();
    }
    // Many small events, comments and blank lines add up to nothing.
    let mut scanner = Scanner::new(Framing::Sse).max_event(15);
    let body = b": keep-alive\ndata: 01234\n\n".repeat(100);
    scanner.feed(&body, |_| {}).unwrap();
}

/// The specification, read line by line.
fn model(body: &[u8]) -> Vec<Owned> {
    let body = body.strip_prefix(&MARK[..]).unwrap_or(body);
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut bytes = body.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' | b'\n' => {
                if *byte == b'\r' && bytes.peek() == Some(&&b'\n') {
                    bytes.next();
                }
                lines.push(mem::take(&mut line));
            }
            byte => line.push(*byte),
        }
    }
    let mut events = Vec::new();
    let (mut name, mut data, mut error) = (Vec::new(), None::<Vec<u8>>, false);
    for line in lines {
        if line.is_empty() {
            if let Some(data) = data.take() {
                events.push((name.clone(), data, error));
            }
            (name, error) = (Vec::new(), false);
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let field = &line[..colon.unwrap_or(line.len())];
        let value = colon.map_or(&[][..], |at| &line[at + 1..]);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => name = value.to_vec(),
            b"data" | b"error" => {
                error |= field == b"error";
                match &mut data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    None => data = Some(value.to_vec()),
                }
            }
            _ => {}
        }
    }
    events
}

/// A body of lines that matter, without bare JSON, which the specification does not know.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("data: a".as_bytes().to_vec()),
        Just(b"data:b".to_vec()),
        Just(b"data".to_vec()),
        Just(b"event: name".to_vec()),
        Just(b"event:".to_vec()),
        Just(b"error: e".to_vec()),
        Just(b": comment".to_vec()),
        Just(b"id: 1".to_vec()),
        Just(MARK.to_vec()),
        Just("\u{2028}".as_bytes().to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\n\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        vec(
            any::<u8>().prop_filter("bare JSON", |byte| !b"{[".contains(byte)),
            0..5
        ),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn cut<'b>(body: &'b [u8], cuts: &[prop::sample::Index]) -> Vec<&'b [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    cuts.sort_unstable();
    let mut chunks = Vec::new();
    let mut start = 0;
    for end in cuts.into_iter().chain([body.len()]) {
        chunks.push(&body[start..end]);
        start = end;
    }
    chunks
}

proptest! {
    #[test]
    fn the_scanner_is_its_model(body in body(), cuts in vec(any::<prop::sample::Index>(), 0..8)) {
        let events = scan(Framing::Sse, cut(&body, &cuts));
        prop_assert_eq!(events, model(&body));
    }

    #[test]
    fn any_bytes_give_the_same_events_at_any_cut(
        pieces in vec(
            prop_oneof![body(), vec(any::<u8>(), 0..5), Just(b"{\"a\":[\"}\\\"\"]}".to_vec())],
            0..6,
        ),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
        limit in 0..100_usize,
    ) {
        let body = pieces.concat();
        for framing in [Framing::Sse, Framing::Ndjson] {
            let events = scan(framing, cut(&body, &cuts));
            prop_assert_eq!(&events, &scan(framing, [&body[..]]));

            // A limit does not depend on the cuts either.
            let fails = |chunks: Vec<&[u8]>| {
                let mut scanner = Scanner::new(framing).max_event(limit);
                chunks.into_iter().any(|chunk| scanner.feed(chunk, |_| {}).is_err())
            };
            prop_assert_eq!(fails(cut(&body, &cuts)), fails(vec![&body[..]]));
        }
    }
}
