//! The recommended rules, for a session that accepts edits. Commands that they allow still run in the sandbox.

use super::Effect;

/// The recommended rules, by effect.
#[rustfmt::skip]
pub(super) const RECOMMENDED: &[(Effect, &[&str])] = &[
    (Effect::Allow, &[
        "Bash(cargo build:*)", "Bash(cargo check:*)", "Bash(cargo clippy:*)", "Bash(cargo test:*)",
        "Bash(cargo nextest:*)", "Bash(cargo fmt:*)", "Bash(cargo doc:*)", "Bash(cargo bench:*)",
        "Bash(cargo tree:*)", "Bash(cargo metadata:*)", "Bash(rustc --version)", "Bash(rustfmt:*)",
        "Bash(npm test:*)", "Bash(npm run build:*)", "Bash(npm run lint:*)", "Bash(npm run test:*)",
        "Bash(npm run typecheck:*)", "Bash(npm run format:*)", "Bash(npm ls:*)", "Bash(pnpm test:*)",
        "Bash(pnpm run build:*)", "Bash(pnpm run lint:*)", "Bash(pnpm run test:*)", "Bash(yarn test:*)",
        "Bash(yarn build:*)", "Bash(yarn lint:*)", "Bash(tsc:*)", "Bash(eslint:*)", "Bash(prettier:*)",
        "Bash(jest:*)", "Bash(vitest:*)", "Bash(pytest:*)", "Bash(python -m pytest:*)",
        "Bash(python3 -m pytest:*)", "Bash(python3 -m unittest:*)", "Bash(ruff:*)", "Bash(black:*)",
        "Bash(mypy:*)", "Bash(pip list:*)", "Bash(pip show:*)", "Bash(go build:*)", "Bash(go test:*)",
        "Bash(go vet:*)", "Bash(go fmt:*)", "Bash(gofmt:*)", "Bash(go list:*)", "Bash(make)", "Bash(make all)",
        "Bash(make build)", "Bash(make check)", "Bash(make test)", "Bash(make lint)", "Bash(make clean)",
        "Bash(git add:*)", "Bash(git commit -m:*)", "Bash(git stash list:*)", "Bash(git switch -c:*)",
        "Bash(git checkout -b:*)", "Bash(git fetch:*)", "Bash(mkdir:*)", "Bash(touch:*)", "Bash(cp:*)",
        "Bash(mv:*)",
    ]),
    (Effect::Ask, &[
        "Bash(git push:*)", "Bash(npm publish:*)", "Bash(cargo publish:*)", "Bash(gh pr merge:*)",
    ]),
    (Effect::Deny, &[
        "Read(.env)", "Read(.env.local)", "Read(.env.production)", "Read(.env.development)", "Read(*.pem)", "Read(*.key)", "Read(id_rsa)", "Read(id_ed25519)",
        "Read(~/.ssh/**)", "Read(~/.aws/**)", "Read(~/.gnupg/**)", "Read(~/.netrc)", "Read(~/.config/gh/**)",
    ]),
];
