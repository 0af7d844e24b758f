//! What a build or launch tells while it works.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::mpsc;

/// How many unread log lines are kept; further ones are dropped and counted.
const LOG_LINES_KEPT: usize = 1024;

/// One piece of news.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A new stage began. Never dropped.
    Stage(String),
    /// A line of a log. Dropped when nobody reads.
    Log(String),
    /// The work waits for a place or for a time that the provider named. Never dropped.
    Waiting(String),
}

/// Where news is sent. Sending never blocks and runs no code of the receiver.
#[derive(Clone, Default)]
pub struct Progress(Option<Sender>);

#[derive(Clone)]
struct Sender {
    events: mpsc::UnboundedSender<Event>,
    logs_waiting: Arc<AtomicUsize>,
    logs_dropped: Arc<AtomicUsize>,
}

impl Progress {
    /// Nobody listens.
    pub fn none() -> Self {
        Self(None)
    }

    /// A sender and its receiver.
    pub fn channel() -> (Self, ProgressEvents) {
        let (events, receiver) = mpsc::unbounded_channel();
        let sender = Sender { events, logs_waiting: Arc::default(), logs_dropped: Arc::default() };
        (
            Self(Some(sender.clone())),
            ProgressEvents { receiver, logs_waiting: sender.logs_waiting, logs_dropped: sender.logs_dropped },
        )
    }

    /// A new stage began.
    pub fn stage(&self, name: impl Into<String>) {
        self.send(Event::Stage(name.into()));
    }

    /// The work waits for something.
    pub fn waiting(&self, what: impl Into<String>) {
        self.send(Event::Waiting(what.into()));
    }

    /// A line of a log. Pass no secrets.
    pub fn log(&self, line: impl Into<String>) {
        let Some(sender) = &self.0 else { return };
        if sender.logs_waiting.fetch_add(1, Ordering::Relaxed) < LOG_LINES_KEPT {
            self.send(Event::Log(line.into()));
        } else {
            sender.logs_waiting.fetch_sub(1, Ordering::Relaxed);
            sender.logs_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&self, event: Event) {
        if let Some(sender) = &self.0 {
            let _ = sender.events.send(event);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Progress({})", if self.0.is_some() { "listening" } else { "none" })
    }
}

/// The receiving end of a [`Progress`].
#[derive(Debug)]
pub struct ProgressEvents {
    receiver: mpsc::UnboundedReceiver<Event>,
    logs_waiting: Arc<AtomicUsize>,
    logs_dropped: Arc<AtomicUsize>,
}

impl ProgressEvents {
    /// The next event, or `None` when all senders are gone. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        let event = self.receiver.recv().await;
        self.count(event.as_ref());
        event
    }

    /// The next event if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        let event = self.receiver.try_recv().ok();
        self.count(event.as_ref());
        event
    }

    /// How many log lines were dropped because nobody read.
    pub fn logs_dropped(&self) -> usize {
        self.logs_dropped.load(Ordering::Relaxed)
    }

    fn count(&self, event: Option<&Event>) {
        if let Some(Event::Log(_)) = event {
            self.logs_waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_dropped_before_stages_are() {
        let (progress, mut events) = Progress::channel();
        for line in 0..LOG_LINES_KEPT + 10 {
            progress.log(line.to_string());
        }
        progress.stage("after the flood");
        assert_eq!(events.logs_dropped(), 10);
        let mut last = None;
        while let Some(event) = events.try_next() {
            last = Some(event);
        }
        assert_eq!(last, Some(Event::Stage("after the flood".into())));
        progress.log("room again");
        assert_eq!(events.try_next(), Some(Event::Log("room again".into())));
    }
}
