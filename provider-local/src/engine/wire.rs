//! Packets and descriptors over the control socket, the driver's side.

use crate::helper::codec::{MAX_PACKET, PacketBuffer};
use crate::helper::packet::Request;
use crate::helper::socket::MAX_FDS;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Sends one request with its descriptors.
pub(super) fn send(socket: &OwnedFd, request: &Request<'_>, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut packet = PacketBuffer::new();
    request.encode(&mut packet).ok_or(Errno::MSGSIZE)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL.into());
    }
    loop {
        let parts = [IoSlice::new(packet.filled())];
        match rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A packet as it arrived.
pub(super) struct Packet {
    bytes: [u8; MAX_PACKET],
    length: usize,
    pub(super) fd: Option<OwnedFd>,
}

impl Packet {
    pub(super) fn new() -> Self {
        Self { bytes: [0; MAX_PACKET], length: 0, fd: None }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

/// Waits for the next packet; `false` at the end of the connection.
pub(super) fn receive(socket: &OwnedFd, packet: &mut Packet) -> io::Result<bool> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    packet.fd = None;
    let answer = loop {
        let mut parts = [IoSliceMut::new(&mut packet.bytes)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            // "Reset" says once that the other end went away without reading everything; what it had sent
            // before is still to come, then the end.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            answer => break answer?,
        }
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                packet.fd = Some(fd);
            }
        }
    }
    if answer.flags.contains(ReturnFlags::TRUNC) {
        return Err(Errno::MSGSIZE.into());
    }
    packet.length = answer.bytes;
    Ok(answer.bytes > 0)
}

/// A file in memory with these contents that nobody can change any more.
pub(super) fn sealed_file(name: &str, contents: &[u8], flags: MemfdFlags) -> io::Result<File> {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create(name, flags)?);
    file.write_all(contents)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}
