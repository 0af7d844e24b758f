//! The first process of the box: sets it up, starts commands, does file operations, reaps, and ends
//! everything.

use super::codec::Reader;
use super::credentials::Policy;
use super::exec::{self, ExecRequest};
use super::files::{self, FileRequest};
use super::mount_api as api;
use super::mounts::carry_out;
use super::packet::{Reply, Request, Scope};
use super::plan::Header;
use super::processes::signal_tree;
use super::socket::{self, Received, reply};
use super::step::Step;
use super::sys::{self, Errno, Fd, POLLIN, Poll, SIGKILL, SIGTERM};
use super::table::{Kind, Table};

const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_DUMPABLE: usize = 4;

/// Signals that the loop reads from a descriptor: SIGCHLD and SIGTERM.
const WATCHED_SIGNALS: u64 = 1 << (sys::SIGCHLD - 1) | 1 << (SIGTERM - 1);

/// Runs in the new namespaces; never returns.
pub(crate) fn run<'a>(socket: Fd, go_ahead: Fd, header: &Header<'a>, mut actions: Reader<'a>) -> ! {
    match set_up(go_ahead, header, &mut actions) {
        Ok(mut init) => {
            init.socket = socket;
            if reply(socket, &Reply::Ready, None).is_ok() {
                init.serve();
            }
            sys::exit(0)
        }
        Err(failure) => {
            let answer =
                Reply::Failed { step: failure.step, errno: failure.errno.0, subject: failure.subject };
            let _ = reply(socket, &answer, None);
            sys::exit(1)
        }
    }
}

type Failure<'a> = super::mounts::Failure<'a>;

fn failed<'a>(step: Step) -> impl Fn(Errno) -> Failure<'a> {
    move |errno| Failure { step, errno, subject: c"" }
}

fn set_up<'a>(go_ahead: Fd, header: &Header<'a>, actions: &mut Reader<'a>) -> Result<Init, Failure<'a>> {
    // Stage 1 has one thread, so its thread's death is its death.
    sys::process_control(PR_SET_PDEATHSIG, SIGKILL as usize).map_err(failed(Step::Process))?;
    let mut byte = [0; 1];
    if sys::read(go_ahead, &mut byte) != Ok(1) {
        // Stage 1 gave up before the death signal was armed.
        sys::exit(1);
    }
    sys::close(go_ahead);
    sys::set_umask(0);
    let private = api::MS_REC | api::MS_PRIVATE;
    api::mount(c"none", c"/", c"none", private, c"").map_err(failed(Step::PrivateMounts))?;
    sys::set_hostname(header.hostname).map_err(failed(Step::Hostname))?;
    carry_out(actions, header.user_namespace.is_some())?;
    // Nobody in the box may look into the memory or the descriptors of this process. The id map needed it
    // dumpable.
    sys::process_control(PR_SET_DUMPABLE, 0).map_err(failed(Step::Process))?;
    sys::set_blocked_signals(WATCHED_SIGNALS).map_err(failed(Step::Loop))?;
    let policy = Policy {
        user_namespace: header.user_namespace.is_some(),
        no_new_privileges: header.no_new_privileges,
        capabilities: header.capabilities,
    };
    Ok(Init {
        socket: -1,
        signals: sys::signal_fd(WATCHED_SIGNALS).map_err(failed(Step::Loop))?,
        proc: sys::open(sys::AT_CWD, c"/proc", super::nr::O_DIRECTORY, 0).map_err(failed(Step::Loop))?,
        policy,
        table: Table::new(),
        deadline: None,
    })
}

struct Init {
    socket: Fd,
    signals: Fd,
    /// The box's own /proc, held open, so that nothing mounted over it later can deceive.
    proc: Fd,
    policy: Policy,
    table: Table,
    /// While the box shuts down: when SIGTERM becomes SIGKILL.
    deadline: Option<u64>,
}

impl Init {
    /// Until the driver is gone or asks for the end. Leaving ends every process of the box, by the kernel's
    /// hand.
    fn serve(&mut self) {
        let mut received = Received::new();
        let mut entries = [Poll::NOTHING; Table::SIZE + 2];
        loop {
            let count = self.fill(&mut entries);
            let Some(entries) = entries.get_mut(..count) else {
                return;
            };
            if sys::poll(entries, self.time_left()).is_err() {
                continue;
            }
            let [socket_entry, signal_entry, pending @ ..] = &*entries else {
                return;
            };
            for entry in pending.iter().filter(|entry| entry.seen != 0) {
                self.learn_start(entry.fd);
            }
            if signal_entry.seen != 0 && !self.take_signals() {
                return;
            }
            if socket_entry.seen != 0 && !self.take_request(&mut received) {
                return;
            }
            if self.deadline.is_some_and(|deadline| sys::now_milliseconds() >= deadline) {
                let _ = sys::kill(-1, SIGKILL);
                self.deadline = Some(u64::MAX);
            }
        }
    }

    fn fill(&self, entries: &mut [Poll]) -> usize {
        let fixed = [Poll::new(self.socket, POLLIN), Poll::new(self.signals, POLLIN)];
        let pending = self.table.pending().map(|fd| Poll::new(fd, POLLIN));
        let mut count = 0;
        for (place, entry) in entries.iter_mut().zip(fixed.into_iter().chain(pending)) {
            *place = entry;
            count += 1;
        }
        count
    }

    fn time_left(&self) -> Option<u64> {
        self.deadline
            .filter(|deadline| *deadline != u64::MAX)
            .map(|deadline| deadline.saturating_sub(sys::now_milliseconds()))
    }

    /// `false` when the box has shut down.
    fn take_signals(&mut self) -> bool {
        const RECORD: usize = 128;
        let mut record = [0_u8; RECORD];
        while sys::read(self.signals, &mut record) == Ok(RECORD) {
            let [number, ..] = record;
            if u32::from(number) == SIGTERM {
                let _ = sys::kill(-1, SIGTERM);
            }
        }
        self.reap()
    }

    /// `false` when the box shuts down and nobody is left.
    fn reap(&mut self) -> bool {
        loop {
            match sys::reap() {
                Ok(Some(ended)) => self.report_end(ended),
                Ok(None) | Err(Errno::INTR) => return true,
                Err(_) => return self.deadline.is_none(),
            }
        }
    }

    fn report_end(&mut self, ended: sys::Ended) {
        let Some(index) = self.table.index_of_pid(ended.pid) else {
            return;
        };
        if let Some(fd) = self.table.status_pipe(index) {
            self.learn_start(fd);
        }
        let Some(entry) = self.table.remove(index) else {
            return;
        };
        let id = entry.id;
        let answer = match entry.kind {
            Kind::Running => Reply::Exited { id, status: ended.status },
            // Exit code 0: the child has answered by itself.
            Kind::File if ended.status == 0 => return,
            Kind::File => Reply::Refused { id, step: Step::FileChild, errno: Errno::IO.0 },
            // `learn_start` has made it running or refused it.
            Kind::Starting { .. } | Kind::Refused => return,
        };
        let _ = reply(self.socket, &answer, None);
    }

    /// The status pipe of a starting command is readable: closed by execve, or with the reason of its
    /// failure.
    fn learn_start(&mut self, fd: Fd) {
        let mut message = [0_u8; exec::STATUS_SIZE];
        let length = sys::read(fd, &mut message);
        let Some(entry) = self.table.started(fd, length == Ok(0)) else {
            return;
        };
        sys::close(fd);
        let id = entry.id;
        let answer = match length {
            Ok(0) => Reply::Started { id, pid: entry.pid },
            Ok(exec::STATUS_SIZE) => {
                let (step, Errno(errno)) = exec::read_status(message);
                Reply::Refused { id, step, errno }
            }
            _ => Reply::Refused { id, step: Step::Exec, errno: Errno::IO.0 },
        };
        let _ = reply(self.socket, &answer, None);
    }

    /// `false` when the driver is gone or the box has nobody left to shut down.
    fn take_request(&mut self, received: &mut Received) -> bool {
        match socket::receive(self.socket, received) {
            Ok(true) => {}
            Ok(false) => return false,
            // A packet too large or without room for its descriptors: dropped, as the driver never sends one.
            Err(_) => return true,
        }
        let outcome = match Request::decode(received.bytes()) {
            Some(Request::Exec { id, uid, gid, length }) => {
                let streams = [received.fd(1), received.fd(2), received.fd(3)];
                let request = ExecRequest { uid, gid, block: received.fd(0), length, streams };
                self.exec(id, &request).map_err(|failed| (id, failed))
            }
            Some(Request::File { id, uid, gid, action }) => {
                let request = FileRequest { id, uid, gid, action };
                self.file(&request).map_err(|failed| (id, failed))
            }
            Some(Request::Signal { id, target, signal, scope }) => {
                let answer = self.signal(target, signal, scope).map_err(|errno| (Step::Signal, errno));
                answer
                    .map(|()| {
                        let _ = reply(self.socket, &Reply::Done { id }, None);
                    })
                    .map_err(|failed| (id, failed))
            }
            Some(Request::Shutdown { grace_milliseconds }) => {
                received.close_all();
                return self.shut_down(grace_milliseconds);
            }
            Some(Request::Plan { .. }) | None => Err((0, (Step::Request, Errno::BADMSG))),
        };
        received.close_all();
        if let Err((id, (step, Errno(errno)))) = outcome {
            let _ = reply(self.socket, &Reply::Refused { id, step, errno }, None);
        }
        true
    }

    fn exec(&mut self, id: u32, request: &ExecRequest) -> Result<(), (Step, Errno)> {
        let place = self.table.free_place().ok_or((Step::Table, Errno::AGAIN))?;
        let (status, child_end) = sys::pipe().map_err(|errno| (Step::Fork, errno))?;
        let answer = sys::fork();
        if answer == Ok(None) {
            exec::run(child_end, &self.policy, request);
        }
        sys::close(child_end);
        match answer {
            Ok(Some(pid)) => {
                self.table.put(place, id, pid, Kind::Starting { status });
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(errno) => {
                sys::close(status);
                Err((Step::Fork, errno))
            }
        }
    }

    fn file(&mut self, request: &FileRequest<'_>) -> Result<(), (Step, Errno)> {
        let place = self.table.free_place().ok_or((Step::Table, Errno::AGAIN))?;
        match sys::fork().map_err(|errno| (Step::Fork, errno))? {
            None => files::run(self.socket, &self.policy, request),
            Some(pid) => self.table.put(place, request.id, pid, Kind::File),
        }
        Ok(())
    }

    fn signal(&mut self, target: u32, signal: u32, scope: Scope) -> Result<(), Errno> {
        let known = self.table.pid_of(target).ok_or(Errno::SRCH)?;
        match scope {
            Scope::Process if known.running => {
                sys::kill(i32::try_from(known.pid).map_err(|_| Errno::SRCH)?, signal)
            }
            Scope::Process => Err(Errno::SRCH),
            // After the command's own end its session may live on, and keeps its number as long as it does.
            Scope::Tree => {
                let anybody = signal_tree(self.proc, known.pid, signal)?;
                if anybody { Ok(()) } else { Err(Errno::SRCH) }
            }
        }
    }

    fn shut_down(&mut self, grace_milliseconds: u32) -> bool {
        let _ = sys::kill(-1, if grace_milliseconds == 0 { SIGKILL } else { SIGTERM });
        self.deadline = Some(sys::now_milliseconds().saturating_add(u64::from(grace_milliseconds)));
        self.reap()
    }
}
