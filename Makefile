# Short names for what .ci/run does step by step.

.PHONY: run test check docs mutations kill-matrix ci

run:            ## the main job on this machine
	cargo run -p matrix-tests -- run

test:           ## all tests
	cargo test --workspace

check:          ## formatting and lints, the helper program's too
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	scripts/check-helper

docs:           ## the documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps

mutations:      ## break each rule of the lifecycle; the proofs must turn red
	scripts/mutations

kill-matrix:    ## kill a real run at each step; a sweep must leave nothing
	scripts/kill-matrix

ci:
	.ci/run
