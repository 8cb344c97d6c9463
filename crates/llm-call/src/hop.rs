//! Headers that end with one connection.

use http::{
    HeaderMap, HeaderName,
    header::{CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE},
};

/// Those of RFC 9110, 7.6.1, and what HTTP/1.0 clients still send. `trailer` is not among them: who
/// hands trailers on hands their announcement on.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Removes the headers that speak of one connection, and those that its `connection` header names:
/// what stands between two connections must not hand them on.
///
/// # Example
///
/// ```
/// let mut request = http::Request::get("/v1/models")
///     .header("connection", "x-private")
///     .header("x-private", "1")
///     .header("x-kept", "1")
///     .body(())?;
/// llm_call::remove_hop_by_hop(request.headers_mut());
/// assert_eq!(request.headers().len(), 1);
/// # Ok::<(), http::Error>(())
/// ```
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}
