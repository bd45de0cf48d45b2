//! What a request may say: the fields of a path, a query or a body, each with its rule.
//!
//! The same rule checks the request and stands in the OpenAPI document, so the two cannot differ.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// One field.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) required: bool,
    pub(super) about: &'static str,
}

/// What a field may hold.
#[derive(Debug)]
pub(super) enum Kind {
    /// At least one character and at most so many. No NUL: not every store can be asked for it.
    Text(usize),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// From, to, and what it is if it is left out.
    Number(i64, i64, Option<i64>),
    /// Such as `90s`, `5m`, `12h`, `7d` or `2w`.
    Age,
    /// False if it is left out.
    Flag,
    /// At least one text and at most so many, each as long as an id.
    Ids(usize),
    /// Other fields.
    Object(&'static [Field]),
}

/// The longest id of an event that one can ask for. Ids that are written are shorter; rows of other programs
/// have what their column can hold.
pub(super) const ID_CHARS: usize = 255;

/// The most digits of an age, which keep it within all that a store can count.
const AGE_DIGITS: usize = 6;

impl Field {
    pub(super) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: false, about }
    }

    pub(super) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: true, about }
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match self.kind.allows(value) {
            true => Ok(()),
            false => Err(format!("{} must be {}", self.name, self.kind.rule())),
        }
    }
}

impl Kind {
    fn allows(&self, value: &Value) -> bool {
        match self {
            Self::Text(max) => value.as_str().is_some_and(|text| is_text(text, *max)),
            Self::Choice(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::Number(min, max, _) => whole(value).is_some_and(|number| (*min..=*max).contains(&number)),
            Self::Age => value.as_str().is_some_and(|text| age(text).is_some()),
            Self::Flag => value.is_boolean(),
            Self::Ids(max) => value.as_array().is_some_and(|ids| {
                (1..=*max).contains(&ids.len()) && ids.iter().all(|id| Self::Text(ID_CHARS).allows(id))
            }),
            Self::Object(fields) => value.as_object().is_some_and(|map| check(fields, map).is_ok()),
        }
    }

    /// In words, for an error.
    fn rule(&self) -> String {
        match self {
            Self::Text(max) => format!("text of 1 to {max} characters without NUL"),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Number(min, max, _) => format!("a whole number from {min} to {max}"),
            Self::Age => "a number and a unit, such as 90s, 5m, 12h, 7d or 2w".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Ids(max) => format!("a list of 1 to {max} ids"),
            Self::Object(fields) => {
                let rules: Vec<String> =
                    fields.iter().map(|field| format!("{} ({})", field.name, field.kind.rule())).collect();
                format!("an object which may have {}", rules.join(", "))
            }
        }
    }

    /// As JSON Schema.
    pub(super) fn schema(&self) -> Value {
        match self {
            Self::Text(max) => {
                json!({"type": "string", "minLength": 1, "maxLength": max, "pattern": r"^[^\u0000]*$"})
            }
            Self::Choice(words) => json!({"type": "string", "enum": words}),
            Self::Number(min, max, None) => {
                json!({"type": "integer", "format": "int64", "minimum": min, "maximum": max})
            }
            Self::Number(min, max, Some(usual)) => {
                json!({"type": "integer", "minimum": min, "maximum": max, "default": usual})
            }
            Self::Age => {
                json!({"type": "string", "pattern": format!("^[0-9]{{1,{AGE_DIGITS}}}[smhdw]$"), "examples": ["7d"]})
            }
            Self::Flag => json!({"type": "boolean", "default": false}),
            Self::Ids(max) => json!({
                "type": "array", "minItems": 1, "maxItems": max, "items": Self::Text(ID_CHARS).schema(),
            }),
            Self::Object(fields) => object(fields),
        }
    }
}

/// JSON knows one kind of number: 5.0 is 5.
fn whole(value: &Value) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let fraction = || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT);
    value.as_i64().or_else(|| fraction().map(|number| number as i64))
}

fn is_text(text: &str, max: usize) -> bool {
    !text.is_empty() && !text.contains('\0') && (text.len() <= max || text.chars().count() <= max)
}

fn age(text: &str) -> Option<Duration> {
    let digits = text.strip_suffix(['s', 'm', 'h', 'd', 'w'])?;
    let plain = (1..=AGE_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { humantime::parse_duration(text).ok() } else { None }
}

/// The schema of an object with these fields and no others.
pub(super) fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), described(field))).collect();
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn described(field: &Field) -> Value {
    let mut schema = field.kind.schema();
    schema["description"] = field.about.into();
    schema
}

/// Whether these are values of these fields.
fn check(fields: &[Field], map: &Map<String, Value>) -> Result<(), String> {
    for name in map.keys() {
        if !fields.iter().any(|field| field.name == name) {
            return Err(unknown(fields, name));
        }
    }
    fields.iter().try_for_each(|field| match map.get(field.name) {
        Some(value) => field.check(value),
        None if field.required => Err(format!("{} is missing", field.name)),
        None => Ok(()),
    })
}

fn has_required(fields: &[Field], map: &Map<String, Value>) -> bool {
    let mut required = fields.iter().filter(|field| field.required);
    required.all(|field| map.get(field.name).is_some_and(|value| field.kind.allows(value)))
}

fn unknown(fields: &[Field], name: &str) -> String {
    let name: String = name.chars().take(40).collect();
    let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
    match known.is_empty() {
        true => format!("there is no {name:?} here: this takes nothing"),
        false => format!("there is no {name:?} here: there are {}", known.join(", ")),
    }
}

/// What a request said, checked.
#[derive(Debug, Default)]
pub(super) struct Values(Map<String, Value>);

impl Values {
    /// The values of a query or a path, in which everything is text.
    pub(super) fn of_pairs(fields: &[Field], pairs: Vec<(String, String)>) -> Result<Self, String> {
        let mut map = Map::new();
        for (name, text) in pairs {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                return Err(unknown(fields, &name));
            };
            if map.insert(name, typed(&field.kind, text)).is_some() {
                return Err(format!("{} is there more than once", field.name));
            }
        }
        Self::of_map(fields, map)
    }

    /// The values of a body that has one of these forms.
    pub(super) fn of_body(forms: &[&[Field]], body: Value) -> Result<Self, String> {
        let Value::Object(map) = body else { return Err("the body must be a JSON object".to_owned()) };
        // What is required tells which form is meant.
        let meant: Vec<_> = forms.iter().filter(|form| has_required(form, &map)).collect();
        let candidates = if meant.is_empty() { forms.iter().collect() } else { meant };
        let mut errors = Vec::new();
        for form in candidates {
            match check(form, &map) {
                Ok(()) => return Self::of_map(form, map),
                Err(error) => errors.push(error),
            }
        }
        Err(errors.join("; or: "))
    }

    fn of_map(fields: &[Field], mut map: Map<String, Value>) -> Result<Self, String> {
        check(fields, &map)?;
        for field in fields {
            if let Kind::Number(_, _, Some(usual)) = field.kind {
                map.entry(field.name).or_insert_with(|| usual.into());
            }
        }
        Ok(Self(map))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub(super) fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        whole(self.0.get(name)?)
    }

    /// The field `limit`, which the table gives a default.
    pub(super) fn limit(&self) -> usize {
        self.number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(1)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn age(&self, name: &str) -> Option<Duration> {
        age(self.text(name)?)
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let values = self.0.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(super) fn object(&self, name: &str) -> Option<Self> {
        self.0.get(name)?.as_object().cloned().map(Self)
    }
}

/// The text as what the field holds; what it cannot be stays text, which the check refuses.
fn typed(kind: &Kind, text: String) -> Value {
    match kind {
        Kind::Number(..) => match text.parse::<i64>() {
            // One way to write it: no sign, no zeros before it.
            Ok(number) if number.to_string() == text => number.into(),
            _ => text.into(),
        },
        Kind::Flag => text.parse::<bool>().map_or(Value::String(text), Value::Bool),
        _ => text.into(),
    }
}
