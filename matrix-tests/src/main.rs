//! See `matrix --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    matrix_tests::command::main()
}
