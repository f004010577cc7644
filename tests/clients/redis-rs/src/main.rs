//! redis-rs: AUTH and SELECT in one pipeline, then one shared connection whose
//! manager reconnects after an error.

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{cmd, from_redis_value, pipe, AsyncConnectionConfig, Client, RedisError, Value};
use std::collections::HashMap;
use std::env::var;
use std::io::stdin;
use std::process::exit;
use std::time::{Duration, Instant};

type Reply = (i64, i64, i64, i64, i64);
type Outcome = Result<(), String>;

/// The library's own 500 ms are too short for a busy machine, and it does not retry.
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));

fn url(password: &str) -> String {
    let user = var("RL_USERNAME").unwrap_or_default();
    let login = if password.is_empty() { String::new() } else { format!("{user}:{password}@") };
    let proto = match var("RL_DEFAULT") {
        Ok(_) => String::new(),
        Err(_) => format!("?protocol=resp{}", var("RL_PROTO").unwrap()),
    };
    format!("redis://{login}{}:{}/{proto}", var("RL_HOST").unwrap(), var("RL_PORT").unwrap())
}

async fn slide_once(c: &mut ConnectionManager, key: &str, limit: i64) -> Result<Reply, RedisError> {
    cmd("RL.SLIDE").arg(key).arg(limit).arg(3600).query_async(c).await
}

fn want(ok: bool, got: impl std::fmt::Debug) -> Outcome {
    if ok { Ok(()) } else { Err(format!("unexpected: {got:?}")) }
}

fn text(e: RedisError) -> String {
    e.to_string()
}

async fn connect(c: &mut ConnectionManager) -> Outcome {
    let info: String = cmd("CLIENT").arg("INFO").query_async(c).await.map_err(text)?;
    want(info.contains(&format!("resp={}", var("RL_PROTO").unwrap())), info)
}

async fn auth() -> Outcome {
    let stranger = Client::open(url("wrong")).map_err(text)?;
    let config = AsyncConnectionConfig::new().set_connection_timeout(TIMEOUT).set_response_timeout(TIMEOUT);
    match stranger.get_multiplexed_async_connection_with_config(&config).await {
        Ok(_) => Err("a wrong password was taken".into()),
        // After AUTH the error has the library's words, after HELLO 3 the server's.
        Err(e) => want(e.to_string().contains("WRONGPASS") || e.to_string().contains("Password authentication failed"), e),
    }
}

async fn slide(c: &mut ConnectionManager) -> Outcome {
    for (allowed, remaining) in [(1, 2), (1, 1), (1, 0), (0, 0)] {
        let r = slide_once(c, "slide", 3).await.map_err(text)?;
        let ok = (r.0, r.1, r.2) == (allowed, 3, remaining)
            && (r.3 == 0) == (allowed == 1)
            && (1..=3_600_001).contains(&r.4);
        want(ok, r)?;
    }
    Ok(())
}

async fn counter(c: &mut ConnectionManager) -> Outcome {
    let mut command = cmd("RL.COUNTER");
    command.arg("counter").arg(10).arg(3600).arg("COST").arg(4);
    let r: Reply = command.query_async(c).await.map_err(text)?;
    want((r.0, r.1, r.2, r.3) == (1, 10, 6, 0), r)
}

async fn policy(c: &mut ConnectionManager) -> Outcome {
    let mut set = cmd("RL.POLICY");
    set.arg("SET").arg("plan").arg("SLIDE").arg(3).arg(3600);
    set.exec_async(c).await.map_err(text)?;
    let r: Reply = cmd("RL.CHECK").arg("plan").arg("k").query_async(c).await.map_err(text)?;
    want((r.0, r.1, r.2, r.3) == (1, 3, 2, 0), r)?;
    let plan: HashMap<String, Value> = cmd("RL.POLICY").arg("GET").arg("plan").query_async(c).await.map_err(text)?;
    let name: String = from_redis_value(plan["name"].clone()).map_err(|e| e.to_string())?;
    let limits: Vec<HashMap<String, i64>> = from_redis_value(plan["limits"].clone()).map_err(|e| e.to_string())?;
    want(name == "plan" && limits[0]["limit"] == 3, plan)
}

async fn holds(c: &mut ConnectionManager) -> Outcome {
    let ask = |line: &str| {
        let mut words = line.split(' ');
        let mut command = cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command
    };
    for _ in 0..2 {
        let r: Reply = ask("RL.SLIDE once 5 3600 ONCE a").query_async(c).await.map_err(text)?;
        want((r.0, r.1, r.2, r.3) == (1, 5, 4, 0), r)?;
    }
    let r: Reply = ask("RL.RESERVE reserve 100 3600 COST 40 ID a").query_async(c).await.map_err(text)?;
    want((r.0, r.1, r.2, r.3) == (1, 100, 60, 0), r)?;
    let r: (i64, i64, i64) = ask("RL.SETTLE reserve a 15").query_async(c).await.map_err(text)?;
    want(r == (1, 15, 25), r)?;
    for (id, allowed) in [("a", 1), ("b", 0)] {
        let r: Reply = ask(&format!("RL.ACQUIRE slots 1 ID {id}")).query_async(c).await.map_err(text)?;
        want(r.0 == allowed, r)?;
    }
    let r: i64 = ask("RL.RELEASE slots a b").query_async(c).await.map_err(text)?;
    want(r == 1, r)?;
    let r: Vec<Reply> = ask("RL.SLIDE user 5 3600 AND everyone 9 3600").query_async(c).await.map_err(text)?;
    let keys: Vec<_> = r.iter().map(|r| (r.0, r.1, r.2, r.3)).collect();
    want(keys == [(1, 5, 4, 0), (1, 9, 8, 0)], keys)
}

async fn pipeline(c: &mut ConnectionManager) -> Outcome {
    let mut commands = pipe();
    for _ in 0..20 {
        commands.cmd("RL.SLIDE").arg("pipeline").arg(20).arg(3600);
    }
    let replies: Vec<Reply> = commands.query_async(c).await.map_err(text)?;
    let remaining: Vec<i64> = replies.iter().map(|r| r.2).collect();
    want(remaining == (0..20).rev().collect::<Vec<i64>>(), remaining)
}

async fn transaction(c: &mut ConnectionManager) -> Outcome {
    let mut commands = pipe();
    commands.atomic();
    for _ in 0..3 {
        commands.cmd("RL.SLIDE").arg("transaction").arg(2).arg(3600);
    }
    let replies: Vec<Reply> = commands.query_async(c).await.map_err(text)?;
    let allowed: Vec<i64> = replies.iter().map(|r| r.0).collect();
    want(allowed == [1, 1, 0], allowed)
}

async fn parallel(c: &mut ConnectionManager) -> Outcome {
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let mut c = c.clone();
            tokio::spawn(async move { slide_once(&mut c, "parallel", 30).await })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap().map_err(text)?.0;
    }
    want(admitted == 30, admitted)
}

async fn error(c: &mut ConnectionManager) -> Outcome {
    match slide_once(c, "error", 0).await {
        Ok(reply) => want(false, reply),
        Err(e) => want(
            e.code() == Some("ERR")
                && e.detail() == Some("limit must be an integer between 1 and 1000000000000; it was '0'"),
            e,
        ),
    }
}

async fn reconnect(c: &mut ConnectionManager) -> Outcome {
    println!("RESTART");
    let mut line = String::new();
    stdin().read_line(&mut line).map_err(|e| e.to_string())?;
    want(line == "OK\n", line)?;
    let start = Instant::now();
    loop {
        match slide_once(c, "reconnect", 1).await {
            Ok(r) => return want(r.0 == 1, r),
            Err(e) if start.elapsed() > Duration::from_secs(60) => return Err(text(e)),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn report(name: &str, outcome: Outcome, failed: &mut bool) {
    match outcome {
        Ok(()) => println!("ok {name}"),
        Err(why) => {
            *failed = true;
            println!("FAIL {name} {why}");
        }
    }
}

/// The library does not report its version; the manifest pins it.
fn version() -> &'static str {
    let pin = include_str!("../Cargo.toml").split("redis = { version = \"=").nth(1).unwrap();
    pin.split('"').next().unwrap()
}

#[tokio::main]
async fn main() {
    println!("version {}", version());
    let password = var("RL_PASSWORD").unwrap_or_default();
    let client = Client::open(url(&password)).unwrap();
    let config = ConnectionManagerConfig::new().set_connection_timeout(TIMEOUT).set_response_timeout(TIMEOUT);
    let mut c = match client.get_connection_manager_with_config(config).await {
        Ok(c) => c,
        Err(e) => {
            println!("FAIL connect {e}");
            exit(1);
        }
    };
    let mut failed = false;
    report("connect", connect(&mut c).await, &mut failed);
    if !password.is_empty() {
        report("auth", auth().await, &mut failed);
    }
    report("slide", slide(&mut c).await, &mut failed);
    report("counter", counter(&mut c).await, &mut failed);
    report("policy", policy(&mut c).await, &mut failed);
    report("holds", holds(&mut c).await, &mut failed);
    report("pipeline", pipeline(&mut c).await, &mut failed);
    report("transaction", transaction(&mut c).await, &mut failed);
    report("parallel", parallel(&mut c).await, &mut failed);
    report("error", error(&mut c).await, &mut failed);
    report("reconnect", reconnect(&mut c).await, &mut failed);
    exit(failed as i32);
}
