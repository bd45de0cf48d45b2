//! Loads a configuration: parses the file or the options, fills in variables, applies overrides, checks everything.

use std::io;
use std::path::{Path, PathBuf};

use posthaste::Config;
use toml::Spanned;
use toml::de::DeTable;

use super::environment::Environment;
use super::flags::{self, Flags};
use super::key_sensitivity::sensitivity;
use super::known_keys::ROOT;
use super::problem::Problems;
use super::problem_collector::ProblemCollector;
use super::redaction::Redaction;
use super::section::Section;
use super::source_text::{Origin, SourceTexts, Span};
use super::{OutboxConfig, RelayConfig, admin, bounded_file, env_overrides, interpolation, outbox};

/// The largest file. A real configuration is far smaller.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The source of a configuration. A reload reads it again.
#[derive(Clone, Debug)]
pub enum Source {
    /// A TOML file.
    File(PathBuf),
    /// Command-line options alone.
    Flags(Flags),
}

impl Source {
    /// Reads the configuration with the current environment and checks everything, without connecting.
    ///
    /// # Errors
    ///
    /// All problems, each with its place and what to do about it.
    pub fn load(&self) -> Result<RelayConfig, Problems> {
        self.load_with(&Environment::of_process())
    }

    pub(super) fn load_with(&self, environment: &Environment) -> Result<RelayConfig, Problems> {
        let mut texts = SourceTexts::default();
        match self {
            Self::File(path) => texts.add(Origin::File(self.name()), read(path)?),
            Self::Flags(flags) => flags.collect(environment, &mut texts),
        }
        let unreadable = env_overrides::collect(environment, &mut texts);
        let (mut table, problems) = match self {
            Self::File(_) => parsed(&texts, environment),
            Self::Flags(_) => {
                let nothing_hidden = Redaction::of(&DeTable::new(), false, sensitivity);
                (flags::table(&texts), ProblemCollector::new(&texts, nothing_hidden))
            }
        };
        env_overrides::apply(&mut table, &unreadable, &problems);
        let config = relay(&Section::root(&problems, &table).only(ROOT));
        if problems.is_empty() { Ok(config) } else { Err(problems.finish()) }
    }

    /// The name of the source in messages: the path of the file.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Flags(_) => "the configuration".to_owned(),
        }
    }
}

/// Reads the file, which must be UTF-8 text of bounded size.
fn read(path: &Path) -> Result<String, Problems> {
    let failed = |what| Problems::of_file(path.display().to_string(), what);
    let bytes =
        bounded_file::read(path, MAX_FILE_BYTES, "is larger than 1 MiB: this is not a configuration file")
            .map_err(|error| failed(cannot_be_read(&error)))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        failed(format!("is not UTF-8 text in line {line}: save it as UTF-8"))
    })
}

fn cannot_be_read(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist: check the path".to_owned(),
        io::ErrorKind::FileTooLarge => error.to_string(),
        _ => format!("cannot be read ({error}): check that it is a file that this user may read"),
    }
}

/// The table of the file, with variables and secret files filled in.
fn parsed<'i>(texts: &'i SourceTexts, environment: &Environment) -> (DeTable<'i>, ProblemCollector<'i>) {
    let text = texts.iter().next().map_or("", |file| &file.text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut table = table.into_inner();
    let problems = ProblemCollector::new(texts, Redaction::of(&table, !errors.is_empty(), sensitivity));
    for error in &errors {
        problems.add(&error.span().unwrap_or(0..0), "", format!("is not TOML: {}", error.message()));
    }
    interpolation::expand(&mut table, environment, &problems);
    (table, problems)
}

fn relay(root: &Section<'_, '_>) -> RelayConfig {
    RelayConfig {
        admin: root.section("admin").map(admin::admin).unwrap_or_default(),
        log: root.section("log").map(admin::log).unwrap_or_default(),
        outboxes: outboxes(root),
    }
}

fn outboxes(root: &Section<'_, '_>) -> Vec<OutboxConfig> {
    let all = root.section("outbox");
    let names = all.iter().flat_map(Section::entries).map(|(name, _)| name);
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        let what =
            "there is no outbox: write [outbox.NAME] with store and [[outbox.NAME.route]] with publish";
        root.missing("outbox", what);
    }
    // The defaults of a relay's engine, as parsed TOML, so that the table of the file can be laid over them.
    let defaults = toml::to_string(&Config::relay()).unwrap_or_default();
    let defaults = DeTable::parse(&defaults).map(Spanned::into_inner).unwrap_or_default();
    let read = names.into_iter().filter_map(|name| {
        let section = all.as_ref()?.section(name)?;
        Some((section.place("store"), outbox::outbox(&section, name, &defaults)?))
    });
    let outboxes: Vec<_> = read.collect();
    refuse_same_store(root, &outboxes);
    outboxes.into_iter().map(|(_, outbox)| outbox).collect()
}

/// Refuses two outboxes with the same table: their engines would claim each other's events, and each would find no
/// route for some of them.
fn refuse_same_store(root: &Section<'_, '_>, outboxes: &[(Span, OutboxConfig)]) {
    for (n, (place, outbox)) in outboxes.iter().enumerate() {
        let twin = outboxes[..n].iter().find(|(_, other)| other.store.is_same(&outbox.store));
        if let Some((_, twin)) = twin {
            let what = format!(
                "has the same store and table as outbox.{}: give it a table of its own, or put its routes there",
                twin.config.name
            );
            root.add(place, &format!("outbox.{}", outbox.config.name), what);
        }
    }
}
