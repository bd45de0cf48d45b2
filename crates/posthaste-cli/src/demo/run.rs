//! One run of the demo: writes orders, prints what happens, shows the counts, and shuts down.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::crash_journal::Journal;
use super::destinations::DemoDestinations;
use super::directory::DemoDir;
use super::narration::Story;
use super::observed_counts::Tally;
use super::order_plan::OrderPlan;
use super::report::{DemoReport, RunStart};
use super::screen::{DemoScreen, RateWindow, Summary};
use super::shop::Shop;
use super::{DemoArgs, program};
use crate::stop::Stop;

/// How long `--once` waits without any delivery. The longest back-off of the engine is half a minute.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// State of one run.
pub(super) struct Demo {
    shop: Shop,
    destinations: Arc<DemoDestinations>,
    screen: DemoScreen,
    stop: Stop,
    plan: OrderPlan,
    orders: Option<u64>,
    rate: u64,
    started: Instant,
    start: RunStart,
    file: PathBuf,
}

impl Demo {
    pub(super) async fn open(args: &DemoArgs, dir: &DemoDir, screen: DemoScreen) -> anyhow::Result<Self> {
        let journal = Journal::open(args.journal.as_deref(), args.echo).context("cannot open the journal")?;
        let destinations = DemoDestinations::new(Arc::new(Tally::default()), Arc::new(journal));
        let shop = Shop::open(&dir.file(), Arc::clone(&destinations)).await?;
        let seed = args.seed.unwrap_or_else(|| fastrand::u64(0..1_000_000));
        let start = RunStart { seed, stats: shop.stats().await?, database: dir.kept(), once: args.once };
        Ok(Self {
            plan: OrderPlan::new(seed, args.orders()),
            orders: args.orders(),
            rate: args.rate(),
            stop: Stop::on_ctrl_c(),
            started: Instant::now(),
            file: dir.file(),
            shop,
            destinations,
            screen,
            start,
        })
    }

    pub(super) async fn run(mut self) -> anyhow::Result<DemoReport> {
        self.shop.start()?;
        self.introduce();
        let outcome = tokio::select! {
            outcome = self.work() => outcome,
            never = self.watch() => match never {},
        };
        // Also after an error, so that the next run does not repeat the deliveries of this one.
        let end = self.shop.close().await;
        self.screen.clear();
        outcome?;
        self.start.once &= !self.stop.is_requested();
        Ok(DemoReport::new(self.start, self.destinations.tally.snapshot(), &end?, self.started.elapsed()))
    }

    fn introduce(&self) {
        self.say(&format!(
            "seed {}: writing orders, each with its event in one transaction",
            self.start.seed
        ));
        if !self.start.once {
            let (program, file) = (program(), self.file.display());
            self.say(&format!(
                "look into the database from another terminal:\n          {program} status --store sqlite://{file}"
            ));
        }
    }

    fn say(&self, sentence: &str) {
        self.screen.say(self.started.elapsed(), sentence);
    }

    async fn work(&self) -> anyhow::Result<()> {
        self.take_orders().await?;
        match self.start.once {
            true => self.settle().await,
            false => {
                self.stop.requested().await;
                Ok(())
            }
        }
    }

    /// Writes orders until there are enough or the user presses Ctrl-C, which never interrupts an order.
    async fn take_orders(&self) -> anyhow::Result<()> {
        let mut story = Story::default();
        let first = self.shop.next_number().await?;
        for taken in 0..self.orders.unwrap_or(u64::MAX) {
            self.pace(taken).await;
            if self.stop.is_requested() {
                return Ok(());
            }
            let order = self.plan.order(first + taken);
            self.set_the_scene(order.number);
            if let Some(sentence) = story.about(&order) {
                self.say(&sentence);
            }
            self.shop.take(&order).await?;
        }
        self.bring_the_warehouse_back();
        Ok(())
    }

    /// Waits until the next order is due.
    async fn pace(&self, taken: u64) {
        if self.rate == 0 {
            return;
        }
        let due = self.started + Duration::from_secs_f64(taken as f64 / self.rate as f64);
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            () = self.stop.requested() => {}
        }
    }

    fn set_the_scene(&self, number: u64) {
        let down = self.plan.warehouse_is_down(number);
        if self.destinations.set_warehouse_down(down) {
            self.say(&Story::warehouse(down));
        }
    }

    fn bring_the_warehouse_back(&self) {
        if self.destinations.set_warehouse_down(false) {
            self.say(&Story::warehouse(false));
        }
    }

    /// Waits until every event is DONE or DEAD, or nothing was delivered for [`SETTLE_TIMEOUT`].
    async fn settle(&self) -> anyhow::Result<()> {
        let mut last = (0, Instant::now());
        while !self.shop.is_settled().await? && !self.stop.is_requested() && last.1.elapsed() < SETTLE_TIMEOUT
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let delivered = self.destinations.tally.snapshot().delivered;
            if delivered != last.0 {
                last = (delivered, Instant::now());
            }
        }
        Ok(())
    }

    /// Shows the counts until the future is dropped.
    async fn watch(&self) -> Infallible {
        let mut rate = RateWindow::default();
        loop {
            tokio::time::sleep(self.screen.pause()).await;
            let snapshot = self.destinations.tally.snapshot();
            let per_second = rate.at(Instant::now(), snapshot.delivered);
            // An error of the store skips one summary.
            let Ok(stats) = self.shop.stats().await else { continue };
            self.screen.show(&Summary { snapshot, stats, per_second, elapsed: self.started.elapsed() });
            if self.screen.is_closed() {
                self.stop.request();
            }
        }
    }
}
