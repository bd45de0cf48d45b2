//! Diagnosis of an outbox, on every database.

use posthaste::Recorder;
use posthaste::admin::Severity;

use crate::support::*;

/// The tests of this file.
macro_rules! diagnose_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::diagnose:
            healthy_outbox_has_no_findings,
            dropped_index_is_found_and_the_advice_brings_it_back,
        );
    };
}
pub(crate) use diagnose_tests;

pub(crate) async fn healthy_outbox_has_no_findings() {
    let db = Db::new().await;
    assert_eq!(diagnosed(&db.store).await, []);
    let recorder = Recorder::new();
    let outbox = db.start(&recorder);
    db.write(&Writer::new(&db.store, &outbox), &["a", "b"]).await;
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(diagnosed(&db.store).await, []);
    outbox.shutdown().await;
    db.close().await;
}

pub(crate) async fn dropped_index_is_found_and_the_advice_brings_it_back() {
    let db = Db::with_pool(1).await;
    db.write(&db.plain_writer(), &["a"]).await;
    for index in INDEXES {
        db.execute(&drop_index_sql(&format!("outbox_event_{index}"))).await;
        let findings = diagnosed(&db.store).await;
        assert_eq!(findings.len(), 1, "{findings:?}");
        let finding =
            assert_found(&findings, "missing-index", &[&format!("outbox_event_{index} is missing")]);
        assert_eq!(finding.severity, Severity::Problem);
        db.execute(&statement_of(finding, "create it again: ")).await;
        assert_eq!(diagnosed(&db.store).await, [], "{index}");
    }
    db.close().await;
}
