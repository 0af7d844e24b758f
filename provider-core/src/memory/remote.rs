//! A world in another process, over a Unix socket: one request a connection, as a line of JSON.
//!
//! Each message carries its sender's time, and the receiver's clock catches up, so that two manual clocks tell one
//! time.

use std::{io, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
};

use super::{
    ManualClock,
    world::{Failure, Reply, Request, World},
};
use crate::lifecycle::{Clock as _, Timestamp, control};

#[derive(Serialize, Deserialize)]
struct Message<T> {
    now: Timestamp,
    body: T,
}

/// Serves a world at `socket` until the process ends. A client that goes away undoes nothing.
///
/// # Errors
/// If the socket cannot be made there.
pub async fn serve(world: Arc<World>, clock: ManualClock, socket: &Path) -> io::Result<()> {
    let control = control::handle().map_err(io::Error::other)?;
    let listener = {
        // The listener belongs to the runtime on which it is made.
        let _on_control = control.enter();
        UnixListener::bind(socket)?
    };
    control::spawn(&control, async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(control) = control::handle() {
                let (world, clock) = (Arc::clone(&world), clock.clone());
                control::spawn(&control, async move {
                    let _ = answer(&world, &clock, stream).await;
                });
            }
        }
    });
    Ok(())
}

async fn answer(world: &Arc<World>, clock: &ManualClock, stream: UnixStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let message: Message<Request> = serde_json::from_str(&line)?;
    clock.catch_up(message.now);
    let body = world.call(message.body).await;
    let reply = line_of(&Message { now: clock.now(), body })?;
    stream.get_mut().write_all(&reply).await
}

fn line_of(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// An answer, and the time of the world when it was given.
type Answer = (Timestamp, Result<Reply, Failure>);

/// Sends one request. Whoever takes the answer lets the clock catch up, so that no deadline passes before that.
pub(super) async fn call(socket: &Path, clock: &ManualClock, request: &Request) -> Answer {
    let Ok(stream) = UnixStream::connect(socket).await else { return (clock.now(), Err(Failure::Refused)) };
    exchange(stream, clock, request).await.unwrap_or((clock.now(), Err(Failure::Lost)))
}

async fn exchange(mut stream: UnixStream, clock: &ManualClock, request: &Request) -> io::Result<Answer> {
    stream.write_all(&line_of(&Message { now: clock.now(), body: request })?).await?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).await?;
    let Ok(message) = serde_json::from_str::<Message<Result<Reply, Failure>>>(&reply) else {
        return Ok((clock.now(), Err(if reply.is_empty() { Failure::Lost } else { Failure::Garbled })));
    };
    Ok((message.now, message.body))
}
