//! Interpolation: replaces `${NAME}` and `${file:/path}` in the texts of the file by variables and by contents of
//! files.

use std::borrow::Cow;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use toml::de::{DeTable, DeValue};

use super::environment::{Environment, secret_file};
use super::problem_collector::ProblemCollector;
use super::toml_tree::Node;

/// Characters to encode in the user, the password and the parameters of a URL.
const ENCODED_IN_CREDENTIALS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Characters to encode in hosts with ports, and in paths.
const ENCODED_IN_HOST_AND_PATH: &AsciiSet =
    &ENCODED_IN_CREDENTIALS.remove(b':').remove(b',').remove(b'/').remove(b'[').remove(b']');

/// Fills in every text of the table. A text whose variable or file cannot be read is reported and removed.
pub(super) fn expand(table: &mut DeTable<'_>, environment: &Environment, problems: &ProblemCollector<'_>) {
    Expansion { environment, problems }.table(table, &[]);
}

struct Expansion<'a> {
    environment: &'a Environment,
    problems: &'a ProblemCollector<'a>,
}

impl Expansion<'_> {
    fn table(&self, table: &mut DeTable<'_>, path: &[String]) {
        let entries = std::mem::take(table).into_iter().filter_map(|(key, mut node)| {
            let path = [path, &[key.get_ref().clone().into_owned()]].concat();
            self.node(&mut node, &path).then_some((key, node))
        });
        *table = entries.collect();
    }

    /// Returns `false` if the text cannot be filled in.
    fn node(&self, node: &mut Node<'_>, path: &[String]) -> bool {
        let span = node.span();
        match node.get_mut() {
            DeValue::Table(table) => self.table(table, path),
            DeValue::Array(values) => {
                for (index, value) in values.iter_mut().enumerate() {
                    let mut path = path.to_vec();
                    path.last_mut().into_iter().for_each(|name| name.push_str(&format!("[{index}]")));
                    self.node(value, &path);
                }
            }
            DeValue::String(text) if text.contains("${") => {
                match expanded(text, is_url(path), |name| look_up(name, self.environment)) {
                    Ok(full) => *text = Cow::Owned(full),
                    Err(what) => {
                        self.problems.add(&span, &path.join("."), what);
                        return false;
                    }
                }
            }
            _ => {}
        }
        true
    }
}

fn is_url(path: &[String]) -> bool {
    let is = |at: usize, name: &str| path.get(at).is_some_and(|part| part == name);
    is(0, "outbox") && (is(2, "store") || is(3, "publish"))
}

fn look_up(name: &str, environment: &Environment) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        return secret_file(Path::new(path));
    }
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err("${ begins a variable: write ${NAME}, ${file:/path}, or $${ for the text ${".to_owned());
    }
    environment.get(name).map(str::to_owned).map_err(|error| match error {
        std::env::VarError::NotPresent => {
            format!("the variable {name} is not set: set it, or write $${{ for the text ${{")
        }
        std::env::VarError::NotUnicode(_) => format!("the variable {name} is not UTF-8 text: set it again"),
    })
}

/// Replaces every `${…}` of the text. In a URL the value is encoded, unless it is the whole URL.
fn expanded(
    text: &str,
    is_url: bool,
    look_up: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut full = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            full.push_str(&rest[..at]);
            full.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        let Some(length) = rest[at..].find('}') else {
            return Err("${ has no }: write ${NAME}, ${file:/path}, or $${ for the text ${".to_owned());
        };
        let value = look_up(&rest[at + 2..at + length])?;
        let behind = &rest[at + length + 1..];
        let is_all = text.len() == length + 1;
        full.push_str(&rest[..at]);
        match is_url && !is_all {
            true => full.extend(utf8_percent_encode(&value, encoding(&full, behind))),
            false => full.push_str(&value),
        }
        rest = behind;
    }
    Ok(full + rest)
}

/// The characters to encode in a value between these two parts of a URL.
fn encoding(before: &str, behind: &str) -> &'static AsciiSet {
    let place = behind.split('?').next().unwrap_or_default();
    if before.contains('?') || place.contains('@') {
        ENCODED_IN_CREDENTIALS
    } else {
        ENCODED_IN_HOST_AND_PATH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(name: &str) -> Result<String, String> {
        match name {
            "PW" => Ok("p@ss:w/rd?".to_owned()),
            "HOSTS" => Ok("a:1,b:2".to_owned()),
            name => Err(format!("{name} is not set")),
        }
    }

    #[test]
    fn values_take_the_place_of_names() {
        for (text, is_url, full) in [
            ("plain", true, "plain"),
            ("${PW}", true, "p@ss:w/rd?"),
            ("a ${PW} b", false, "a p@ss:w/rd? b"),
            ("kafka://u:${PW}@${HOSTS}/t", true, "kafka://u:p%40ss%3Aw%2Frd%3F@a:1,b:2/t"),
            ("https://h/x?key=${PW}&a=b", true, "https://h/x?key=p%40ss%3Aw%2Frd%3F&a=b"),
            ("$${PW} ${PW}", false, "${PW} p@ss:w/rd?"),
            ("{event_type} $ }", false, "{event_type} $ }"),
        ] {
            assert_eq!(expanded(text, is_url, value_of).as_deref(), Ok(full), "{text}");
        }
    }

    #[test]
    fn error_of_a_missing_value_does_not_contain_the_text() {
        let secret = "s3ntinel-PW-9f";
        for text in [format!("{secret}${{MISSING}}"), format!("x${{{secret}!}}"), format!("${{{secret}")] {
            let reported = expanded(&text, false, |name| look_up(name, &Environment::default())).unwrap_err();
            assert!(!reported.contains(secret), "{reported}");
        }
    }
}
