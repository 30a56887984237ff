# What CI runs. As root it installs what is missing.
check:
    .ci/run

fmt:
    cargo fmt --all --check

clippy:
    cargo clippy --workspace --all-targets -- -D warnings

test:
    cargo test --workspace

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Licences, sources and security advisories. CI checks all but the advisories without cargo-deny.
deny:
    cargo deny check

# The properties of the tests with other inputs than the usual ones, as often as wanted.
properties rounds="20":
    for seed in $(shuf -i 1-1000000 -n {{rounds}}); do \
        PROPTEST_RNG_SEED=$seed cargo test -p haft-core -p haft-sandbox -p haft-text -p haft-ops -p haft-shell \
            -p haft-journal -p haft-dialects --lib --test engine --test journal --test shell --test dialects || exit 1; done

# Takes what the tests printed as right: cases, snapshots and generated documents. Review the diff.
update:
    UPDATE_CASES=1 UPDATE_DOCS=1 INSTA_UPDATE=always cargo test --workspace

# The figures that haft promises, beside their limits.
figures:
    cargo bench -p haft-dialects --bench figures
    cargo bench -p haft-dialects --bench edits
    cargo bench -p haft-shell --bench shell
    cargo bench -p haft-dialects --bench rules
    cargo bench -p haft-journal --bench journal
    cargo bench -p haft-sandbox --bench sandbox
    cargo bench -p haft-web --bench web
    cargo bench -p haft-sandbox --bench trial
    cargo bench -p haft-journal --bench trial
    bench/startup
    bench/search

# `haft mcp` as the protocol's own Python SDK meets it. Needs the network once.
peers:
    bench/mcp-peers

# `haft mcp` as the protocol's own TypeScript SDK meets it. Needs npm, and the network once.
sdk:
    bench/mcp-sdk

# `haft mcp` as real clients meet it, with a scripted model. Needs npm, Python, and the network once.
clients *options:
    bench/clients/run {{options}}

# A hundred thousand calls, after which nothing may be left behind.
soak:
    cargo build --release
    cargo bench -p haft-mcp --bench soak -- "${CARGO_TARGET_DIR:-$PWD/target}/release/haft"

# The conformance suite of the protocol. Needs npm, and the network once.
conformance:
    conformance/run

# Edits that outlast a power cut on disks that take so many milliseconds for a flush. Needs root, FUSE and loop devices.
slow-disk *milliseconds:
    bench/slow-disk/run {{milliseconds}}

# What power cuts leave of edited files and of the journal. Needs root, FUSE and loop devices.
cuts edits="150" cuts="400" seed="1":
    bench/cuts/run {{edits}} {{cuts}} {{seed}}

# `haft mcp` beside other servers of the protocol, with ratios. Needs npm, and the network once.
beside:
    bench/mcp
