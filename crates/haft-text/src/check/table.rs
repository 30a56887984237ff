//! The one list of languages: what they are called, which files they are in, and how they are checked.
//! Later lines win.

use tree_sitter_language::LanguageFn;

use super::data::{Json, JsonLines, Toml};
use super::grammar::{Grammar, Trust};
use super::python::Python;
use super::rust::Rust;
use super::script::Script;
use super::tags::Html;
use super::tokens::Pairs;
use super::yaml::Yaml;
use super::{Checker, Checkers};

/// A kind of file.
pub(super) struct Kind {
    pub(super) files: &'static [&'static str],
    how: How,
}

enum How {
    /// By a parser that knows the language.
    Exact(&'static dyn Checker),
    /// By a grammar.
    Grammar(Grammar),
    /// Not at all: what would be an error elsewhere is right in these.
    Not,
}

pub(super) static KINDS: &[Kind] = &[
    Kind { files: &["*.py", "*.pyi", "*.pyw"], how: How::Exact(&Python) },
    Kind { files: &["*.js", "*.mjs", "*.cjs", "*.jsx"], how: How::Exact(&Script::Js) },
    Kind { files: &["*.ts", "*.mts", "*.cts"], how: How::Exact(&Script::Ts) },
    Kind { files: &["*.tsx"], how: How::Exact(&Script::Tsx) },
    Kind { files: &["*.d.ts", "*.d.mts", "*.d.cts"], how: How::Exact(&Script::Declarations) },
    Kind { files: &["*.rs"], how: How::Exact(&Rust) },
    Kind { files: &["*.json", "*.ipynb", "*.geojson", "*.webmanifest"], how: How::Exact(&Json) },
    Kind { files: &["*.jsonl", "*.ndjson"], how: How::Exact(&JsonLines) },
    // JSON in which comments are allowed.
    Kind {
        files: &[
            "tsconfig*.json",
            "jsconfig*.json",
            ".vscode/*.json",
            ".eslintrc.json",
            "devcontainer.json",
            ".devcontainer.json",
            "tslint.json",
            ".babelrc.json",
            "deno.json",
            "turbo.json",
            "biome.json",
            "nx.json",
            "project.json",
            "angular.json",
            "rush.json",
            "api-extractor.json",
            "typedoc.json",
            "wrangler.json",
            "cspell.json",
            "appsettings*.json",
            "language-configuration.json",
            "*-theme.json",
            "settings.json",
            "keybindings.json",
        ],
        how: How::Not,
    },
    Kind { files: &["*.yaml", "*.yml"], how: How::Exact(&Yaml) },
    Kind { files: &["*.toml", "Cargo.lock", "poetry.lock", "uv.lock", "Pipfile"], how: How::Exact(&Toml) },
    grammar(&["*.go"], "go", |_| Some(tree_sitter_go::LANGUAGE), Pairs::Brackets, Trust::Full),
    grammar(&["*.java"], "java", |_| Some(tree_sitter_java::LANGUAGE), Pairs::Brackets, Trust::Full),
    grammar(&["*.c"], "c", |_| Some(tree_sitter_c::LANGUAGE), Pairs::Preprocessed, Trust::Some),
    grammar(
        &["*.cc", "*.cpp", "*.cxx", "*.hpp", "*.hh", "*.hxx"],
        "c++",
        |_| Some(tree_sitter_cpp::LANGUAGE),
        Pairs::Preprocessed,
        Trust::Some,
    ),
    grammar(&["*.h"], "c", header, Pairs::Preprocessed, Trust::Some),
    grammar(
        &["*.rb", "*.rake", "*.gemspec", "*.ru", "Rakefile", "Gemfile", "Vagrantfile", "Podfile"],
        "ruby",
        |_| Some(tree_sitter_ruby::LANGUAGE),
        Pairs::Ruby,
        Trust::Full,
    ),
    grammar(&["*.php"], "php", |_| Some(tree_sitter_php::LANGUAGE_PHP), Pairs::Brackets, Trust::Full),
    grammar(
        &["*.sh", "*.bash", ".bashrc", ".bash_profile", ".bash_aliases", ".profile"],
        "bash",
        shell,
        Pairs::Shell,
        Trust::Some,
    ),
    Kind { files: &["*.html", "*.htm"], how: How::Exact(&Html) },
    grammar(&["*.css"], "css", |_| Some(tree_sitter_css::LANGUAGE), Pairs::Brackets, Trust::Some),
];

/// The checkers of all languages.
pub(super) fn checkers() -> Checkers {
    KINDS.iter().fold(Checkers::none(), |all, kind| match &kind.how {
        How::Exact(checker) => all.with(kind.files, Lent(*checker)),
        How::Grammar(grammar) => all.with(kind.files, *grammar),
        How::Not => all.without(kind.files),
    })
}

const fn grammar(
    files: &'static [&'static str],
    name: &'static str,
    language: fn(&str) -> Option<LanguageFn>,
    pairs: Pairs,
    trust: Trust,
) -> Kind {
    Kind { files, how: How::Grammar(Grammar { name, language, pairs, trust }) }
}

/// A checker of the table.
struct Lent(&'static dyn Checker);

impl Checker for Lent {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn reads_parts(&self, text: &str) -> bool {
        self.0.reads_parts(text)
    }

    fn is_right_alone(&self, part: &str) -> bool {
        self.0.is_right_alone(part)
    }

    fn check(&self, text: &str) -> Option<Vec<super::Problem>> {
        self.0.check(text)
    }

    fn introduced(&self, before: Option<&str>, after: &str) -> Option<super::Introduced> {
        self.0.introduced(before, after)
    }
}

/// A header may be of C or of C++; Objective-C is neither.
fn header(text: &str) -> Option<LanguageFn> {
    let has = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    if has(&["@interface", "@protocol", "@end"]) {
        return None;
    }
    match has(&["class ", "namespace ", "template", "::", "public:", "extern \"C\""]) {
        true => Some(tree_sitter_cpp::LANGUAGE),
        false => Some(tree_sitter_c::LANGUAGE),
    }
}

/// Other shells keep scripts in files of the same names.
fn shell(text: &str) -> Option<LanguageFn> {
    let first = text.lines().next().unwrap_or("");
    let other = first.starts_with("#!")
        && ["zsh", "fish", "csh", "python", "perl"].iter().any(|name| first.contains(name));
    (!other).then_some(tree_sitter_bash::LANGUAGE)
}
