//! The command reference in `docs/command-line.md`, generated from the clap definitions.
//!
//! The test fails if the page is out of date. This command updates it:
//! `POSTHASTE_UPDATE_DOCS=1 cargo test -p posthaste-cli command_reference`.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use crate::cli::Cli;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md");

/// The marks around the generated part of the page.
const BEGIN: &str =
    "<!-- generated: POSTHASTE_UPDATE_DOCS=1 cargo test -p posthaste-cli command_reference -->\n";
const END: &str = "<!-- end of the generated part -->\n";

/// Options that several commands have, printed once: their heading, a command that has them, and the title.
const SHARED_OPTIONS: [(&str, &str, &str); 2] =
    [("Store", "status", "Store options"), ("Without a file", "relay", "Options without a file")];

/// One section per command, in the order of the help, and the shared options.
fn reference() -> String {
    let mut cli = Cli::command();
    cli.build();
    let mut text = String::new();
    write_commands(&mut text, &cli, &cli, "posthaste");
    for (heading, command, title) in SHARED_OPTIONS {
        let _ = write!(text, "\n### {title}\n\n");
        write_table(&mut text, &options_below(find(&cli, command), Some(heading)));
    }
    text
}

fn find<'c>(cli: &'c Command, name: &str) -> &'c Command {
    cli.find_subcommand(name).expect("the command exists")
}

fn write_commands(text: &mut String, cli: &Command, parent: &Command, path: &str) {
    for command in parent.get_subcommands().filter(|command| command.get_name() != "help") {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            write_commands(text, cli, command, &path);
        } else {
            write_command(text, cli, command, &path);
        }
    }
}

fn write_command(text: &mut String, cli: &Command, command: &Command, path: &str) {
    let usage = command.clone().render_usage().to_string();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "\n### `{path}`\n\n```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let _ = writeln!(text, "{}", sentences(&about).join("\n\n"));
    let mut headings: Vec<Option<&str>> = Vec::new();
    for heading in command.get_arguments().map(Arg::get_help_heading) {
        if !headings.contains(&heading) {
            write_options(text, cli, command, heading);
            headings.push(heading);
        }
    }
    if let Some(help) = command.get_after_help() {
        let _ = writeln!(text, "\n```text\n{help}\n```");
    }
}

/// The options below a heading, or a link to them if they are the shared ones.
fn write_options(text: &mut String, cli: &Command, command: &Command, heading: Option<&str>) {
    let options = options_below(command, heading);
    let ids = |options: &[&Arg]| options.iter().map(|arg| arg.get_id().clone()).collect::<Vec<_>>();
    let shared = SHARED_OPTIONS.iter().find(|(shared, source, _)| {
        heading == Some(*shared) && ids(&options) == ids(&options_below(find(cli, source), heading))
    });
    if let Some((_, _, title)) = shared {
        let title = title.to_lowercase();
        let _ = writeln!(text, "\nAlso the [{title}](#{}).", title.replace(' ', "-"));
    } else if !options.is_empty() {
        text.push('\n');
        text.extend(heading.map(|heading| format!("{heading}:\n\n")));
        write_table(text, &options);
    }
}

/// The options of a command below this heading, without those that every command has.
fn options_below<'c>(command: &'c Command, heading: Option<&str>) -> Vec<&'c Arg> {
    let shown = |arg: &&Arg| !arg.is_hide_set() && !arg.is_global_set() && arg.get_id() != "help";
    command.get_arguments().filter(shown).filter(|arg| arg.get_help_heading() == heading).collect()
}

fn write_table(text: &mut String, options: &[&Arg]) {
    let cell = |text: &str| text.replace('|', "\\|");
    text.push_str("| Option | Meaning |\n|---|---|\n");
    for arg in options {
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let meaning = sentences(&help).join(" ") + &values(arg);
        let _ = writeln!(text, "| `{}` | {} |", cell(&name(arg)), cell(&meaning));
    }
}

/// How the argument is written, such as `-y, --yes`, `--rate <N>` or `<ID>...`.
fn name(arg: &Arg) -> String {
    let arg = arg.clone();
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {arg}"),
        _ => arg.to_string(),
    }
}

/// The default, the possible values and the variable, as the help shows them.
fn values(arg: &Arg) -> String {
    let mut text = String::new();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let possible: Vec<_> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if arg.get_action().takes_values() && !possible.is_empty() {
        let _ = write!(text, " [possible values: {}]", possible.join(", "));
    }
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " [default: {}]", defaults.join(", "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, " [env: {}]", variable.to_string_lossy());
    }
    text
}

/// The paragraphs of a help text as sentences, with the characters escaped that Markdown would format.
fn sentences(help: &str) -> Vec<String> {
    let paragraphs = help.trim().split("\n\n").map(|text| text.replace('*', "\\*").replace('<', "\\<"));
    paragraphs.map(|text| if text.ends_with(['.', ']', '}']) { text } else { text + "." }).collect()
}

#[test]
fn command_reference_is_up_to_date() {
    let page = std::fs::read_to_string(PAGE).expect("the page exists");
    let (before, rest) = page.split_once(BEGIN).expect("the mark of the beginning");
    let (_, after) = rest.split_once(END).expect("the mark of the end");
    let updated = format!("{before}{BEGIN}{}\n{END}{after}", reference());
    if std::env::var_os("POSTHASTE_UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, updated).expect("the page can be written");
        return;
    }
    assert!(page == updated, "docs/command-line.md is out of date: update it as this file says");
}
