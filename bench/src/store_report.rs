//! Results of a store benchmark: medians of the rounds, as JSON.

use serde::Serialize;

use super::BenchArgs;
use super::batch_size::CallSizeRates;
use super::bench_store::{ByHand, CrossProcessLatency, NotifyCost};
use super::drain_with_snapshot::HeldSnapshot;
use super::process_memory;
use super::report_format::Setup;
use super::settle_rate::SettleRates;
use super::soak::SteadyLoad;
use super::statistics::{Ratio, median, rounded};
use super::store_round::{DeliveryRate, StoreRound};
use super::table_size::TableSizeComparison;
use posthaste_measurements::Quantiles;

/// Results. Rates are per second and medians of the rounds; ratios are medians of the ratios within each round.
#[derive(Debug, Serialize)]
pub(super) struct StoreReport {
    #[serde(flatten)]
    pub(super) setup: Setup,
    pub(super) writers: usize,
    pub(super) workers: usize,
    pub(super) business_tx_per_s: f64,
    pub(super) outbox_tx_per_s: f64,
    pub(super) writer_only_tx_per_s: f64,
    pub(super) hand_written_tx_per_s: f64,
    pub(super) outbox_to_business: Option<Ratio>,
    pub(super) writer_only_to_business: Option<Ratio>,
    pub(super) outbox_to_hand_written: Option<Ratio>,
    pub(super) few_together_events_per_s: f64,
    pub(super) few_singly_events_per_s: f64,
    pub(super) few_together_to_singly: Option<Ratio>,
    pub(super) live_single_events_per_s: f64,
    pub(super) live_single_to_business: Option<Ratio>,
    pub(super) live_single_lag_events: u64,
    pub(super) live_batch_events_per_s: f64,
    pub(super) backlog_events_per_s: f64,
    pub(super) write_and_drain_events_per_s: f64,
    pub(super) claim_and_settle_events_per_s: CallSizeRates,
    pub(super) by_hand: Option<ByHandReport>,
    pub(super) settle_batch_mean: SettleBatch,
    pub(super) peak_memory_bytes: Option<u64>,
    #[serde(flatten)]
    pub(super) single: SingleMeasurements,
}

/// Results of measurements that run once and not in every round.
#[derive(Debug, Serialize)]
pub(super) struct SingleMeasurements {
    pub(super) settle_rows_per_s: SettleRates,
    pub(super) latency_us: Option<Quantiles>,
    pub(super) between_processes_us: Option<CrossProcessLatency>,
    pub(super) flatness: Option<TableSizeComparison>,
    pub(super) snapshot: Option<HeldSnapshot>,
    pub(super) steady: Option<SteadyLoad>,
}

/// Comparison with a hand-written baseline, and the cost of notifications.
#[derive(Debug, Serialize)]
pub(super) struct ByHandReport {
    pub(super) proved_tx_per_s: Option<f64>,
    pub(super) proved_to_hand_written: Option<Ratio>,
    pub(super) outbox_to_proved: Option<Ratio>,
    pub(super) drain_events_per_s: f64,
    pub(super) backlog_to_drain: Option<Ratio>,
    pub(super) one_by_one_events_per_s: f64,
    pub(super) backlog_to_one_by_one: Option<Ratio>,
    pub(super) notify_tx_per_s: Option<f64>,
    pub(super) without_notify_tx_per_s: Option<f64>,
    pub(super) notify_to_without_notify: Option<Ratio>,
}

/// Mean number of events per settle statement, by how they were written.
#[derive(Debug, Serialize)]
pub(super) struct SettleBatch {
    pub(super) live_single: f64,
    pub(super) live_batch: f64,
    pub(super) backlog: f64,
}

impl StoreReport {
    pub(super) fn new(
        store: &'static str,
        args: &BenchArgs,
        rounds: &[StoreRound],
        single: SingleMeasurements,
    ) -> Self {
        let of = |figure: &dyn Fn(&StoreRound) -> f64| median(rounds.iter().map(figure).collect());
        let rate = |figure: &dyn Fn(&StoreRound) -> f64| of(figure).round();
        let ratio = |figure: &dyn Fn(&StoreRound) -> f64| Ratio::of(rounds.iter().map(figure));
        let settled = |figure: &dyn Fn(&StoreRound) -> DeliveryRate| {
            rounded(of(&|round| figure(round).settle_batch), 1)
        };
        Self {
            setup: Setup::new(store, args),
            writers: args.writers(),
            workers: args.workers,
            business_tx_per_s: rate(&|round| round.business),
            outbox_tx_per_s: rate(&|round| round.outbox),
            writer_only_tx_per_s: rate(&|round| round.writer_only),
            hand_written_tx_per_s: rate(&|round| round.hand_written),
            outbox_to_business: ratio(&|round| round.outbox / round.business),
            writer_only_to_business: ratio(&|round| round.writer_only / round.business),
            outbox_to_hand_written: ratio(&|round| round.outbox / round.hand_written),
            few_together_events_per_s: rate(&|round| round.few_together),
            few_singly_events_per_s: rate(&|round| round.few_singly),
            few_together_to_singly: ratio(&|round| round.few_together / round.few_singly),
            live_single_events_per_s: rate(&|round| round.live_single.delivered.per_second),
            live_single_to_business: ratio(&|round| round.live_single.delivered.per_second / round.business),
            live_single_lag_events: rounds
                .iter()
                .map(|round| round.live_single.lag)
                .max()
                .unwrap_or_default(),
            live_batch_events_per_s: rate(&|round| round.live_batch.delivered.per_second),
            backlog_events_per_s: rate(&|round| round.backlog.per_second),
            write_and_drain_events_per_s: rate(&|round| round.write_and_drain),
            claim_and_settle_events_per_s: CallSizeRates::of(rounds.iter().map(|round| round.call_size)),
            by_hand: ByHandReport::of(rounds),
            settle_batch_mean: SettleBatch {
                live_single: settled(&|round| round.live_single.delivered),
                live_batch: settled(&|round| round.live_batch.delivered),
                backlog: settled(&|round| round.backlog),
            },
            peak_memory_bytes: process_memory::peak(),
            single,
        }
    }
}

impl ByHandReport {
    /// `None` if the store has no baseline.
    fn of(rounds: &[StoreRound]) -> Option<Self> {
        let both: Vec<(&StoreRound, ByHand)> =
            rounds.iter().filter_map(|round| Some((round, round.by_hand?))).collect();
        if both.is_empty() {
            return None;
        }
        let rate = |figure: &dyn Fn(&ByHand) -> f64| {
            median(both.iter().map(|(_, by_hand)| figure(by_hand)).collect()).round()
        };
        let ratio = |figure: &dyn Fn(&StoreRound, &ByHand) -> f64| {
            Ratio::of(both.iter().map(|(round, by_hand)| figure(round, by_hand)))
        };
        let proved: Vec<(&StoreRound, f64)> =
            both.iter().filter_map(|(round, by_hand)| Some((*round, by_hand.proved?))).collect();
        let notify_costs: Vec<NotifyCost> =
            both.iter().filter_map(|(_, by_hand)| by_hand.notify_cost).collect();
        let notify_rate = |figure: &dyn Fn(&NotifyCost) -> f64| {
            (!notify_costs.is_empty()).then(|| median(notify_costs.iter().map(figure).collect()).round())
        };
        Some(Self {
            proved_tx_per_s: (!proved.is_empty())
                .then(|| median(proved.iter().map(|(_, rate)| *rate).collect()).round()),
            proved_to_hand_written: Ratio::of(proved.iter().map(|(round, rate)| rate / round.hand_written)),
            outbox_to_proved: Ratio::of(proved.iter().map(|(round, rate)| round.outbox / rate)),
            drain_events_per_s: rate(&|by_hand| by_hand.drain),
            backlog_to_drain: ratio(&|round, by_hand| round.backlog.per_second / by_hand.drain),
            one_by_one_events_per_s: rate(&|by_hand| by_hand.one_by_one),
            backlog_to_one_by_one: ratio(&|round, by_hand| round.backlog.per_second / by_hand.one_by_one),
            notify_tx_per_s: notify_rate(&|notify_cost| notify_cost.with_notify),
            without_notify_tx_per_s: notify_rate(&|notify_cost| notify_cost.without_notify),
            notify_to_without_notify: Ratio::of(
                notify_costs.iter().map(|notify_cost| notify_cost.with_notify / notify_cost.without_notify),
            ),
        })
    }
}
