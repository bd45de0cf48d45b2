//! From texts to a configuration: parse, complete, override, check.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use posthaste::Config;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::flags::{self, Flags};
use super::problem::{Problem, Problems};
use super::problem_collector::ProblemCollector;
use super::section::Section;
use super::source_text::{Origin, SourceText, SourceTexts, Span};
use super::tree;
use super::variables::Environment;
use super::{OutboxConfig, RelayConfig, admin, interpolation, outbox, overrides};

/// A file that describes outboxes is far smaller.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Where a configuration comes from. It can be read again.
#[derive(Clone, Debug)]
pub enum Source {
    /// A TOML file.
    File(PathBuf),
    /// Options alone.
    Flags(Flags),
}

impl Source {
    /// Reads it, with the environment as it is now, and checks everything. Nothing is connected.
    ///
    /// # Errors
    ///
    /// Every problem, each with its place and what to do about it.
    pub fn load(&self) -> Result<RelayConfig, Problems> {
        self.load_with(&Environment::of_process())
    }

    pub(super) fn load_with(&self, environment: &Environment) -> Result<RelayConfig, Problems> {
        let mut texts = SourceTexts::default();
        match self {
            Self::File(path) => texts.add(Origin::File(path.display().to_string()), read(path)?),
            Self::Flags(flags) => flags.collect(environment, &mut texts),
        }
        let unreadable = overrides::collect(environment, &mut texts);
        let defaults = toml::to_string(&Config::relay()).unwrap_or_default();
        texts.add(Origin::Defaults, defaults);
        let problems = ProblemCollector::new(&texts);
        let mut table = match self {
            Self::File(_) => parsed(&problems, environment),
            Self::Flags(_) => flags::table(&texts),
        };
        overrides::apply(&mut table, &unreadable, &problems);
        let config = relay(&problems, table);
        if problems.is_empty() { Ok(config) } else { Err(problems.finish()) }
    }

    /// What a person calls it.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Flags(_) => "the configuration".to_owned(),
        }
    }
}

/// The text of the file, if it is one.
fn read(path: &Path) -> Result<String, Problems> {
    let failed = |what: String| {
        let source = path.display().to_string();
        let problem = Problem {
            source: source.clone(),
            line: None,
            column: None,
            setting: String::new(),
            what,
            excerpt: None,
        };
        Problems { source, problems: vec![problem], more: 0 }
    };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| failed(cannot_be_read(&error)))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(failed("is larger than 1 MiB: this is no configuration file".to_owned()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        failed(format!("is no text in UTF-8 in line {line}: save it as UTF-8"))
    })
}

fn cannot_be_read(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is not there: see whether the path is right".to_owned(),
        _ => format!("cannot be read ({error}): see that it is a file which this user may read"),
    }
}

/// The file's table, completed with variables and files.
fn parsed<'i>(problems: &ProblemCollector<'i>, environment: &Environment) -> DeTable<'i> {
    let Some(file) = problems.texts.iter().next() else { return DeTable::new() };
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    let mut table = table.into_inner();
    problems.hide_secrets_of(&table);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        problems.syntax(&span, format!("is no TOML: {}", error.message()));
    }
    interpolation::expand(&mut table, environment, problems);
    table
}

fn relay<'i>(problems: &ProblemCollector<'i>, table: DeTable<'i>) -> RelayConfig {
    let mut section = Section::new(problems, "", 0..0, table);
    let admin = section.table("admin").unwrap_or_default();
    let log = section.table("log").unwrap_or_default();
    let outboxes = section.table("outbox");
    section.finish();
    let admin = admin::admin(Section::new(problems, "admin", admin.1, admin.0));
    let log = admin::log(Section::new(problems, "log", log.1, log.0));
    RelayConfig { admin, log, outboxes: all_outboxes(problems, outboxes) }
}

fn all_outboxes<'i>(
    problems: &ProblemCollector<'i>,
    outboxes: Option<(DeTable<'i>, Span)>,
) -> Vec<OutboxConfig> {
    let (table, _) = outboxes.unwrap_or_default();
    if table.is_empty() {
        let what =
            "there is no outbox: write [outbox.NAME] with store and [[outbox.NAME.route]] with publish";
        problems.missing(&(0..0), "outbox", what);
    }
    let defaults = problems.texts.iter().find(|text| text.origin == Origin::Defaults).map(defaults);
    let defaults = defaults.unwrap_or_default();
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let read = entries.into_iter().filter_map(|(name, node)| {
        let (span, path) = (node.span(), format!("outbox.{}", name.get_ref()));
        let DeValue::Table(table) = Spanned::into_inner(node) else {
            problems.add(&span, &path, format!("must be a table: write [{path}] and its keys below"));
            return None;
        };
        let section = Section::new(problems, path, span, table);
        let place = section.place("store");
        Some((place, outbox::outbox(section, name.get_ref(), &defaults)?))
    });
    let outboxes: Vec<_> = read.collect();
    refuse_same_store(problems, &outboxes);
    outboxes.into_iter().map(|(_, outbox)| outbox).collect()
}

/// Two engines over one table would claim each other's events, and each finds no route for some of them.
fn refuse_same_store(problems: &ProblemCollector<'_>, outboxes: &[(Span, OutboxConfig)]) {
    for (n, (place, outbox)) in outboxes.iter().enumerate() {
        let twin = outboxes[..n].iter().find(|(_, other)| other.store.is_same(&outbox.store));
        if let Some((_, twin)) = twin {
            let what = format!(
                "has the same store and table as outbox.{}: give it a table of its own, or put its routes there",
                twin.config.name
            );
            problems.add(place, &format!("outbox.{}", outbox.config.name), what);
        }
    }
}

/// What a relay's engine runs with where nothing is said.
fn defaults(text: &SourceText) -> DeTable<'_> {
    let (table, _) = DeTable::parse_recoverable(&text.text);
    tree::shifted_table(table.into_inner(), text.start)
}
