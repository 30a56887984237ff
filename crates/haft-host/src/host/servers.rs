//! The MCP servers of the settings. Those that only the project asks for run in a sandbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::{Store, Workspace};
use haft_mcp::client::{Server, ServerSandbox, ServerSandboxes, Servers};
use haft_rules::Rules;
use haft_sandbox::FolderAccess;
use haft_sandbox::sandbox::{Layer, Layers, Network};

use super::{Result, runtime};
use crate::environment::Environment;
use crate::settings::{ConfiguredServer, Folders, Loaded, home_dir};

/// The folder of logins to MCP servers, shared by all workspaces.
fn logins(state: &Path) -> PathBuf {
    state.join("logins")
}

/// The enabled MCP servers of an environment, for use without a host. None is started yet.
pub fn servers(environment: &Environment) -> Result<Servers> {
    if !environment.loaded.servers.iter().any(is_confined(&environment.loaded)) {
        // No sandbox, so no workspace: the current folder may be one that cannot be a workspace.
        return Ok(outside(&environment.loaded, &environment.root, &environment.folders.state));
    }
    let mut workspace = Workspace::open(&environment.root)?;
    for dir in &environment.loaded.settings.add_dirs {
        workspace = workspace.with_folder(dir, FolderAccess::Write)?;
    }
    let Environment { loaded, state, folders, .. } = environment;
    workspace = workspace.guarding(&folders.config).guarding(&folders.state);
    Ok(all(loaded, &workspace, state, folders))
}

/// The enabled MCP servers of the settings, all of them outside of a sandbox.
fn outside(loaded: &Loaded, root: &Path, user_state: &Path) -> Servers {
    Servers::with_sandboxes(enabled(loaded), root, &Store::at(logins(user_state)), Arc::new(|_| Ok(None)))
}

fn enabled(loaded: &Loaded) -> Vec<Server> {
    let used = loaded.servers.iter().filter(|found| !found.config.disabled);
    used.map(ConfiguredServer::server).collect()
}

/// Tells whether a server runs in a sandbox: one that only the project asks for does.
fn is_confined(loaded: &Loaded) -> impl Fn(&ConfiguredServer) -> bool {
    let free = &loaded.settings.mcp.free;
    move |server| server.is_of_project && !free.contains(&server.name)
}

/// The enabled MCP servers of the settings. None is started yet. `state` is the workspace's state folder.
pub(super) fn all(loaded: &Loaded, workspace: &Workspace, state: &Store, folders: &Folders) -> Servers {
    Servers::with_sandboxes(
        enabled(loaded),
        workspace.root().as_path(),
        &Store::at(logins(&folders.state)),
        sandboxes(loaded, workspace, state, folders),
    )
}

/// Tells which sandbox a server is started in: one for a server that only the project asks for.
fn sandboxes(loaded: &Loaded, workspace: &Workspace, state: &Store, folders: &Folders) -> ServerSandboxes {
    let options = runtime::sandbox_options(&loaded.settings, state, folders);
    let (book, workspace, mcp) = (loaded.book.clone(), workspace.clone(), loaded.settings.mcp.clone());
    let confined = loaded.servers.iter().filter(|server| is_confined(loaded)(server));
    let confined: Vec<String> = confined.map(|server| server.name.clone()).collect();
    Arc::new(move |server: &Server| {
        if options.layers == Layers::None || !confined.contains(&server.name) {
            return Ok(None);
        }
        let rules = Rules::new(&book, &workspace, home_dir().as_deref());
        let mut policy = options.policy_of_server(&workspace, &rules);
        if mcp.network.contains(&server.name) {
            policy.network = Network::On;
        }
        let mut required = options.required.clone();
        if rules.hide_something() || rules.guard_something() {
            // Nothing else holds a program to rules about files.
            required.push(Layer::View);
        }
        let name = &server.name;
        let about = match policy.network {
            Network::On => "it runs in the sandbox, since only the project asks for it".to_owned(),
            Network::Off => format!(
                "it runs in the sandbox and without the network, since only the project asks for it; `mcp.network = \
                 [\"{name}\"]` in your own settings gives it the network"
            ),
        };
        let about = format!("{about}; `mcp.free = [\"{name}\"]` there lets it run outside of the sandbox");
        Ok(Some(ServerSandbox { policy, required, about }))
    })
}
