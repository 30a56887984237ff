//! Work that blocks its thread. TEMPORARY measuring toggle.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::crash::catch_panic;
use crate::{Fault, FaultKind};

/// Does work that blocks its thread for a moment, such as a write to a disk, and waits for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let spawn = std::env::var_os("HAFT_SPAWN").is_some();
    let crashed = |panic: String| Fault::new(FaultKind::Internal, format!("the change crashed: {panic}"));
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread if !spawn => {
            catch_panic(|| tokio::task::block_in_place(work)).unwrap_or_else(|panic| Err(crashed(panic)))
        }
        _ => tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| Err(crashed(panic.to_string()))),
    }
}
