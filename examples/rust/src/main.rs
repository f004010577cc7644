//! At most 5 requests per 10 seconds from one address.
//!
//!     cargo run          # then: curl -i http://127.0.0.1:8080/
//!
//! RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
//! when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
//! applies it when its Redis is away; this program does when rlproxy is.
//! RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{from_fn_with_state, Next};
use axum::response::{IntoResponse, Response};
use axum::{routing::get, Router};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use std::{env, net::SocketAddr, time::Duration};

const LIMIT: i64 = 5; // requests
const WINDOW: i64 = 10; // seconds

fn setting(name: &str, otherwise: &str) -> String {
    env::var(name).unwrap_or(otherwise.into())
}

/// A header's value from text without line breaks.
fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap()
}

/// Runs before the handlers of a router.
async fn limited(
    State(mut rl): State<ConnectionManager>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let fail = setting("FAIL", "OPEN");
    let key = format!("ip:{}", from.ip());
    let mut command = redis::cmd("RL.SLIDE");
    command.arg(key).arg(LIMIT).arg(WINDOW).arg("FAIL").arg(&fail);
    let reply: redis::RedisResult<[i64; 5]> = command.query_async(&mut rl).await;

    let [allowed, limit, remaining, retry_after, _] = match reply {
        Ok(reply) => reply,
        Err(_) if fail == "OPEN" => return next.run(request).await,
        Err(_) => return (StatusCode::SERVICE_UNAVAILABLE, "try again later\n").into_response(),
    };
    let wait = (retry_after + 999) / 1000; // seconds, when denied
    let mut headers = HeaderMap::new();
    headers.insert("ratelimit-policy", value(format!("\"default\";q={LIMIT};w={WINDOW}")));
    if remaining >= 0 { // -1: rlproxy could not ask its Redis
        let until = if allowed == 1 { String::new() } else { format!(";t={wait}") };
        headers.insert("ratelimit", value(format!("\"default\";r={remaining}{until}")));
        headers.insert("x-ratelimit-limit", limit.into());
        headers.insert("x-ratelimit-remaining", remaining.into());
    }
    if allowed == 0 {
        headers.insert("retry-after", wait.into());
        headers.insert("x-ratelimit-reset", wait.into());
        return (StatusCode::TOO_MANY_REQUESTS, headers, "too many requests\n").into_response();
    }
    let mut response = next.run(request).await;
    response.headers_mut().extend(headers);
    response
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = redis::Client::open(format!("redis://{}", setting("RLPROXY", "127.0.0.1:6380")))?;
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(Duration::from_millis(250)))
        .set_response_timeout(Some(Duration::from_millis(250)))
        .set_number_of_retries(0);
    let rl = client.get_connection_manager_lazy(config)?; // we also serve while rlproxy is away

    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(from_fn_with_state(rl, limited));
    let address = format!("127.0.0.1:{}", setting("PORT", "8080"));
    let listener = tokio::net::TcpListener::bind(address).await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
