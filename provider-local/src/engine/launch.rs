//! Starts a box. Whatever fails, each guard undoes its part, in reverse order.

use super::EngineError;
use super::Shared;
use super::advice::advice;
use super::link::Link;
use super::plan::{BoxPlan, Fault};
use super::root;
use super::running::{Inner, RunningBox};
use super::wire::{self, Packet, sealed_file};
use crate::helper::packet::{Reply, Request};
use crate::store::{BoxDir, Journal};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Starts a box: folder and lock first, then the helper, then "ready".
pub(super) fn start(shared: &Shared, plan: &BoxPlan) -> Result<RunningBox, EngineError> {
    check(plan, shared)?;
    let journal = Journal::new(&plan.name, &plan.layers, plan.journal.clone());
    let folder = shared.store.create_box(&plan.id, &journal)?;
    trip(shared, Fault::AfterFolder)?;
    let layers =
        plan.layers.iter().map(|key| shared.store.require_layer(key)).collect::<Result<Vec<_>, _>>()?;
    let state = shared.store.root();
    let prepared = root::prepare(&shared.config, &shared.facts, plan, &layers, folder.path(), state)?;
    trip(shared, Fault::AfterPlan)?;
    let helper = Helper::start(shared, &plan.id)?;
    trip(shared, Fault::AfterSpawn)?;
    helper.send_plan(prepared.program.bytes(), &folder)?;
    drop(prepared.program);
    if shared.config.fault == Some(Fault::KillHelper) {
        helper.kill();
    }
    let first = helper.wait_ready(shared)?;
    trip(shared, Fault::AfterReady)?;
    let (link, process) = helper.into_link(shared)?;
    Ok(RunningBox {
        inner: Arc::new(Inner {
            id: plan.id.clone(),
            purpose: plan.purpose,
            layout: prepared.layout,
            link,
            helper: process,
            first,
            folder: Mutex::new(Some(folder)),
        }),
    })
}

fn trip(shared: &Shared, fault: Fault) -> Result<(), EngineError> {
    if shared.config.fault == Some(fault) {
        return Err(EngineError::BadInput { what: format!("a test made the start fail: {fault:?}") });
    }
    Ok(())
}

fn check(plan: &BoxPlan, shared: &Shared) -> Result<(), EngineError> {
    let bad = |what: String| Err(EngineError::BadInput { what });
    let host_char = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if plan.hostname.is_empty() || plan.hostname.len() > 63 || !plan.hostname.chars().all(host_char) {
        return bad(format!("{:?} is no host name: 1 to 63 of a-z, A-Z, 0-9 and '-' are", plan.hostname));
    }
    for path in &plan.reserved {
        let plain = path.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_)));
        if !path.is_absolute() || !plain || path.components().count() < 2 {
            return bad(format!(
                "the reserved path {path:?} is not absolute, or has '..' in it, or is the root"
            ));
        }
    }
    for (name, _) in &plan.secrets {
        if !is_file_name(name) {
            return bad(format!(
                "{name:?} cannot be the name of a secret: it must be a file name without a dot in front"
            ));
        }
    }
    check_inputs(plan)?;
    if shared.facts.uid == 0 && plan.purpose == super::Purpose::Run && plan.identity.uid == 0 {
        return bad("a run box has no identity of user 0, which would be this machine's root".to_owned());
    }
    Ok(())
}

fn check_inputs(plan: &BoxPlan) -> Result<(), EngineError> {
    /// The helper has room for some more.
    const MOST: usize = 32;
    let bad = |what: String| Err(EngineError::BadInput { what });
    if plan.purpose == super::Purpose::Run && !plan.inputs.is_empty() {
        return bad(
            "a run box has no build inputs: only a build box can read files of this machine".to_owned()
        );
    }
    if plan.inputs.len() > MOST {
        return bad(format!("{} build inputs are too many: {MOST} are possible", plan.inputs.len()));
    }
    for (index, input) in plan.inputs.iter().enumerate() {
        let name = &input.name;
        if !is_file_name(name) {
            return bad(format!(
                "{name:?} cannot be the name of a build input: it must be a file name without a dot in front"
            ));
        }
        if plan.inputs.iter().take(index).any(|other| other.name == *name) {
            return bad(format!("two build inputs have the name {name:?}; give each its own"));
        }
        if !input.path.is_absolute() {
            let path = input.path.display();
            return bad(format!("the path {path} of the build input {name:?} is not absolute"));
        }
    }
    Ok(())
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// The helper between its start and "ready". Dropping it kills it, and waits until it is dead.
struct Helper {
    id: String,
    socket: Option<OwnedFd>,
    child: Option<Child>,
    process: Option<OwnedFd>,
}

impl Helper {
    fn start(shared: &Shared, id: &str) -> Result<Self, EngineError> {
        let connection =
            |errno: rustix::io::Errno| EngineError::Connection { id: id.to_owned(), source: errno.into() };
        let family = AddressFamily::UNIX;
        let (socket, other) =
            rustix::net::socketpair(family, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(connection)?;
        // A helper that was stopped from outside must not block its driver for ever.
        rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(shared.config.request_limit))
            .map_err(connection)?;
        let child = shared.image.start(&shared.store, id, other)?;
        let mut helper = Self { id: id.to_owned(), socket: Some(socket), child: Some(child), process: None };
        let pid = helper.child.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
        let pid = pid.ok_or_else(|| connection(rustix::io::Errno::SRCH))?;
        helper.process = Some(rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(connection)?);
        Ok(helper)
    }

    fn broken(&self, source: impl Into<io::Error>) -> EngineError {
        EngineError::Connection { id: self.id.clone(), source: source.into() }
    }

    fn socket(&self) -> Result<&OwnedFd, EngineError> {
        self.socket.as_ref().ok_or_else(|| self.broken(io::ErrorKind::NotConnected))
    }

    fn send_plan(&self, bytes: &[u8], folder: &BoxDir) -> Result<(), EngineError> {
        let plan = sealed_file("plan", bytes, MemfdFlags::empty()).map_err(|error| self.broken(error))?;
        let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
        let own = own.map_err(|error| self.broken(error))?;
        let lock = folder.lock().ok_or_else(|| self.broken(io::ErrorKind::NotFound))?;
        let fds = [plan.as_fd(), lock.as_fd(), own.as_fd()];
        let request = Request::Plan { length: bytes.len() as u64 };
        wire::send(self.socket()?, &request, &fds).map_err(|error| self.broken(error))
    }

    fn kill(&self) {
        if let Some(process) = &self.process {
            let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
        }
    }

    /// Waits for "ready", and gives the pidfd of the first process in the box.
    fn wait_ready(&self, shared: &Shared) -> Result<Option<OwnedFd>, EngineError> {
        let deadline = Instant::now() + shared.config.start_limit;
        let mut packet = Packet::new();
        let mut first = None;
        loop {
            if !self.wait_readable(deadline)? {
                let limit = shared.config.start_limit;
                return Err(EngineError::Timeout { id: self.id.clone(), what: "start", limit });
            }
            let more = wire::receive(self.socket()?, &mut packet).map_err(|error| self.broken(error))?;
            if !more {
                return Err(self.broken(io::ErrorKind::ConnectionAborted));
            }
            let fd = packet.fd.take();
            match Reply::decode(packet.bytes()) {
                Some(Reply::Born) => first = fd,
                Some(Reply::Ready) => return Ok(first),
                Some(Reply::Failed { step, errno, subject }) => {
                    let subject = subject.to_string_lossy();
                    return Err(EngineError::Start {
                        step,
                        subject: if subject.is_empty() { String::new() } else { format!(" {subject:?}") },
                        source: io::Error::from_raw_os_error(errno),
                        advice: advice(&shared.facts, step, errno),
                    });
                }
                _ => return Err(self.broken(io::ErrorKind::InvalidData)),
            }
        }
    }

    fn wait_readable(&self, deadline: Instant) -> Result<bool, EngineError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let time = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let mut entries = [PollFd::new(self.socket()?, PollFlags::IN)];
            match rustix::event::poll(&mut entries, Some(&time)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// Hands the helper over to the thread that reads its socket.
    fn into_link(mut self, shared: &Shared) -> Result<(Arc<Link>, OwnedFd), EngineError> {
        let missing =
            || EngineError::Connection { id: self.id.clone(), source: io::ErrorKind::NotConnected.into() };
        let process = self.process.take().ok_or_else(missing)?;
        let spare = process.try_clone().map_err(|error| self.broken(error))?;
        self.process = Some(spare);
        let socket = self.socket.take().ok_or_else(missing)?;
        let child = self.child.take().ok_or_else(missing)?;
        match Link::open(&self.id, socket, child, shared.config.request_limit) {
            Ok(link) => Ok((link, process)),
            Err((error, child)) => {
                self.child = Some(child);
                Err(error)
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        // The end of the connection makes stage 1 kill the box and wait for all of it; killing stage 1 itself
        // would not wait.
        drop(self.socket.take());
        if !ends_within(self.process.as_ref(), Duration::from_secs(5)) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

fn ends_within(process: Option<&OwnedFd>, limit: Duration) -> bool {
    let Some(process) = process else { return false };
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&time)) {
            Ok(0) if left.is_zero() => return false,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}
