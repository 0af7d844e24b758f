//! What the helper can be doing when something fails. Driver and helper share the numbers.

macro_rules! steps {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $words:literal;)*) => {
        /// A named step of the helper; every failure it reports carries one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Step { $($(#[doc = $doc])* $name = $number,)* }

        impl Step {
            /// Every step, for tests and tables.
            pub const ALL: &'static [Step] = &[$(Step::$name,)*];

            /// The step with this number.
            pub fn from_number(number: u16) -> Option<Step> {
                match number { $($number => Some(Step::$name),)* _ => None }
            }

            /// What was being done, as words that finish the sentence "could not ...".
            pub fn words(self) -> &'static str {
                match self { $(Step::$name => $words,)* }
            }
        }
    };
}

steps! {
    /// Stage 1 waits for the plan.
    ReceivePlan = 1, "receive the plan of the box";
    /// The bytes of the plan make no sense.
    ReadPlan = 2, "read the plan of the box";
    /// clone(2) with the namespaces of the plan.
    Namespaces = 3, "create the namespaces";
    /// uid_map, gid_map, setgroups.
    IdMap = 4, "write the id map of the user namespace";
    /// Death signal, umask, dumpable flag, signal mask.
    Process = 5, "set up the first process of the box";
    /// Every mount made private.
    PrivateMounts = 6, "make the mounts private to the box";
    /// A tmpfs.
    Tmpfs = 7, "mount a tmpfs";
    /// A directory.
    MakeDir = 8, "make a directory";
    /// A file with contents.
    WriteFile = 9, "write a file";
    /// A symbolic link.
    MakeLink = 10, "make a symbolic link";
    /// A whiteout, which hides a file of a lower layer.
    Whiteout = 11, "hide a file of the base";
    /// The mark that hides what lies below a directory.
    Opaque = 12, "hide the contents of a directory of the base";
    /// The overlay of layers.
    Overlay = 13, "mount the overlay of layers";
    /// pivot_root(2).
    EnterRoot = 14, "enter the root file system of the box";
    /// A bind mount.
    Bind = 15, "bind a path of this machine into the box";
    /// A fresh /proc.
    Proc = 16, "mount /proc";
    /// Fresh pseudo terminals.
    Devpts = 17, "mount /dev/pts";
    /// A path hidden inside the box.
    Hide = 18, "hide a path inside the box";
    /// A path made read-only inside the box.
    ReadOnly = 19, "make a path read-only inside the box";
    /// A reserved path that the box may not change.
    Reserve = 20, "lock a reserved path";
    /// A path of this machine is kept at hand for a bind mount.
    Take = 21, "take a path of this machine";
    /// sethostname(2).
    Hostname = 22, "set the host name of the box";
    /// The first process is up, but its loop cannot start.
    Loop = 23, "wait for requests";
    /// The first process of the box ended before it was ready.
    FirstProcess = 24, "keep the first process of the box alive";
    /// fork(2) of a command or of a file operation.
    Fork = 30, "start a process in the box";
    /// There is no place in the process table.
    Table = 31, "start one more process in the box";
    /// The argument block makes no sense.
    Arguments = 32, "read the arguments of the command";
    /// setsid(2), umask(2), signal mask.
    Session = 33, "give the command its own session";
    /// dup3(2) of the streams.
    Streams = 34, "connect the streams of the command";
    /// setgroups(2).
    Groups = 35, "set the supplementary groups";
    /// setresgid(2).
    Group = 36, "set the group";
    /// setresuid(2).
    User = 37, "set the user";
    /// Bounding set and capability sets.
    Capabilities = 38, "drop the capabilities";
    /// PR_SET_NO_NEW_PRIVS.
    NoNewPrivileges = 39, "forbid new privileges";
    /// chdir(2).
    WorkingDirectory = 40, "enter the working directory";
    /// execve(2).
    Exec = 41, "execute the program";
    /// kill(2).
    Signal = 42, "send the signal";
    /// openat(2).
    OpenFile = 43, "open the file";
    /// mkdirat(2).
    MakeDirectory = 44, "make the directory";
    /// unlinkat(2).
    Unlink = 45, "remove the file";
    /// unlinkat(2) with AT_REMOVEDIR.
    RemoveDirectory = 46, "remove the directory";
    /// renameat2(2).
    Rename = 47, "rename the file";
    /// The child that did a file operation died before it answered.
    FileChild = 48, "finish the file operation";
    /// A packet that the helper does not know.
    Request = 49, "understand the request";
}
