//! All that is logged while the trials run.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use tracing_subscriber::fmt::MakeWriter;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Collector;

impl io::Write for Collector {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Collector {
    type Writer = Collector;

    fn make_writer(&self) -> Collector {
        Collector
    }
}

/// From now on, everything is kept.
pub(crate) fn collect() {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(Collector)
        .init();
}

/// What was logged so far.
pub(crate) fn text() -> String {
    String::from_utf8_lossy(&LINES.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}
