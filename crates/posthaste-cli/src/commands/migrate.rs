//! `posthaste migrate`: creates, upgrades and checks the outbox table. An outbox in Redis has none.

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use posthaste_sqlx::{Migration, SchemaState};
use posthaste_stores::StoreMigrations;
use serde::Serialize;

use crate::connect;
use crate::errors::say;
use crate::output::{Output, Report};
use crate::store_args::StoreArgs;
use posthaste_admin::terminal_escape;
use posthaste_stores::OutboxRef;
use posthaste_stores::StoreSpec;

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Create the outbox table or upgrade it; a missing SQLite file is created, and Redis has nothing to migrate
    ///
    /// JSON: {"table", "applied": [{"version", "name"}]}
    Apply(MigrateArgs),
    /// Print the SQL, to apply it by other means
    ///
    /// JSON: {"sql"}
    Print(MigrateArgs),
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Upgrade a table that another program created; the statements that rewrite it are printed first
    #[arg(long)]
    adopt: bool,

    #[command(flatten)]
    store: StoreArgs,
}

/// Report whether the outbox table is up to date
///
/// JSON: {"table", "state": "current|missing|behind|newer|foreign", "version": number or null, "latest": number or
/// null, "advice": text or null}
///
/// Exit code 0 if it is up to date, 1 if not.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) async fn run(command: MigrateCommand, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        MigrateCommand::Apply(args) => apply(args, output).await,
        MigrateCommand::Print(args) => print(args, output).await,
        MigrateCommand::Check(args) => check(args, output).await,
    }
}

async fn apply(args: MigrateArgs, output: Output) -> anyhow::Result<ExitCode> {
    let store = args.store.spec()?;
    let Some(migrations) = StoreMigrations::that_create(&store)? else {
        open(&store).await?;
        return nothing_to_migrate(MigrationReport::new(store.outbox_ref(), &[]), output);
    };
    let failed = || failure(&store, "migrated");
    let applied = if args.adopt {
        let state = migrations.check().await.with_context(failed)?;
        if let SchemaState::Foreign { adoptable: true, .. } = state {
            let sql = migrations.adoption_sql();
            show_first(
                &format!("-- These statements rewrite the table {}:\n{sql}", store.outbox_ref()),
                output,
            )?;
        }
        migrations.adopt().await.with_context(failed)?
    } else {
        migrations.apply().await.with_context(failed)?
    };
    output.print(&MigrationReport::new(store.outbox_ref(), &applied))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the statements that rewrite a table, before they run.
fn show_first(sql: &str, output: Output) -> anyhow::Result<()> {
    if output == Output::Json {
        say(sql);
        return Ok(());
    }
    // Also an error if stdout is closed: a table must not be rewritten if the user could not see the statements.
    output.print(&SqlReport { sql }).map_err(|error| anyhow!("nothing was changed: {error}"))
}

async fn print(args: MigrateArgs, output: Output) -> anyhow::Result<ExitCode> {
    let Some(migrations) = StoreMigrations::of(&args.store.spec()?)? else {
        return nothing_to_migrate(SqlReport { sql: "" }, output);
    };
    let sql = match args.adopt {
        true => migrations.adoption_sql(),
        false => migrations.sql(),
    };
    output.print(&SqlReport { sql: &sql })?;
    Ok(ExitCode::SUCCESS)
}

async fn check(args: CheckArgs, output: Output) -> anyhow::Result<ExitCode> {
    let store = args.store.spec()?;
    let Some(migrations) = StoreMigrations::of(&store)? else {
        open(&store).await?;
        return nothing_to_migrate(SchemaCheckReport::without_schema(store.outbox_ref()), output);
    };
    let state = migrations.check().await.with_context(|| failure(&store, "read"))?;
    let report = SchemaCheckReport::new(store.outbox_ref(), &state);
    output.print(&report)?;
    Ok(if report.advice.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Without a schema, problems show when the outbox is opened.
async fn open(store: &StoreSpec) -> anyhow::Result<()> {
    connect::with_admin(store, async |_| Ok(())).await
}

fn nothing_to_migrate(report: impl Report, output: Output) -> anyhow::Result<ExitCode> {
    output.print(&WithoutSchema(report))?;
    Ok(ExitCode::SUCCESS)
}

/// A report for a store without a schema: the same JSON, but another text.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct WithoutSchema<R>(R);

impl<R: Report> Report for WithoutSchema<R> {
    fn text(&self) -> String {
        "nothing to migrate: an outbox in Redis has no schema".to_owned()
    }
}

fn failure(store: &StoreSpec, what: &str) -> String {
    format!("the outbox table {} in {} cannot be {what}", store.outbox_ref(), store.url)
}

#[derive(Debug, Serialize)]
struct SqlReport<'a> {
    sql: &'a str,
}

impl Report for SqlReport<'_> {
    fn text(&self) -> String {
        self.sql.to_owned()
    }
}

#[derive(Debug, Serialize)]
struct MigrationReport {
    #[serde(flatten)]
    outbox: OutboxRef,
    applied: Vec<AppliedMigration>,
}

#[derive(Debug, Serialize)]
struct AppliedMigration {
    version: u32,
    name: &'static str,
}

impl MigrationReport {
    fn new(outbox: OutboxRef, applied: &[Migration]) -> Self {
        let step =
            |migration: &Migration| AppliedMigration { version: migration.version, name: migration.name };
        Self { outbox, applied: applied.iter().map(step).collect() }
    }
}

impl Report for MigrationReport {
    fn text(&self) -> String {
        if self.applied.is_empty() {
            return format!("the table {} is up to date already", self.outbox);
        }
        let steps = self.applied.iter().map(|step| format!("\n  {} {}", step.version, step.name));
        format!("the table {} is up to date; applied:{}", self.outbox, steps.collect::<String>())
    }
}

#[derive(Debug, Serialize)]
struct SchemaCheckReport {
    #[serde(flatten)]
    outbox: OutboxRef,
    state: &'static str,
    version: Option<u32>,
    latest: Option<u32>,
    /// What to do; `None` if the schema is current.
    advice: Option<String>,
}

impl SchemaCheckReport {
    fn without_schema(outbox: OutboxRef) -> Self {
        Self { outbox, state: "current", version: None, latest: None, advice: None }
    }

    fn new(outbox: OutboxRef, state: &SchemaState) -> Self {
        let option = outbox.options();
        let (name, version, latest, advice) = match state {
            SchemaState::Current { version } => ("current", Some(*version), Some(*version), None),
            SchemaState::Missing => {
                ("missing", None, None, Some(format!("create it with `posthaste migrate apply{option}`")))
            }
            SchemaState::Behind { version, latest } => {
                let advice = format!("bring it up to date with `posthaste migrate apply{option}`");
                ("behind", Some(*version), Some(*latest), Some(advice))
            }
            SchemaState::Newer { version, latest } => {
                let advice = "a newer release made it: use that release";
                ("newer", Some(*version), Some(*latest), Some(advice.to_owned()))
            }
            SchemaState::Foreign { why, adoptable } => {
                ("foreign", None, None, Some(foreign(why, *adoptable, &option)))
            }
            _ => ("unknown", None, None, None),
        };
        Self { outbox, state: name, version, latest, advice }
    }
}

fn foreign(why: &str, adoptable: bool, option: &str) -> String {
    let next = match adoptable {
        true => format!(
            "see the statements with `posthaste migrate print --adopt{option}`, then run \
             `posthaste migrate apply --adopt{option}`"
        ),
        false => "choose another name with --table".to_owned(),
    };
    format!("another program made it ({}): {next}", terminal_escape::one_line(why))
}

impl Report for SchemaCheckReport {
    fn text(&self) -> String {
        let version = match (self.version, self.latest) {
            (Some(version), Some(latest)) if version != latest => {
                format!(" (version {version}; this program has {latest})")
            }
            (Some(version), _) => format!(" (version {version})"),
            _ => String::new(),
        };
        let advice = self.advice.as_ref().map(|advice| format!(": {advice}")).unwrap_or_default();
        format!("the table {} is {}{version}{advice}", self.outbox, self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_but_current_says_what_to_do() {
        for (state, text) in [
            (SchemaState::Current { version: 3 }, "the table outbox_event is current (version 3)"),
            (
                SchemaState::Missing,
                "the table outbox_event is missing: create it with `posthaste migrate apply`",
            ),
            (
                SchemaState::Behind { version: 1, latest: 3 },
                "the table outbox_event is behind (version 1; this program has 3): bring it up to date with \
                 `posthaste migrate apply`",
            ),
            (
                SchemaState::Newer { version: 4, latest: 3 },
                "the table outbox_event is newer (version 4; this program has 3): a newer release made it: \
                 use that release",
            ),
            (
                SchemaState::Foreign { why: "no column\x07 seq".to_owned(), adoptable: false },
                r"the table outbox_event is foreign: another program made it (no column\u{7} seq): choose another name with --table",
            ),
        ] {
            assert_eq!(SchemaCheckReport::new(OutboxRef::default(), &state).text(), text);
        }
    }
}
