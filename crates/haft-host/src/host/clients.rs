//! Sessions for clients of the Model Context Protocol: isolated from each other, each narrowed to its client's roots.

use std::path::PathBuf;

use haft_core::{AbsPath, Session, Workspace};
use haft_mcp::Client;
use haft_mcp::client::Servers;
use haft_ops::PlanPlace;
use haft_sandbox::{FolderAccess, user};
use tokio::runtime::Handle;

use super::{Host, Result, UNNAMED_PREFIX, servers, start};

impl Host {
    /// Starts a session for a client. It shares nothing with the sessions of other clients.
    pub fn session_for(&self, client: Client) -> Result<Session> {
        // The user's own focus takes precedence over the client's roots.
        let workspace = match self.workspace.focus() {
            Some(_) => self.workspace.clone(),
            None => self.narrowed(&client.roots)?,
        };
        let is_haft = client.is_haft();
        let mut builder = self.builder(None, workspace, self.resumed()?)?;
        if !self.is_named() {
            let plan = self.plan.with_file_name(format!("{UNNAMED_PREFIX}{}.md", client.id));
            builder = builder.id(client.id).extension(PlanPlace(Some(plan)));
        }
        let session = start(builder.approver(client.approver).respondent(client.respondent));
        self.explain_untrusted(&session);
        // Each client gets its own server processes, so that no server sees the calls of two clients.
        let servers = servers::all(&self.loaded(), &self.workspace, &self.state, &self.guards.folders);
        if !servers.is_empty() && !is_haft {
            servers.join(&session);
            self.client_servers.lock().push(servers);
        }
        Ok(session)
    }

    /// Updates a session's workspace after its client's roots have changed.
    pub fn update_roots(&self, session: &Session, roots: &[PathBuf]) -> Result<()> {
        if self.workspace.focus().is_none() {
            session.set_workspace(self.narrowed(roots)?);
        }
        Ok(())
    }

    /// Stops the servers of a client that has disconnected.
    pub fn stop_client_servers(&self, session: &Session) {
        let (joined, all) = (Servers::joined(session), self.client_servers.clone());
        if let (false, Ok(runtime)) = (joined.is_empty(), Handle::try_current()) {
            runtime.spawn(async move {
                for servers in &joined {
                    servers.close().await;
                }
                // Removed last: `end_servers` waits for all that are still in the list.
                all.lock().retain(|servers| !joined.contains(servers));
            });
        }
    }

    /// The workspace with each writable folder narrowed to the client's roots inside it. Roots outside are ignored, and
    /// without any root inside the workspace stays as it is.
    fn narrowed(&self, roots: &[PathBuf]) -> Result<Workspace> {
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
            if chosen.is_empty() || folder.access == FolderAccess::Read {
                chosen = vec![folder.path.as_path().to_owned()];
            }
            for dir in chosen {
                narrowed = Some(match narrowed {
                    None => Workspace::open(&dir)?,
                    Some(workspace) => workspace.with_folder(&dir, folder.access)?,
                });
            }
        }
        Ok(self.guards.apply(narrowed.unwrap_or_else(|| self.workspace.clone())))
    }
}
