//! Redirections and process substitutions, and what can be read from them.

use brush_parser::ast;

use super::super::feed::Input;
use super::super::{Command, Doubt, Redirect, RedirectKind, Word};
use super::Walk;

impl Walk {
    /// Walks `<(…)` or `>(…)`, and returns what the former prints.
    pub(super) fn process_substitution(
        &mut self,
        kind: &ast::ProcessSubstitutionKind,
        subshell: &ast::SubshellCommand,
    ) -> Option<Input> {
        self.out.add_doubt(Doubt::Substitution);
        match kind {
            ast::ProcessSubstitutionKind::Read => {
                let at = self.out.commands.len();
                let mut own = None;
                self.in_subshell(|walk| own = walk.single(&subshell.list));
                Some(self.output(own, at))
            }
            ast::ProcessSubstitutionKind::Write => {
                let input = Input::Unread("another part of it prints".to_owned());
                self.in_subshell(|walk| walk.sharing(input, false, |walk| walk.list(&subshell.list)));
                None
            }
        }
    }

    /// Walks the redirections of a compound command, and returns the standard input that they give it.
    pub(super) fn redirects(&mut self, list: Option<&ast::RedirectList>) -> Option<Input> {
        let mut command = Command { cwd: self.cwd.clone(), ..Command::default() };
        let mut given = None;
        for redirect in list.iter().flat_map(|list| &list.0) {
            let (redirect, input) = self.redirect(redirect);
            command.redirects.extend(redirect);
            given = input.filter(|(descriptor, _)| *descriptor == 0).map(|(_, input)| input).or(given);
        }
        if !command.redirects.is_empty() {
            self.out.commands.push(command);
        }
        given
    }

    /// Walks a redirection. Also returns the descriptor that it opens for reading and what can be read there.
    pub(super) fn redirect(
        &mut self,
        redirect: &ast::IoRedirect,
    ) -> (Option<Redirect>, Option<(i32, Input)>) {
        use ast::{IoFileRedirectKind as K, IoFileRedirectTarget as T, IoRedirect as R};
        match redirect {
            R::File(fd, kind, target) => {
                let reads = matches!(kind, K::Read | K::ReadAndWrite | K::DuplicateInput);
                let from = |origin: String| reads.then(|| (fd.unwrap_or(0), Input::Unread(origin)));
                let kind = match kind {
                    K::Read => RedirectKind::Read,
                    K::Write | K::Clobber => RedirectKind::Write,
                    K::Append => RedirectKind::Append,
                    K::ReadAndWrite => RedirectKind::ReadWrite,
                    K::DuplicateInput | K::DuplicateOutput => RedirectKind::Duplicate,
                };
                match target {
                    T::Filename(word) => {
                        let target = self.word(&word.value);
                        let input = match target.text() {
                            "/dev/null" => reads.then_some((fd.unwrap_or(0), Input::Empty)),
                            text => from(format!("`{text}` contains")),
                        };
                        (Some(Redirect { kind, target }), input)
                    }
                    T::Fd(source) => {
                        let target = Word::literal(&source.to_string());
                        let input = from(format!("descriptor {source} gives"));
                        (Some(Redirect { kind: RedirectKind::Duplicate, target }), input)
                    }
                    T::ProcessSubstitution(kind, subshell) => {
                        let input = self.process_substitution(kind, subshell);
                        (None, input.map(|input| (fd.unwrap_or(0), input)))
                    }
                    T::Duplicate(word) => {
                        let target = self.word(&word.value);
                        // `>&name` writes a file unless the name is a descriptor.
                        let is_fd = target.text().bytes().all(|c| c.is_ascii_digit() || c == b'-');
                        let input = match target.text() {
                            "-" => reads.then_some((fd.unwrap_or(0), Input::Empty)),
                            text => from(format!("descriptor {text} gives")),
                        };
                        (
                            Some(Redirect { kind: if is_fd { kind } else { RedirectKind::Write }, target }),
                            input,
                        )
                    }
                }
            }
            R::HereDocument(fd, document) => {
                self.out.add_doubt(Doubt::HereDocument);
                let body = &document.doc.value;
                if document.requires_expansion {
                    self.scan_scripts(body);
                }
                let input = match document.requires_expansion && body.contains(['$', '`', '\\']) {
                    true => Input::Unread("a here-document whose tag is not quoted becomes".to_owned()),
                    false => Input::Text(body.clone()),
                };
                let redirect = Redirect { kind: RedirectKind::Here, target: Word::literal(body) };
                (Some(redirect), Some((fd.unwrap_or(0), input)))
            }
            R::HereString(fd, word) => {
                self.out.add_doubt(Doubt::HereDocument);
                let target = self.word(&word.value);
                let input = match target.is_literal() {
                    true => Input::Text(target.text().to_owned()),
                    false => Input::Unread(format!("`{}` becomes", target.raw())),
                };
                (Some(Redirect { kind: RedirectKind::Here, target }), Some((fd.unwrap_or(0), input)))
            }
            R::OutputAndError(word, append) => {
                let kind = if *append { RedirectKind::Append } else { RedirectKind::Write };
                (Some(Redirect { kind, target: self.word(&word.value) }), None)
            }
        }
    }
}

/// Whether a redirection takes standard output.
pub(super) fn redirects_output(redirect: &ast::IoRedirect) -> bool {
    use ast::IoFileRedirectKind as K;
    match redirect {
        ast::IoRedirect::File(fd, K::Write | K::Clobber | K::Append, _) => fd.is_none_or(|fd| fd == 1),
        ast::IoRedirect::OutputAndError(..) => true,
        _ => false,
    }
}
