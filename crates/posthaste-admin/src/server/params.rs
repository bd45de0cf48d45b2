//! Parameters of a path, a query or a body, each with its rule.
//!
//! The same rule checks the request and is in the OpenAPI document, so the two cannot differ.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One parameter.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) kind: ParamKind,
    pub(super) required: bool,
    pub(super) about: &'static str,
}

/// The type of a parameter.
#[derive(Debug)]
pub(super) enum ParamKind {
    /// Text of 1 to this many characters. NUL is refused, because not every store accepts it in a query.
    Text(usize),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number: the least, the greatest, and the default.
    Number(i64, i64, Option<i64>),
    /// Such as `90s`, `5m`, `12h`, `7d` or `2w`.
    Age,
    /// A boolean; `false` if it is left out.
    Flag,
    /// A list of 1 to this many ids.
    Ids(usize),
    /// An object of other parameters.
    Object(&'static [Param]),
}

/// The longest id of an event in a request. Ids that Posthaste writes are shorter, but rows of other programs may have
/// longer ones.
pub(super) const MAX_ID_CHARS: usize = 255;

/// The most digits of an age. It keeps ages within the range of every store.
const MAX_AGE_DIGITS: usize = 6;

impl Param {
    pub(super) const fn new(name: &'static str, kind: ParamKind, about: &'static str) -> Self {
        Self { name, kind, required: false, about }
    }

    pub(super) const fn required(name: &'static str, kind: ParamKind, about: &'static str) -> Self {
        Self { name, kind, required: true, about }
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match self.kind.allows(value) {
            true => Ok(()),
            false => Err(format!("{} must be {}", self.name, self.kind.rule())),
        }
    }
}

impl ParamKind {
    fn allows(&self, value: &Value) -> bool {
        match self {
            Self::Text(max) => value.as_str().is_some_and(|text| is_text(text, *max)),
            Self::Choice(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::Number(min, max, _) => whole(value).is_some_and(|number| (*min..=*max).contains(&number)),
            Self::Age => value.as_str().is_some_and(|text| age(text).is_some()),
            Self::Flag => value.is_boolean(),
            Self::Ids(max) => value.as_array().is_some_and(|ids| {
                (1..=*max).contains(&ids.len()) && ids.iter().all(|id| Self::Text(MAX_ID_CHARS).allows(id))
            }),
            Self::Object(params) => value.as_object().is_some_and(|map| check(params, map).is_ok()),
        }
    }

    /// The rule in words, for an error.
    fn rule(&self) -> String {
        match self {
            Self::Text(max) => format!("text of 1 to {max} characters without NUL"),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Number(min, max, _) => format!("a whole number from {min} to {max}"),
            Self::Age => "a number and a unit, such as 90s, 5m, 12h, 7d or 2w".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Ids(max) => format!("a list of 1 to {max} ids"),
            Self::Object(params) => {
                let rules: Vec<String> =
                    params.iter().map(|param| format!("{} ({})", param.name, param.kind.rule())).collect();
                format!("an object which may have {}", rules.join(", "))
            }
        }
    }

    /// The rule as JSON Schema.
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
                json!({"type": "string", "pattern": format!("^[0-9]{{1,{MAX_AGE_DIGITS}}}[smhdw]$"), "examples": ["7d"]})
            }
            Self::Flag => json!({"type": "boolean", "default": false}),
            Self::Ids(max) => json!({
                "type": "array", "minItems": 1, "maxItems": max, "items": Self::Text(MAX_ID_CHARS).schema(),
            }),
            Self::Object(params) => object(params),
        }
    }
}

/// The value as a whole number. JSON has one type of numbers, so 5.0 is 5.
fn whole(value: &Value) -> Option<i64> {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    let fraction =
        || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER);
    value.as_i64().or_else(|| fraction().map(|number| number as i64))
}

fn is_text(text: &str, max: usize) -> bool {
    !text.is_empty() && !text.contains('\0') && (text.len() <= max || text.chars().count() <= max)
}

fn age(text: &str) -> Option<Duration> {
    let digits = text.strip_suffix(['s', 'm', 'h', 'd', 'w'])?;
    let plain =
        (1..=MAX_AGE_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { humantime::parse_duration(text).ok() } else { None }
}

/// The schema of an object with these parameters and no other ones.
pub(super) fn object(params: &[Param]) -> Value {
    let properties: Map<String, Value> =
        params.iter().map(|param| (param.name.to_owned(), described(param))).collect();
    let required: Vec<&str> = params.iter().filter(|param| param.required).map(|param| param.name).collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn described(param: &Param) -> Value {
    let mut schema = param.kind.schema();
    schema["description"] = param.about.into();
    schema
}

/// Checks that the values satisfy the rules of these parameters.
fn check(params: &[Param], map: &Map<String, Value>) -> Result<(), String> {
    for name in map.keys() {
        if !params.iter().any(|param| param.name == name) {
            return Err(unknown(params, name));
        }
    }
    params.iter().try_for_each(|param| match map.get(param.name) {
        Some(value) => param.check(value),
        None if param.required => Err(format!("{} is missing", param.name)),
        None => Ok(()),
    })
}

fn has_required(params: &[Param], map: &Map<String, Value>) -> bool {
    let mut required = params.iter().filter(|param| param.required);
    required.all(|param| map.get(param.name).is_some_and(|value| param.kind.allows(value)))
}

fn unknown(params: &[Param], name: &str) -> String {
    let name: String = name.chars().take(40).collect();
    let known: Vec<&str> = params.iter().map(|param| param.name).collect();
    match known.is_empty() {
        true => format!("unknown parameter {name:?}: there are none here"),
        false => format!("unknown parameter {name:?}: known are {}", known.join(", ")),
    }
}

/// The values of a request that passed the check.
#[derive(Debug, Default)]
pub(super) struct Params(Map<String, Value>);

impl Params {
    /// The values of a query or a path, where every value is text.
    pub(super) fn of_pairs(params: &[Param], pairs: Vec<(String, String)>) -> Result<Self, String> {
        let mut map = Map::new();
        for (name, text) in pairs {
            let Some(param) = params.iter().find(|param| param.name == name) else {
                return Err(unknown(params, &name));
            };
            if map.insert(name, typed(&param.kind, text)).is_some() {
                return Err(format!("{} is given more than once", param.name));
            }
        }
        Self::of_map(params, map)
    }

    /// The values of a body that has one of these forms.
    pub(super) fn of_body(forms: &[&[Param]], body: Value) -> Result<Self, String> {
        let Value::Object(map) = body else { return Err("the body must be a JSON object".to_owned()) };
        // The required parameters tell which form is meant, so that errors are about that form only.
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

    fn of_map(params: &[Param], mut map: Map<String, Value>) -> Result<Self, String> {
        check(params, &map)?;
        for param in params {
            if let ParamKind::Number(_, _, Some(usual)) = param.kind {
                map.entry(param.name).or_insert_with(|| usual.into());
            }
        }
        Ok(Self(map))
    }

    /// The value of a parameter; `None` if it is missing or has another type.
    pub(super) fn value<'v, T: Deserialize<'v>>(&'v self, name: &str) -> Option<T> {
        T::deserialize(self.0.get(name)?).ok()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.value(name)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        whole(self.0.get(name)?)
    }

    /// The parameter `limit`, which has a default in the table.
    pub(super) fn limit(&self) -> usize {
        self.number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(1)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.value(name).unwrap_or(false)
    }

    pub(super) fn age(&self, name: &str) -> Option<Duration> {
        age(self.text(name)?)
    }

    pub(super) fn object(&self, name: &str) -> Option<Self> {
        self.value(name).map(Self)
    }
}

/// Converts a text to the type of its parameter. Text that cannot be converted stays text, which the check refuses.
fn typed(kind: &ParamKind, text: String) -> Value {
    match kind {
        ParamKind::Number(..) => match text.parse::<i64>() {
            // Only the canonical form is accepted: no plus sign and no leading zeros.
            Ok(number) if number.to_string() == text => number.into(),
            _ => text.into(),
        },
        ParamKind::Flag => text.parse::<bool>().map_or(Value::String(text), Value::Bool),
        _ => text.into(),
    }
}
