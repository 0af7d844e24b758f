//! Places at which a test can stop the lifecycle: before and after each verb and each row of the ledger.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

/// A step of the lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// A driver's build, as a whole.
    Build,
    /// A driver's launch, as a whole.
    Launch,
    /// One creating request.
    Create,
    /// A lookup by intent.
    Find,
    /// A read by id.
    Observe,
    /// A delete request.
    Delete,
    /// A listing of an owner's things.
    List,
    /// The row that says what is about to be created.
    WriteIntent,
    /// The row that says what was created.
    WriteAcquired,
    /// A row that says that nothing was created, or that this is not known.
    WriteOutcome,
    /// The row that says that a thing is gone.
    WriteDeleted,
    /// The rows that say that a thing is kept.
    WriteKept,
    /// Handing a guard to the caller.
    HandOut,
}

impl Verb {
    /// Every step.
    pub const ALL: [Verb; 13] = [
        Verb::Build,
        Verb::Launch,
        Verb::Create,
        Verb::Find,
        Verb::Observe,
        Verb::Delete,
        Verb::List,
        Verb::WriteIntent,
        Verb::WriteAcquired,
        Verb::WriteOutcome,
        Verb::WriteDeleted,
        Verb::WriteKept,
        Verb::HandOut,
    ];
}

/// On which side of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The step has not begun.
    Before,
    /// The step is over.
    After,
}

/// One place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The step.
    pub verb: Verb,
    /// The side of it.
    pub side: Side,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.side, self.verb)
    }
}

/// Stops the lifecycle's task at a place for as long as its future takes.
pub trait Gate: fmt::Debug + Send + Sync + 'static {
    /// Called at each place, in order.
    fn pass(&self, point: Point) -> BoxFuture<'static, ()>;
}

/// The gate of a session, if it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates(pub(crate) Option<Arc<dyn Gate>>);

impl Gates {
    pub(crate) async fn pass(&self, verb: Verb, side: Side) {
        if let Some(gate) = &self.0 {
            gate.pass(Point { verb, side }).await;
        }
    }

    /// Runs a step between its two gates.
    pub(crate) async fn around<T>(&self, verb: Verb, step: impl Future<Output = T>) -> T {
        self.pass(verb, Side::Before).await;
        let output = step.await;
        self.pass(verb, Side::After).await;
        output
    }
}
