//! How fast events are found in bytes.
//!
//! Beside the scanner stand sseer, the fastest of the crates that parse server-sent events from
//! bytes, and eventsource-stream, the one that async-openai reads with. Both check that the text is
//! UTF-8 and hand out owned events; the scanner does neither, since Peek hands on the bytes that
//! came. So a row of the scanner that checks UTF-8 and copies the data stands beside it.

use std::{fmt::Write, hint::black_box};

use benches::{row::Row, samples::Samples};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use llm_call::{Framing, Scanner};

/// What a read from a socket gives.
const CHUNK: usize = 16 * 1024;
const CHUNKS: usize = 8;
const SIZES: [usize; 3] = [20, 100, 2000];
const WHO: [&str; 4] = [
    "Scanner",
    "Scanner, UTF-8 checked and copied",
    "sseer",
    "eventsource-stream",
];

/// Chunks of whole events of one size each.
fn chunks(size: usize) -> Vec<Bytes> {
    let event = format!("data: {}\n\n", "x".repeat(size - "data: \n\n".len()));
    let chunk = Bytes::from(event.repeat(CHUNK / size));
    vec![chunk; CHUNKS]
}

fn events(size: usize) -> usize {
    CHUNK / size * CHUNKS
}

fn name(who: &str, size: usize) -> String {
    format!("{who}, {size} bytes")
}

pub(crate) fn rows() -> Vec<Row> {
    SIZES.into_iter().flat_map(rows_of).collect()
}

fn rows_of(size: usize) -> Vec<Row> {
    let check = move |found: usize| assert_eq!(found, events(size));
    let all = chunks(size);
    let prepare = move || all.clone();
    let scanner = Row::new(name(WHO[0], size), prepare.clone(), move |chunks| {
        let mut scanner = Scanner::new(Framing::Sse);
        let mut found = 0;
        for chunk in &chunks {
            let fed = scanner.feed(chunk, |event| {
                black_box(event);
                found += 1;
            });
            fed.unwrap();
        }
        check(found);
    });
    let owned = Row::new(name(WHO[1], size), prepare.clone(), move |chunks| {
        let mut scanner = Scanner::new(Framing::Sse);
        let mut found = 0;
        for chunk in &chunks {
            let fed = scanner.feed(chunk, |event| {
                black_box(str::from_utf8(event.data).unwrap().to_owned());
                found += 1;
            });
            fed.unwrap();
        }
        check(found);
    });
    let sseer = Row::new(name(WHO[2], size), prepare.clone(), move |chunks| {
        let bytes = stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
        let mut events = sseer::EventStream::new(bytes);
        let mut found = 0;
        while let Some(event) = events.next().now_or_never().flatten() {
            black_box(event.unwrap());
            found += 1;
        }
        check(found);
    });
    let eventsource = Row::new(name(WHO[3], size), prepare, move |chunks| {
        let bytes = stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
        let mut events = eventsource_stream::EventStream::new(bytes);
        let mut found = 0;
        while let Some(event) = events.next().now_or_never().flatten() {
            black_box(event.unwrap());
            found += 1;
        }
        check(found);
    });
    vec![scanner, owned, sseer, eventsource]
}

/// By size and crate: ns an event and GB/s.
pub(crate) fn report(samples: &Samples) -> String {
    let mut table = "| row | ns an event | GB/s | to the scanner |\n".to_owned();
    table += "| --- | ---: | ---: | ---: |\n";
    for size in SIZES {
        for who in WHO {
            let row = name(who, size);
            let ns = samples.added(&row, &[]) / events(size) as f64;
            let speed = size as f64 / ns;
            let ratio = samples.ratio(&row, &name(WHO[0], size));
            writeln!(table, "| {row} | {ns:.1} | {speed:.2} | {ratio:.1} |").unwrap();
        }
    }
    table
}
