//! Descriptors that this process was started with. Only std opens descriptors with close-on-exec: what a careless parent
//! left open would reach every program that haft starts.

/// Marks every open descriptor but the standard ones as close-on-exec, so that no program that this process starts inherits
/// them. Call it first thing in `main`.
pub fn keep_inherited_files() {
    #[cfg(target_os = "linux")]
    {
        #[allow(unsafe_code)]
        // SAFETY: sets a flag of descriptors, and touches no memory.
        let is_set = unsafe {
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0
        };
        if is_set {
            return;
        }
    }
    // Linux before 5.11, and other systems.
    let open = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        #[allow(unsafe_code)]
        // SAFETY: as above; a descriptor that is closed by now is an error, which is fine.
        unsafe {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}
