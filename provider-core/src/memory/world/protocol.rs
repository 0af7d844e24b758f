//! What is asked of the world, and what it answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    lifecycle::{ResourceKind, Timestamp},
    provider::State,
};

/// A kind of call, by which faults are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Creates a context.
    CreateContext,
    /// Creates an artifact, which is then built.
    CreateArtifact,
    /// Creates a sandbox.
    CreateSandbox,
    /// Finds things by name.
    Find,
    /// Reads one thing.
    Observe,
    /// Deletes one thing.
    Delete,
    /// Lists an owner's things.
    List,
    /// Runs a command.
    Exec,
}

impl Call {
    /// Every kind.
    pub const ALL: [Call; 8] = [
        Call::CreateContext,
        Call::CreateArtifact,
        Call::CreateSandbox,
        Call::Find,
        Call::Observe,
        Call::Delete,
        Call::List,
        Call::Exec,
    ];
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Creates a thing.
    Create {
        /// What sort of thing.
        kind: ResourceKind,
        /// The name that it is to have.
        name: String,
        /// What it is made from and cannot exist without.
        parents: Vec<String>,
        /// When it ends by itself.
        expires: Option<Timestamp>,
    },
    /// Finds things by their exact name.
    Find {
        /// The name.
        name: String,
    },
    /// Reads one thing.
    Observe {
        /// Its id.
        id: String,
    },
    /// Deletes one thing.
    Delete {
        /// Its id.
        id: String,
    },
    /// Lists things whose name begins so.
    List {
        /// The beginning.
        prefix: String,
    },
    /// Asks whether a sandbox takes a command.
    Exec {
        /// Its id.
        id: String,
    },
}

impl Request {
    /// Its kind.
    pub fn call(&self) -> Call {
        match self {
            Request::Create { kind: ResourceKind::Sandbox, .. } => Call::CreateSandbox,
            Request::Create { kind: ResourceKind::Artifact, .. } => Call::CreateArtifact,
            Request::Create { .. } => Call::CreateContext,
            Request::Find { .. } => Call::Find,
            Request::Observe { .. } => Call::Observe,
            Request::Delete { .. } => Call::Delete,
            Request::List { .. } => Call::List,
            Request::Exec { .. } => Call::Exec,
        }
    }
}

/// A thing as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// What sort of thing.
    pub kind: ResourceKind,
    /// Its id.
    pub id: String,
    /// Its name, which may be missing.
    pub name: Option<String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The id of what was created.
    Created(String),
    /// Things.
    Things(Vec<Holding>),
    /// A state.
    State(State),
    /// The request was taken.
    Accepted,
}

/// What a client sees instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The connection was refused.
    Refused,
    /// The connection was lost.
    Lost,
    /// The answer cannot be read.
    Garbled,
    /// A status that is no success.
    Status {
        /// The status, as in HTTP.
        code: u16,
        /// How long to wait.
        wait: Option<Duration>,
        /// Words of the provider.
        words: String,
    },
}
