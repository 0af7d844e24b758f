//! Fields in bytes: what packets and plans are made of, without an allocator.
//!
//! Numbers are in the machine's own byte order; texts have a length in front and a NUL at the end, so that
//! the helper can hand them to the kernel in place. Every read is checked: arbitrary bytes give `None`, never
//! a panic and never a read out of bounds.

use super::step::Step;
use core::ffi::CStr;

/// The longest packet that either side sends or accepts, in bytes.
pub(crate) const MAX_PACKET: usize = 16 * 1024;

/// Reads fields from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    /// Two bytes.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    /// Four bytes.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// Four bytes with a sign.
    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    /// Eight bytes.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Bytes with their length in front.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length)
    }

    /// A text that ends with its only NUL.
    pub(crate) fn text(&mut self) -> Option<&'a CStr> {
        CStr::from_bytes_with_nul(self.bytes()?).ok()
    }

    /// A step by its number.
    pub(crate) fn step(&mut self) -> Option<Step> {
        Step::from_number(self.u16()?)
    }
}

/// Where encoded fields go.
pub(crate) trait Sink {
    /// Appends; `None` when there is no room.
    fn put(&mut self, bytes: &[u8]) -> Option<()>;

    /// One byte.
    fn u8(&mut self, value: u8) -> Option<()> {
        self.put(&value.to_ne_bytes())
    }

    /// Two bytes.
    fn u16(&mut self, value: u16) -> Option<()> {
        self.put(&value.to_ne_bytes())
    }

    /// Four bytes.
    fn u32(&mut self, value: u32) -> Option<()> {
        self.put(&value.to_ne_bytes())
    }

    /// Four bytes with a sign.
    fn i32(&mut self, value: i32) -> Option<()> {
        self.put(&value.to_ne_bytes())
    }

    /// Eight bytes.
    fn u64(&mut self, value: u64) -> Option<()> {
        self.put(&value.to_ne_bytes())
    }

    /// Bytes with their length in front.
    fn bytes(&mut self, value: &[u8]) -> Option<()> {
        self.u32(u32::try_from(value.len()).ok()?)?;
        self.put(value)
    }

    /// A text with its NUL.
    fn text(&mut self, value: &CStr) -> Option<()> {
        self.bytes(value.to_bytes_with_nul())
    }
}

/// A packet under construction, without an allocator.
#[derive(Clone, Debug)]
pub(crate) struct PacketBuffer {
    bytes: [u8; MAX_PACKET],
    used: usize,
}

impl PacketBuffer {
    /// An empty packet.
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; MAX_PACKET], used: 0 }
    }

    /// What was put in so far.
    pub(crate) fn filled(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }
}

impl Sink for PacketBuffer {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.used.checked_add(bytes.len())?;
        self.bytes.get_mut(self.used..end)?.copy_from_slice(bytes);
        self.used = end;
        Some(())
    }
}
