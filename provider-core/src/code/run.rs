//! One run: sends the code, and collects what comes back until its end.

use std::time::Duration;

use super::{
    CodeEnd, CodeError, CodeOptions, CodeOutput,
    frame::{Broken, Frame, HAS_ERROR, HAS_VALUE, Kind, TRUNCATED},
    interrupt::Running,
    process::Process,
};
use crate::sandbox::ExitStatus;

/// How a run ended, as the session sees it.
pub(super) enum RunEnd {
    /// The code came to its end.
    Done,
    /// The session is lost.
    Lost(Loss),
}

/// Why a session is lost.
pub(super) enum Loss {
    /// The interpreter ended.
    Died(ExitStatus),
    /// Nothing came within limit and grace. The driver had read the interrupt, so that it is the code that hangs; or
    /// it had not.
    Silent { acknowledged: bool },
    /// What came cannot be read.
    Broken(Broken),
}

/// The texts that come back, by kind.
#[derive(Default)]
struct Texts {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    value: Vec<u8>,
    name: Vec<u8>,
    message: Vec<u8>,
    traceback: Vec<u8>,
}

impl Texts {
    fn of(&mut self, kind: Kind) -> Option<&mut Vec<u8>> {
        Some(match kind {
            Kind::Stdout => &mut self.stdout,
            Kind::Stderr => &mut self.stderr,
            Kind::Value => &mut self.value,
            Kind::ErrorName => &mut self.name,
            Kind::ErrorMessage => &mut self.message,
            Kind::Traceback => &mut self.traceback,
            _ => return None,
        })
    }
}

/// A run under way.
pub(super) struct Run {
    number: u64,
    cap: usize,
    texts: Texts,
    flags: u8,
    acknowledged: bool,
    timed_out: bool,
}

impl Run {
    pub(super) fn new(number: u64, cap: usize) -> Self {
        Self { number, cap, texts: Texts::default(), flags: 0, acknowledged: false, timed_out: false }
    }

    /// Runs code to an end of any kind, within limit and grace.
    pub(super) async fn carry_out(
        &mut self,
        process: &mut Process,
        running: &Running,
        code: &str,
        limit: Duration,
        options: &CodeOptions,
    ) -> RunEnd {
        process.send(self.number, Kind::Code, code.as_bytes());
        process.send(self.number, Kind::Run, self.cap.to_string().as_bytes());
        let mut alarm = options.clock.sleep(limit);
        loop {
            tokio::select! {
                // Time comes first, so that a flood of frames does not hide it.
                biased;
                () = &mut alarm => {
                    if self.timed_out {
                        return RunEnd::Lost(Loss::Silent { acknowledged: self.acknowledged });
                    }
                    self.timed_out = true;
                    // Only what comes from now on says that the driver still reads.
                    self.acknowledged = false;
                    process.send(self.number, Kind::Interrupt, b"");
                    alarm = options.clock.sleep(options.interrupt_grace);
                }
                () = running.interrupted() => process.send(self.number, Kind::Interrupt, b""),
                frame = process.next() => match frame.and_then(|frame| self.take(frame)) {
                    Ok(None) => {}
                    Ok(Some(end)) => return end,
                    Err(broken) => return RunEnd::Lost(Loss::Broken(broken)),
                },
            }
        }
    }

    fn take(&mut self, frame: Frame) -> Result<Option<RunEnd>, Broken> {
        if frame.run != self.number {
            return Err(Broken::Unreadable("it answered another run"));
        }
        if let Some(text) = self.texts.of(frame.kind) {
            let room = self.cap - text.len();
            text.extend_from_slice(&frame.payload[..frame.payload.len().min(room)]);
            if frame.payload.len() > room {
                self.flags |= TRUNCATED;
            }
            return Ok(None);
        }
        match frame.kind {
            Kind::Acknowledged => {
                self.acknowledged = true;
                Ok(None)
            }
            Kind::Done => {
                let flags = text(&frame.payload).parse().ok().filter(|flags: &u8| *flags < 8);
                self.flags |= flags.ok_or(Broken::Unreadable("it ended the run in an unknown way"))?;
                Ok(Some(RunEnd::Done))
            }
            Kind::Ended => {
                let said = text(&frame.payload);
                let status = match said.split_once(' ').map(|(kind, number)| (kind, number.parse())) {
                    Some(("code", Ok(code))) => ExitStatus::Code(code),
                    Some(("signal", Ok(signal))) => ExitStatus::Signal(signal),
                    _ => return Err(Broken::Unreadable("it ended in an unknown way")),
                };
                Ok(Some(RunEnd::Lost(Loss::Died(status))))
            }
            _ => Err(Broken::Unreadable("it sent a frame that no driver sends")),
        }
    }

    /// What came back.
    pub(super) fn output(self, end: CodeEnd) -> CodeOutput {
        let Self { texts, flags, timed_out, .. } = self;
        CodeOutput {
            end: if timed_out && end == CodeEnd::Finished { CodeEnd::TimedOut } else { end },
            value: (flags & HAS_VALUE != 0).then(|| text(&texts.value)),
            truncated: flags & TRUNCATED != 0,
            error: (flags & HAS_ERROR != 0).then(|| CodeError {
                name: text(&texts.name),
                message: text(&texts.message),
                traceback: text(&texts.traceback),
            }),
            stdout: texts.stdout,
            stderr: texts.stderr,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
