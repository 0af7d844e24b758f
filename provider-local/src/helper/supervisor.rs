//! Stage 1: outside the box, with one thread. It makes the namespaces, ends the box when the driver is gone,
//! and holds the lock of the box until every process in it is dead.

use super::codec::Reader;
use super::init;
use super::packet::{Reply, Request};
use super::plan::{Header, IdMaps};
use super::processes::open_proc_file;
use super::socket::{self, Received, reply};
use super::step::Step;
use super::sys::{self, Errno, Fd, POLLERR, POLLHUP, POLLIN, POLLRDHUP, Poll, SIGKILL};

const NEW_MOUNT: usize = 0x2_0000;
const NEW_UTS: usize = 0x400_0000;
const NEW_IPC: usize = 0x800_0000;
const NEW_USER: usize = 0x1000_0000;
const NEW_PID: usize = 0x2000_0000;

/// The control socket goes here, out of the way of the streams of commands.
const SOCKET_FLOOR: Fd = 100;

type Failed = (Step, Errno);

/// The helper's whole life.
pub(crate) fn run() -> ! {
    let Ok(socket) = take_socket() else { sys::exit(90) };
    // Ctrl-C in the driver's terminal must reach the driver, which then closes its boxes in order.
    let _ = sys::new_session();
    sys::reset_signals();
    let _ = sys::set_blocked_signals(0);
    // Nor may this process keep the caller's working directory from being unmounted.
    let _ = sys::change_dir(c"/");
    let mut received = Received::new();
    match socket::receive(socket, &mut received) {
        Ok(true) => {}
        Ok(false) => sys::exit(0),
        Err(errno) => fail(socket, (Step::ReceivePlan, errno)),
    }
    let Some(Request::Plan { length }) = Request::decode(received.bytes()) else {
        fail(socket, (Step::ReceivePlan, Errno::BADMSG))
    };
    let descriptors = Descriptors { plan: received.fd(0), lock: received.fd(1), driver: received.fd(2) };
    match supervise(socket, length, &descriptors) {
        Ok(()) => sys::exit(0),
        Err(failed) => fail(socket, failed),
    }
}

struct Descriptors {
    plan: Fd,
    /// Only kept open: while this process or the first process of the box lives, the lock is taken.
    lock: Fd,
    driver: Fd,
}

fn take_socket() -> Result<Fd, Errno> {
    let socket = sys::duplicate_above(0, SOCKET_FLOOR)?;
    // Numbers 0 to 2 stay taken (by /dev/null), so that no descriptor that arrives gets one of them.
    sys::duplicate_onto(1, 0)?;
    Ok(socket)
}

fn fail(socket: Fd, (step, Errno(errno)): Failed) -> ! {
    let _ = reply(socket, &Reply::Failed { step, errno, subject: c"" }, None);
    sys::exit(1)
}

fn supervise(socket: Fd, length: u64, descriptors: &Descriptors) -> Result<(), Failed> {
    if descriptors.plan < 0 || descriptors.lock < 0 || descriptors.driver < 0 {
        return Err((Step::ReceivePlan, Errno::BADMSG));
    }
    let length = usize::try_from(length).map_err(|_| (Step::ReceivePlan, Errno::BIG))?;
    let plan = sys::map_file(descriptors.plan, length).map_err(|errno| (Step::ReceivePlan, errno))?;
    sys::close(descriptors.plan);
    let mut reader = Reader::new(plan);
    let header = Header::decode(&mut reader).ok_or((Step::ReadPlan, Errno::BADMSG))?;
    let (go_ahead, gate) = sys::pipe().map_err(|errno| (Step::Namespaces, errno))?;
    let mut namespaces = NEW_MOUNT | NEW_UTS | NEW_IPC | NEW_PID;
    if header.user_namespace.is_some() {
        namespaces |= NEW_USER;
    }
    match sys::fork_into(namespaces).map_err(|errno| (Step::Namespaces, errno))? {
        None => {
            sys::close(gate);
            sys::close(descriptors.driver);
            init::run(socket, go_ahead, &header, reader)
        }
        Some((pid, pidfd)) => {
            sys::close(go_ahead);
            let child = Child { pid, pidfd };
            let answer = child.release(socket, gate, &header).inspect_err(|_| {
                let _ = sys::kill_pidfd(pidfd, SIGKILL);
                let _ = sys::wait_for(pid);
            });
            answer.and_then(|()| child.watch(socket, descriptors.driver))
        }
    }
}

struct Child {
    pid: u32,
    pidfd: Fd,
}

impl Child {
    /// Maps the ids, tells the driver, and lets the child go on.
    fn release(&self, socket: Fd, gate: Fd, header: &Header<'_>) -> Result<(), Failed> {
        if let Some(maps) = header.user_namespace {
            self.write_maps(&maps).map_err(|errno| (Step::IdMap, errno))?;
        }
        // A driver that is gone is noticed by `watch`.
        let _ = reply(socket, &Reply::Born, Some(self.pidfd));
        let answer = sys::write_all(gate, b"1").map_err(|errno| (Step::FirstProcess, errno));
        sys::close(gate);
        answer
    }

    fn write_maps(&self, maps: &IdMaps<'_>) -> Result<(), Errno> {
        let proc = sys::open(sys::AT_CWD, c"/proc", sys::O_PATH, 0)?;
        let write = |file: &[u8], text: &[u8]| {
            let fd = open_proc_file(proc, self.pid, file, sys::O_WRONLY)?;
            let answer = sys::write_all(fd, text);
            sys::close(fd);
            answer
        };
        // Without "deny" an ordinary user may not write a map of groups.
        let answer = write(b"setgroups", b"deny")
            .and_then(|()| write(b"uid_map", maps.users))
            .and_then(|()| write(b"gid_map", maps.groups));
        sys::close(proc);
        answer
    }

    /// Until the box has ended. A driver that forks without executing leaves a copy of its end of the socket
    /// behind, so its death is watched as well.
    fn watch(&self, socket: Fd, driver: Fd) -> Result<(), Failed> {
        const GONE: i16 = POLLHUP | POLLRDHUP | POLLERR;
        loop {
            let mut entries =
                [Poll::new(socket, POLLRDHUP), Poll::new(driver, POLLIN), Poll::new(self.pidfd, POLLIN)];
            if sys::poll(&mut entries, None).is_err() {
                continue;
            }
            let [socket_entry, driver_entry, child_entry] = entries;
            let driver_gone = socket_entry.seen & GONE != 0 || driver_entry.seen != 0;
            if child_entry.seen != 0 || driver_gone {
                if driver_gone {
                    let _ = sys::kill_pidfd(self.pidfd, SIGKILL);
                }
                let status = sys::wait_for(self.pid).map_err(|errno| (Step::FirstProcess, errno))?;
                // The first process reports its own failures and then ends with 1; anything else is news.
                let expected = driver_gone || matches!(status, 0 | 0x100);
                return if expected { Ok(()) } else { Err((Step::FirstProcess, Errno(status as i32))) };
            }
        }
    }
}
