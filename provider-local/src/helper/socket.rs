//! Packets with descriptors over the control socket.

use super::codec::{MAX_PACKET, PacketBuffer};
use super::nr;
use super::packet::Reply;
use super::sys::{Answer, Errno, Fd, call, close};
use core::ptr;

/// The most descriptors that come with one packet.
pub(crate) const MAX_FDS: usize = 4;

const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;
const CONTROL_HEADER: usize = 16;

/// struct iovec.
#[repr(C)]
struct Part {
    base: usize,
    length: usize,
}

/// struct msghdr.
#[repr(C)]
struct Message {
    name: usize,
    name_length: usize,
    parts: usize,
    parts_count: usize,
    control: usize,
    control_length: usize,
    flags: usize,
}

/// The control data that carries descriptors: struct cmsghdr, then the numbers.
#[repr(C, align(8))]
struct Control {
    length: usize,
    level: u32,
    kind: u32,
    fds: [Fd; 6],
}

impl Control {
    const EMPTY: Control = Control { length: 0, level: 0, kind: 0, fds: [-1; 6] };
}

/// A packet as it arrived.
pub(crate) struct Received {
    bytes: [u8; MAX_PACKET],
    length: usize,
    fds: [Fd; MAX_FDS],
}

impl core::fmt::Debug for Received {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Received")
            .field("length", &self.length)
            .field("fds", &self.fds)
            .finish_non_exhaustive()
    }
}

impl Received {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; MAX_PACKET], length: 0, fds: [-1; MAX_FDS] }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }

    /// Descriptor number `index` of the packet, or -1.
    pub(crate) fn fd(&self, index: usize) -> Fd {
        self.fds.get(index).copied().unwrap_or(-1)
    }

    /// Closes the descriptors that nobody took.
    pub(crate) fn close_all(&mut self) {
        for fd in &mut self.fds {
            if *fd >= 0 {
                close(*fd);
            }
            *fd = -1;
        }
    }
}

/// Waits for the next packet; `false` at the end of the connection.
pub(crate) fn receive(socket: Fd, into: &mut Received) -> Answer<bool> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    const MSG_TRUNC: usize = 0x20;
    const MSG_CTRUNC: usize = 0x8;
    into.close_all();
    into.length = 0;
    let mut control = Control::EMPTY;
    let mut part = Part { base: into.bytes.as_mut_ptr() as usize, length: MAX_PACKET };
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: ptr::from_mut(&mut part) as usize,
        parts_count: 1,
        control: ptr::from_mut(&mut control) as usize,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    let arguments = [socket as usize, ptr::from_mut(&mut message) as usize, MSG_CMSG_CLOEXEC, 0, 0, 0];
    let length = loop {
        // SAFETY: the message describes memory that lives here, with its true sizes.
        match unsafe { call(nr::RECVMSG, arguments) } {
            // "Reset" is said once; what the other end had sent before is still to come, then the end.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            answer => break answer?,
        }
    };
    if message.control_length >= CONTROL_HEADER && control.level == SOL_SOCKET && control.kind == SCM_RIGHTS {
        let count = control.length.saturating_sub(CONTROL_HEADER) / size_of::<Fd>();
        for (index, fd) in control.fds.iter().take(count).enumerate() {
            match into.fds.get_mut(index) {
                Some(place) => *place = *fd,
                None => close(*fd),
            }
        }
    }
    if message.flags & (MSG_TRUNC | MSG_CTRUNC) != 0 {
        into.close_all();
        return Err(Errno::BADMSG);
    }
    into.length = length;
    Ok(length > 0)
}

/// Sends an answer, with a descriptor if there is one. A driver that is gone is noticed elsewhere.
pub(crate) fn reply(socket: Fd, answer: &Reply<'_>, fd: Option<Fd>) -> Answer<()> {
    let mut packet = PacketBuffer::new();
    answer.encode(&mut packet).ok_or(Errno::BIG)?;
    send(socket, packet.filled(), fd)
}

fn send(socket: Fd, bytes: &[u8], fd: Option<Fd>) -> Answer<()> {
    const MSG_NOSIGNAL: usize = 0x4000;
    let mut control = Control::EMPTY;
    let mut control_length = 0;
    if let Some(fd) = fd {
        control.length = CONTROL_HEADER + size_of::<Fd>();
        control.level = SOL_SOCKET;
        control.kind = SCM_RIGHTS;
        control.fds = [fd, -1, -1, -1, -1, -1];
        // CMSG_SPACE of one descriptor.
        control_length = CONTROL_HEADER + size_of::<usize>();
    }
    let part = Part { base: bytes.as_ptr() as usize, length: bytes.len() };
    let message = Message {
        name: 0,
        name_length: 0,
        parts: ptr::from_ref(&part) as usize,
        parts_count: 1,
        control: if control_length == 0 { 0 } else { ptr::from_ref(&control) as usize },
        control_length,
        flags: 0,
    };
    let arguments = [socket as usize, ptr::from_ref(&message) as usize, MSG_NOSIGNAL, 0, 0, 0];
    loop {
        // SAFETY: the message describes memory that lives here, with its true sizes.
        match unsafe { call(nr::SENDMSG, arguments) } {
            Err(Errno::INTR) => {}
            answer => return answer.map(drop),
        }
    }
}
