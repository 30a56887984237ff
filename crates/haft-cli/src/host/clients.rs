//! Sessions for clients of the Model Context Protocol: each by itself, in what it says it works in.

use std::path::PathBuf;

use haft::{AbsPath, Session, Workspace};
use haft_mcp::Client;
use haft_mcp::client::Servers;
use haft_sandbox::{Access, user};
use haft_tools::ops::PlanPlace;
use tokio::runtime::Handle;

use super::{Host, NAMELESS, begin};

impl Host {
    /// A session for a client. Nothing of it is another one's.
    pub(crate) fn session_for(&self, client: Client) -> anyhow::Result<Session> {
        // A focus is the user's own word, and narrower.
        let workspace = match self.workspace.focus() {
            Some(_) => self.workspace.clone(),
            None => self.narrowed(&client.roots)?,
        };
        let mut builder = self.builder(None, workspace, self.resumed()?)?;
        if !self.is_named() {
            let plan = self.plan.with_file_name(format!("{NAMELESS}{}.md", client.id));
            builder = builder.id(client.id).extension(PlanPlace(Some(plan)));
        }
        let session = begin(builder.approver(client.approver).respondent(client.respondent));
        self.explain_untrusted(&session);
        // What is told to one client's servers is not to be known by another's.
        let servers = super::servers(&self.loaded, self.workspace.root().as_path(), &self.guards.state);
        if !servers.is_empty() {
            servers.join(&session);
            self.others.lock().push(servers);
        }
        Ok(session)
    }

    /// Follows a client that works in other folders now.
    pub(crate) fn follow(&self, session: &Session, roots: &[PathBuf]) -> anyhow::Result<()> {
        if self.workspace.focus().is_none() {
            session.set_workspace(self.narrowed(roots)?);
        }
        Ok(())
    }

    /// Ends the servers of a client that has left.
    pub(crate) fn let_go(&self, session: &Session) {
        let (left, others) = (Servers::joined(session), self.others.clone());
        if let (false, Ok(runtime)) = (left.is_empty(), Handle::try_current()) {
            runtime.spawn(async move {
                for servers in &left {
                    servers.close().await;
                }
                // Only now: whoever ends haft waits for those that are still there.
                others.lock().retain(|servers| !left.contains(servers));
            });
        }
    }

    /// The workspace, with every folder of it narrowed to the roots that are in it, if any are. Nothing is ever added.
    fn narrowed(&self, roots: &[PathBuf]) -> anyhow::Result<Workspace> {
        let roots: Vec<PathBuf> = roots.iter().filter_map(|root| user::canonical(root).ok()).collect();
        let inside = |folder: &AbsPath| -> Vec<PathBuf> {
            roots.iter().filter(|root| root.starts_with(folder)).cloned().collect()
        };
        if self.workspace.folders().iter().all(|folder| inside(&folder.path).is_empty()) {
            return Ok(self.workspace.clone());
        }
        let mut narrowed: Option<Workspace> = None;
        for folder in self.workspace.folders() {
            let mut chosen = inside(&folder.path);
            if chosen.is_empty() || folder.access == Access::Read {
                chosen = vec![folder.path.as_path().to_owned()];
            }
            for dir in chosen {
                narrowed = Some(match narrowed {
                    None => Workspace::open(&dir)?,
                    Some(workspace) => workspace.with_folder(&dir, folder.access)?,
                });
            }
        }
        Ok(self.guards.around(narrowed.unwrap_or_else(|| self.workspace.clone())))
    }
}
