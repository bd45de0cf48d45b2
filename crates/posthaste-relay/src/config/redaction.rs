//! Redaction: decides how much of a line of the file may be shown. Text that may be a secret is not.

use toml::de::{DeTable, DeValue};

use super::known_keys::Sensitivity::{self, Container, Hidden, Public};
use super::source_text::{SourceLine, Span};
use super::toml_tree::Node;

/// The parts of a file that must not be shown.
pub(super) struct Redaction {
    /// Places that may contain secrets.
    hidden: Vec<Span>,
    /// The file is not TOML, so keys and values cannot be told apart for sure.
    pub(super) is_broken: bool,
    /// How much may be shown of a key's value.
    sensitivity: fn(&str) -> Sensitivity,
}

impl Redaction {
    pub(super) fn of(table: &DeTable<'_>, is_broken: bool, sensitivity: fn(&str) -> Sensitivity) -> Self {
        let mut redaction = Self { hidden: Vec::new(), is_broken, sensitivity };
        redaction.hide(table, Container);
        redaction
    }

    /// How many bytes of a line may be shown: up to the first secret or the comment.
    pub(super) fn visible(&self, line: &SourceLine<'_>) -> usize {
        if self.is_broken {
            return self.visible_of_broken(line.text);
        }
        let comment = line.text[line.range.end..].find('#').map_or(line.text.len(), |at| line.range.end + at);
        let end = line.start + line.text.len();
        let within = self.hidden.iter().filter(|span| span.start < end && span.end > line.start);
        let first = within.map(|span| span.start.saturating_sub(line.start)).min();
        comment.min(first.unwrap_or(usize::MAX))
    }

    fn hide(&mut self, table: &DeTable<'_>, above: Sensitivity) {
        for (key, value) in table {
            let own = (self.sensitivity)(key.get_ref());
            // An unknown key among hidden ones may itself be a secret: a token written as a key.
            if above == Hidden && own == Container && !value.get_ref().is_table() {
                self.hidden.push(key.span());
            }
            self.hide_value(value, if above == Hidden { Hidden } else { own });
        }
    }

    fn hide_value(&mut self, value: &Node<'_>, sensitivity: Sensitivity) {
        let is_hidden = match value.get_ref() {
            DeValue::Table(table) => return self.hide(table, sensitivity),
            DeValue::Array(values) => {
                return values.iter().for_each(|value| self.hide_value(value, sensitivity));
            }
            DeValue::String(text) => sensitivity != Public || text.contains("://") || text.contains('@'),
            // A password of digits is a number in TOML.
            _ => sensitivity == Hidden,
        };
        if is_hidden {
            self.hidden.push(value.span());
        }
    }

    /// As `visible`, for a file that is not TOML: only a table header or the name of a known key may be shown.
    fn visible_of_broken(&self, line: &str) -> usize {
        let is_of_header = |c: char| c.is_ascii_alphanumeric() || "[]._- ".contains(c);
        if line.starts_with('[') && line.chars().all(is_of_header) {
            return line.len();
        }
        let indent = line.len() - line.trim_start().len();
        let word_end = line[indent..].find(' ').map(|at| indent + at);
        let key_end = line.find('=').or(word_end).unwrap_or(line.len());
        let last = line[..key_end].rsplit('.').next().unwrap_or_default().trim();
        if (self.sensitivity)(last) == Container {
            return 0;
        }
        line.len() - line[key_end..].trim_start_matches(['=', ' ']).len()
    }
}
