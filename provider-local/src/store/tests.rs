//! Tests of the state folder alone, without boxes.
