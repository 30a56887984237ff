use super::*;

fn log() -> (tempfile::TempDir, Log) {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(Store::at(folder.path()), Limits::default());
    log.catch_up().unwrap();
    (folder, log)
}

fn settled(number: u64) -> Record {
    Record::Outcome { number, outcome: Outcome::Done }
}

fn active(log: &Log) -> &Active {
    log.active.as_ref().unwrap()
}

#[test]
fn only_records_over_synced_zeros_share_a_flush() {
    let (_folder, mut log) = log();
    assert_eq!(active(&log).flush.mapped(), 0, "nothing was synced yet");
    log.sync_before(None).unwrap();
    let mapped = active(&log).flush.mapped();
    assert!(mapped > active(&log).end, "there are zeros for the next records");
    // Beyond them the file grows, so it needs a sync of its own.
    while active(&log).end <= mapped {
        log.append(settled(1), &[]).unwrap();
    }
    assert_eq!(active(&log).flush.mapped(), mapped);
    let next = tempfile::tempfile().unwrap();
    log.sync_before(Some(&next)).unwrap();
    assert!(active(&log).flush.mapped() >= active(&log).end);
}

#[test]
fn a_segment_truncated_by_another_process_is_allocated_and_synced_again() {
    let (folder, mut log) = log();
    log.append(settled(1), &[]).unwrap();
    log.sync_before(None).unwrap();
    let end = active(&log).end;
    log.store.open_log(&segment_name(1)).unwrap().set_len(end).unwrap();
    log.catch_up().unwrap();
    assert_eq!((active(&log).allocated, active(&log).flush.mapped()), (end, 0));
    log.append(settled(2), &[]).unwrap();
    assert!(active(&log).allocated > active(&log).end);
    // Another process may not have synced its writes.
    log.sync_before(None).unwrap();
    let mut other = Log::new(Store::at(folder.path()), Limits::default());
    other.catch_up().unwrap();
    other.append(settled(3), &[]).unwrap();
    log.catch_up().unwrap();
    assert_eq!((active(&log).end, active(&log).flush.mapped()), (active(&other).end, 0));
}
