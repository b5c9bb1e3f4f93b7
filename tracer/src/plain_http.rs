//! A client of plain HTTP that asks once and is never led elsewhere: without redirects, proxies, cookies and compression, and with a limit on
//! time and on the head of an answer.
//!
//! Leaves out what is asked and what answers mean (`work/http.rs`, `collector/post.rs`), and TLS.

use std::time::Duration;
use ureq::Agent;
use ureq::http::Uri;

/// A client whose answers take so long at the most, all of them, and have so many bytes of a head.
pub(crate) fn client(patience: Duration, most_head: usize) -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(patience))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .proxy(None)
        .max_response_header_size(most_head)
        .user_agent(concat!("energy-trace/", env!("CARGO_PKG_VERSION")))
        .build();
    config.new_agent()
}

/// The host of an address; `None` where it has none, or names a user.
pub(crate) fn host(uri: &Uri) -> Option<&str> {
    let names_a_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    uri.host().filter(|host| !host.is_empty() && !names_a_user)
}
