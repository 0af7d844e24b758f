//! Starts a command: the child's way from fork to execve.

use super::codec::{Reader, Sink};
use super::credentials::{Policy, assume};
use super::mounts::{MAX_PATH, copy_text};
use super::step::Step;
use super::sys::{self, Errno, Fd};
use core::ffi::CStr;

/// The most supplementary groups that a command may have.
pub(crate) const MAX_GROUPS: usize = 64;

/// Why a command did not start, as it travels through the child's status pipe.
pub(crate) const STATUS_SIZE: usize = 6;

/// An exec request, its descriptors included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecRequest {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The argument block and its length.
    pub(crate) block: Fd,
    pub(crate) length: u64,
    /// stdin, stdout, stderr.
    pub(crate) streams: [Fd; 3],
}

/// The argument block: texts that point into the block, and how many there are of each.
struct Command {
    directory: &'static CStr,
    groups: [u32; MAX_GROUPS],
    group_count: usize,
    arguments: Texts,
    environment: Texts,
}

struct Texts {
    count: usize,
    reader: Reader<'static>,
}

/// Writes an argument block. The driver's side of [`run`].
pub(crate) fn encode_block<'a>(
    sink: &mut impl Sink,
    directory: &CStr,
    groups: &[u32],
    arguments: impl ExactSizeIterator<Item = &'a CStr>,
    environment: impl ExactSizeIterator<Item = &'a CStr>,
) -> Option<()> {
    sink.text(directory)?;
    sink.u32(u32::try_from(groups.len()).ok()?)?;
    groups.iter().try_for_each(|group| sink.u32(*group))?;
    sink.u32(u32::try_from(arguments.len()).ok()?)?;
    for text in arguments {
        sink.text(text)?;
    }
    sink.u32(u32::try_from(environment.len()).ok()?)?;
    for text in environment {
        sink.text(text)?;
    }
    Some(())
}

/// Runs in the child: becomes the command, or writes step and error to `status` and ends.
pub(crate) fn run(status: Fd, policy: &Policy, request: &ExecRequest) -> ! {
    let (step, Errno(errno)) = attempt(policy, request);
    let mut message = [0_u8; STATUS_SIZE];
    let (head, tail) = message.split_at_mut(2);
    head.copy_from_slice(&(step as u16).to_ne_bytes());
    tail.copy_from_slice(&errno.to_ne_bytes());
    let _ = sys::write_all(status, &message);
    sys::exit(127)
}

/// Splits the message of a status pipe.
pub(crate) fn read_status(message: [u8; STATUS_SIZE]) -> (Step, Errno) {
    let [a, b, c, d, e, f] = message;
    let step = Step::from_number(u16::from_ne_bytes([a, b])).unwrap_or(Step::Exec);
    (step, Errno(i32::from_ne_bytes([c, d, e, f])))
}

fn attempt(policy: &Policy, request: &ExecRequest) -> (Step, Errno) {
    match prepare(policy, request) {
        Ok(command) => (Step::Exec, execute(&command)),
        Err(failure) => failure,
    }
}

fn prepare(policy: &Policy, request: &ExecRequest) -> Result<Command, (Step, Errno)> {
    let length = usize::try_from(request.length).map_err(|_| (Step::Arguments, Errno::BIG))?;
    let block = sys::map_file(request.block, length).map_err(|errno| (Step::Arguments, errno))?;
    let command = read_block(block).ok_or((Step::Arguments, Errno::BADMSG))?;
    sys::new_session().map_err(|errno| (Step::Session, errno))?;
    sys::set_umask(0o022);
    connect_streams(request).map_err(|errno| (Step::Streams, errno))?;
    let groups = command.groups.get(..command.group_count).unwrap_or(&[]);
    assume(policy, request.uid, request.gid, groups)?;
    sys::change_dir(command.directory).map_err(|errno| (Step::WorkingDirectory, errno))?;
    sys::set_blocked_signals(0).map_err(|errno| (Step::Session, errno))?;
    Ok(command)
}

fn connect_streams(request: &ExecRequest) -> Result<(), Errno> {
    for (number, stream) in (0..).zip(request.streams) {
        // Without this /dev/stdout could not be opened by its own user. Files keep their owner: only a pipe
        // can be given away safely, and for anything else the call is refused or pointless.
        if is_pipe(stream) {
            let _ = sys::change_fd_owner(stream, request.uid, request.gid);
        }
        sys::duplicate_onto(stream, number)?;
    }
    sys::close_on_exec_from(3)
}

fn is_pipe(fd: Fd) -> bool {
    const S_IFIFO: u32 = 0o010_000;
    sys::file_mode(fd, c"", sys::AT_EMPTY_PATH).is_ok_and(|mode| mode & sys::S_IFMT == S_IFIFO)
}

fn read_block(block: &'static [u8]) -> Option<Command> {
    let mut reader = Reader::new(block);
    let directory = reader.text()?;
    let group_count = usize::try_from(reader.u32()?).ok()?;
    let mut groups = [0; MAX_GROUPS];
    for place in groups.get_mut(..group_count)? {
        *place = reader.u32()?;
    }
    let arguments = read_texts(&mut reader)?;
    let environment = read_texts(&mut reader)?;
    let whole = reader.is_empty() && arguments.count > 0;
    whole.then_some(Command { directory, groups, group_count, arguments, environment })
}

/// Notes where the texts begin and steps over them, so that a broken block is refused before anything is
/// done.
fn read_texts(reader: &mut Reader<'static>) -> Option<Texts> {
    let count = usize::try_from(reader.u32()?).ok()?;
    let start = *reader;
    for _ in 0..count {
        reader.text()?;
    }
    Some(Texts { count, reader: start })
}

impl Texts {
    fn iter(&self) -> impl Iterator<Item = &'static CStr> + use<> {
        let mut reader = self.reader;
        (0..self.count).map_while(move |_| reader.text())
    }

    /// A null-terminated list of addresses, as execve wants it.
    fn addresses(&self) -> Result<&'static [usize], Errno> {
        let list = sys::map_words(self.count.checked_add(1).ok_or(Errno::BIG)?)?;
        for (place, text) in list.iter_mut().zip(self.iter()) {
            *place = text.as_ptr() as usize;
        }
        Ok(list)
    }
}

fn execute(command: &Command) -> Errno {
    let lists = command.arguments.addresses().and_then(|arguments| {
        let environment = command.environment.addresses()?;
        Ok((arguments, environment))
    });
    let (arguments, environment) = match lists {
        Ok(lists) => lists,
        Err(errno) => return errno,
    };
    let Some(program) = command.arguments.iter().next() else {
        return Errno::INVAL;
    };
    let start = |path: &CStr| {
        // SAFETY: both lists end with a zero, since they have one word more than texts and the memory was
        // zeroed; the texts are NUL-terminated and lie in a mapping that stays.
        unsafe { sys::execute(path, arguments, environment) }
    };
    if program.to_bytes().contains(&b'/') {
        return start(program);
    }
    search(program, search_path(command), start)
}

fn search_path(command: &Command) -> &'static [u8] {
    const DEFAULT: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    command.environment.iter().find_map(|text| text.to_bytes().strip_prefix(b"PATH=")).unwrap_or(DEFAULT)
}

/// Tries the program in each folder, as a shell does: a file that may not be executed is remembered, and the
/// search goes on.
fn search(program: &CStr, folders: &[u8], start: impl Fn(&CStr) -> Errno) -> Errno {
    let mut verdict = Errno::NOENT;
    if program.is_empty() {
        return verdict;
    }
    for folder in folders.split(|byte| *byte == b':').filter(|folder| !folder.is_empty()) {
        let mut joined = [0_u8; MAX_PATH];
        let mut buffer = [0_u8; MAX_PATH];
        let Some(length) = join(&mut joined, folder, program.to_bytes()) else {
            continue;
        };
        let Ok(path) = copy_text(&mut buffer, joined.get(..length).unwrap_or(&[])) else {
            continue;
        };
        match start(path) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCES => verdict = Errno::ACCES,
            errno => return errno,
        }
    }
    verdict
}

fn join(buffer: &mut [u8], folder: &[u8], name: &[u8]) -> Option<usize> {
    let slash = folder.len();
    let start = slash.checked_add(1)?;
    let end = start.checked_add(name.len())?;
    buffer.get_mut(..slash)?.copy_from_slice(folder);
    *buffer.get_mut(slash)? = b'/';
    buffer.get_mut(start..end)?.copy_from_slice(name);
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn searched(folders: &[u8], verdict: impl Fn(&CStr) -> Errno) -> (Errno, Vec<String>) {
        let seen = RefCell::new(Vec::new());
        let errno = search(c"tool", folders, |path| {
            seen.borrow_mut().push(path.to_string_lossy().into_owned());
            verdict(path)
        });
        (errno, seen.into_inner())
    }

    #[test]
    fn the_search_goes_through_all_folders() {
        let (errno, seen) = searched(b"/a::/b", |_| Errno::NOENT);
        assert_eq!((errno, seen), (Errno::NOENT, vec!["/a/tool".to_owned(), "/b/tool".to_owned()]));
    }

    #[test]
    fn a_forbidden_file_is_reported_when_nothing_better_is_found() {
        let (errno, seen) =
            searched(b"/a:/b", |path| if path == c"/a/tool" { Errno::ACCES } else { Errno::NOENT });
        assert_eq!((errno, seen.len()), (Errno::ACCES, 2));
    }

    #[test]
    fn the_search_ends_at_a_real_error() {
        let (errno, seen) = searched(b"/a:/b", |_| Errno::BIG);
        assert_eq!((errno, seen.len()), (Errno::BIG, 1));
    }

    #[test]
    fn a_status_message_keeps_step_and_error() {
        let mut message = [0; STATUS_SIZE];
        message[..2].copy_from_slice(&(Step::WorkingDirectory as u16).to_ne_bytes());
        message[2..].copy_from_slice(&2_i32.to_ne_bytes());
        assert_eq!(read_status(message), (Step::WorkingDirectory, Errno::NOENT));
    }
}
