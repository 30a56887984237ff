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
fn only_what_was_filled_and_synced_comes_to_the_disk_along_with_others() {
    let (_folder, mut log) = log();
    assert_eq!(active(&log).sure.get(), 0, "nothing was synced yet");
    log.sync_before(None).unwrap();
    let sure = active(&log).sure.get();
    assert!(sure > active(&log).end, "there are zeros for the next records");
    // Beyond them the file grows, and has to be synced itself.
    while active(&log).end <= sure {
        log.append(settled(1), &[]).unwrap();
    }
    assert_eq!(active(&log).sure.get(), sure);
    let next = tempfile::tempfile().unwrap();
    log.sync_before(Some(&next)).unwrap();
    assert!(active(&log).sure.get() >= active(&log).end);
}

#[test]
fn what_others_have_cut_off_is_filled_and_synced_again() {
    let (folder, mut log) = log();
    log.append(settled(1), &[]).unwrap();
    log.sync_before(None).unwrap();
    let end = active(&log).end;
    log.store.open_log(&name(1)).unwrap().set_len(end).unwrap();
    log.catch_up().unwrap();
    assert_eq!((active(&log).allocated, active(&log).sure.get()), (end, 0));
    log.append(settled(2), &[]).unwrap();
    assert!(active(&log).allocated > active(&log).end);
    // What another process has written, it may not have synced.
    log.sync_before(None).unwrap();
    let mut other = Log::new(Store::at(folder.path()), Limits::default());
    other.catch_up().unwrap();
    other.append(settled(3), &[]).unwrap();
    log.catch_up().unwrap();
    assert_eq!((active(&log).end, active(&log).sure.get()), (active(&other).end, 0));
}
