//! The one list of languages: what they are called, which files they are in, and how they are checked.
//! Later lines win.

use std::sync::Arc;

#[cfg(feature = "grammars")]
use tree_sitter_language::LanguageFn;

#[cfg(feature = "data")]
use super::data::Toml;
use super::data::{Json, JsonLines};
use super::exact::{self, Exact, Parser};
#[cfg(feature = "grammars")]
use super::grammar::{self, Changes, Grammar, Incremental, Trust};
#[cfg(feature = "python")]
use super::python::Python;
#[cfg(feature = "rust")]
use super::rust::Rust;
#[cfg(feature = "javascript")]
use super::script::Script;
#[cfg(any(feature = "javascript", feature = "python", feature = "rust"))]
use super::statements::Statements;
use super::tags::Html;
#[cfg(feature = "grammars")]
use super::tokens::Pairs;
#[cfg(feature = "data")]
use super::yaml::Yaml;
use super::{Checker, Checkers};

/// A kind of file.
pub(super) struct Kind {
    pub(super) files: &'static [&'static str],
    how: How,
}

enum How {
    /// By a parser that knows the language.
    Exact(Parser),
    /// By a grammar.
    #[cfg(feature = "grammars")]
    Grammar(Grammar),
    /// Not at all: what would be an error elsewhere is right in these.
    Not,
}

pub(super) static KINDS: &[Kind] = &[
    #[cfg(feature = "python")]
    Kind { files: &["*.py", "*.pyi", "*.pyw"], how: statements(&Python) },
    #[cfg(feature = "javascript")]
    Kind { files: &["*.js", "*.mjs", "*.cjs", "*.jsx"], how: whole(&Script::Js) },
    #[cfg(feature = "javascript")]
    Kind { files: &["*.ts", "*.mts", "*.cts"], how: statements(&Script::Ts) },
    #[cfg(feature = "javascript")]
    Kind { files: &["*.tsx"], how: statements(&Script::Tsx) },
    #[cfg(feature = "javascript")]
    Kind { files: &["*.d.ts", "*.d.mts", "*.d.cts"], how: statements(&Script::Declarations) },
    #[cfg(feature = "rust")]
    Kind { files: &["*.rs"], how: statements(&Rust) },
    Kind { files: &["*.json", "*.ipynb", "*.geojson", "*.webmanifest"], how: whole(&Json) },
    Kind { files: &["*.jsonl", "*.ndjson"], how: whole(&JsonLines) },
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
    #[cfg(feature = "data")]
    Kind { files: &["*.yaml", "*.yml"], how: whole(&Yaml) },
    #[cfg(feature = "data")]
    Kind { files: &["*.toml", "Cargo.lock", "poetry.lock", "uv.lock", "Pipfile"], how: whole(&Toml) },
    #[cfg(feature = "go")]
    grammar(&["*.go"], "go", |_| Some(tree_sitter_go::LANGUAGE), Pairs::Brackets, Trust::Full),
    #[cfg(feature = "java")]
    grammar(&["*.java"], "java", |_| Some(tree_sitter_java::LANGUAGE), Pairs::Brackets, Trust::Full),
    #[cfg(feature = "c")]
    grammar(&["*.c"], "c", |_| Some(tree_sitter_c::LANGUAGE), Pairs::Preprocessed, Trust::Some),
    #[cfg(feature = "c")]
    grammar(
        &["*.cc", "*.cpp", "*.cxx", "*.hpp", "*.hh", "*.hxx"],
        "c++",
        |_| Some(tree_sitter_cpp::LANGUAGE),
        Pairs::Preprocessed,
        Trust::Some,
    ),
    #[cfg(feature = "c")]
    grammar(&["*.h"], "c", header, Pairs::Preprocessed, Trust::Some),
    #[cfg(feature = "ruby")]
    Kind {
        files: &["*.rb", "*.rake", "*.gemspec", "*.ru", "Rakefile", "Gemfile", "Vagrantfile", "Podfile"],
        how: How::Grammar(Grammar {
            name: "ruby",
            language: |_| Some(tree_sitter_ruby::LANGUAGE),
            pairs: Pairs::Ruby,
            trust: Trust::Full,
            changes: Changes::Wholly,
        }),
    },
    #[cfg(feature = "php")]
    Kind {
        files: &["*.php"],
        how: How::Grammar(Grammar {
            name: "php",
            language: |_| Some(tree_sitter_php::LANGUAGE_PHP),
            pairs: Pairs::Brackets,
            trust: Trust::Full,
            changes: Changes::Wholly,
        }),
    },
    #[cfg(feature = "shell")]
    Kind {
        files: &["*.sh", "*.bash", ".bashrc", ".bash_profile", ".bash_aliases", ".profile"],
        how: How::Grammar(Grammar {
            name: "bash",
            language: shell,
            pairs: Pairs::Shell,
            trust: Trust::Some,
            changes: Changes::Wholly,
        }),
    },
    Kind { files: &["*.html", "*.htm"], how: whole(&Html) },
    #[cfg(feature = "css")]
    grammar(&["*.css"], "css", |_| Some(tree_sitter_css::LANGUAGE), Pairs::Brackets, Trust::Some),
];

/// The checkers of all languages.
pub(super) fn checkers() -> Checkers {
    let texts = Arc::new(exact::texts());
    #[cfg(feature = "grammars")]
    let trees = Arc::new(grammar::trees());
    KINDS.iter().enumerate().fold(Checkers::none(), |all, (kind, Kind { files, how })| match how {
        How::Exact(parser) => all.with(files, Exact { parser: *parser, kind, texts: texts.clone() }),
        #[cfg(feature = "grammars")]
        How::Grammar(grammar) => {
            all.with(files, Incremental { grammar: *grammar, kind, trees: trees.clone() })
        }
        How::Not => all.without(files),
    })
}

const fn whole(checker: &'static dyn Checker) -> How {
    How::Exact(Parser::Whole(checker))
}

#[cfg(any(feature = "javascript", feature = "python", feature = "rust"))]
const fn statements(checker: &'static dyn Statements) -> How {
    How::Exact(Parser::Statements(checker))
}

#[cfg(feature = "grammars")]
const fn grammar(
    files: &'static [&'static str],
    name: &'static str,
    language: fn(&str) -> Option<LanguageFn>,
    pairs: Pairs,
    trust: Trust,
) -> Kind {
    let changes = Changes::Incrementally;
    Kind { files, how: How::Grammar(Grammar { name, language, pairs, trust, changes }) }
}

/// A header may be of C or of C++; Objective-C is neither.
#[cfg(feature = "c")]
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
#[cfg(feature = "shell")]
fn shell(text: &str) -> Option<LanguageFn> {
    let first = text.lines().next().unwrap_or("");
    let other = first.starts_with("#!")
        && ["zsh", "fish", "csh", "python", "perl"].iter().any(|name| first.contains(name));
    (!other).then_some(tree_sitter_bash::LANGUAGE)
}
