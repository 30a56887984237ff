//! Where programs keep credentials: the one table from which commands do not see them, and calls that read them are asked
//! about. A new program with a login of its own adds a line here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Files and folders in a home folder.
const IN_HOME: &[&str] = &[
    // keys and passwords
    ".ssh",
    ".gnupg",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".config/op",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    ".config/keybase",
    ".config/age",
    ".config/sops",
    ".netrc",
    ".authinfo",
    ".authinfo.gpg",
    ".Xauthority",
    // clouds
    ".aws",
    ".azure",
    ".oci",
    ".aliyun",
    ".bluemix",
    ".config/gcloud",
    ".config/doctl",
    ".config/hcloud",
    ".config/linode-cli",
    ".config/rclone",
    ".config/stripe",
    ".config/netlify",
    ".local/share/com.vercel.cli",
    ".fly",
    ".s3cfg",
    ".boto",
    ".terraformrc",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".databrickscfg",
    ".snowsql",
    // containers
    ".kube",
    ".docker",
    ".config/containers/auth.json",
    // code hosts and package registries
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".bundle/config",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".nuget/NuGet/NuGet.Config",
    // databases
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".dbt/profiles.yml",
    // agents and models
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".qwen/oauth_creds.json",
    ".local/share/opencode/auth.json",
    ".config/github-copilot",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    ".kaggle",
    // browsers and mail
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".msmtprc",
    ".fetchmailrc",
    // what was typed
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".local/share/fish/fish_history",
];

/// Files and folders of the system. Most of them only root can read, and commands of root do not see them either.
const OF_SYSTEM: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/kubernetes",
    "/var/lib/systemd/credential.secret",
    "/var/run/secrets",
    "/run/secrets",
];

/// Words in the names of environment variables that hold secrets.
const VARIABLE_WORDS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PASSPHRASE",
    "PAT",
    "APIKEY",
    "KEY",
    "KEYS",
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
    "COOKIE",
    "DSN",
    "JWT",
];
/// Parts of the names of such variables, in whatever word.
const VARIABLE_PARTS: &[&str] = &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "CREDENTIAL"];

/// Every place of secrets: in the home folders, and of the system.
pub fn places(homes: &[PathBuf]) -> Vec<PathBuf> {
    let in_homes = homes.iter().flat_map(|home| IN_HOME.iter().map(|name| home.join(name)));
    in_homes.chain(OF_SYSTEM.iter().map(PathBuf::from)).collect()
}

/// Whether a path outside of any project is a place of secrets, in whichever home folder, or lies in one.
pub fn holds(path: &Path) -> bool {
    let is_below = |name: &&str| {
        let name: Vec<&OsStr> = Path::new(name).iter().collect();
        let parts: Vec<&OsStr> = path.iter().collect();
        parts.windows(name.len()).any(|part| part == name)
    };
    OF_SYSTEM.iter().any(|secret| path.starts_with(secret)) || IN_HOME.iter().any(is_below)
}

/// Whether an environment variable holds a secret, by its name, or because its value is an address with a password.
pub fn in_variable(name: &OsStr, value: &OsStr) -> bool {
    let upper = name.to_string_lossy().to_uppercase();
    upper.split('_').any(|word| VARIABLE_WORDS.contains(&word))
        || VARIABLE_PARTS.iter().any(|part| upper.contains(part))
        || has_password(&value.to_string_lossy())
}

/// Whether a text contains an address such as `postgres://user:password@host`.
fn has_password(text: &str) -> bool {
    text.match_indices("://").any(|(at, mark)| {
        let authority = text[at + mark.len()..].split(['/', '?', '#', ' ']).next().unwrap_or_default();
        authority
            .rsplit_once('@')
            .and_then(|(user, _)| user.split_once(':'))
            .is_some_and(|(_, word)| !word.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_places() {
        for path in [
            "/data/home/.ssh/id_ed25519",
            "/data/home/.config/gh/hosts.yml",
            "/data/.netrc",
            "/etc/shadow",
            "/data/home/.codex/auth.json",
        ] {
            assert!(holds(Path::new(path)), "{path}");
        }
        for path in
            ["/data/home/.config/nvim/init.lua", "/data/home/.codex/config.toml", "/etc/shadows", "/srv/gh"]
        {
            assert!(!holds(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn secrets_are_known_by_their_variables() {
        for (name, value) in [
            ("GITHUB_TOKEN", "x"),
            ("NPM_CONFIG__AUTH", "x"),
            ("OPENAI_API_KEY", "x"),
            ("AWS_ACCESS_KEY_ID", "x"),
            ("PGPASSWORD", "x"),
            ("GH_PAT", "x"),
            ("SENTRY_DSN", "x"),
            ("DATABASE_URL", "postgres://app:hush@db.example/app"),
            ("ACCESSTOKEN", "x"),
        ] {
            assert!(in_variable(name.as_ref(), value.as_ref()), "{name}");
        }
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("KEYBOARD", "us"),
            ("OLDPWD", "/"),
            ("COMPASS", "x"),
            ("HTTP_PROXY", "http://proxy.example:3128"),
            ("DOCS_URL", "https://example.org/a:b@c"),
            ("AUTHOR", "me"),
        ] {
            assert!(!in_variable(name.as_ref(), value.as_ref()), "{name}");
        }
    }
}
