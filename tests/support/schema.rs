//! Whether a report is as its JSON schema says: the keywords of draft 2020-12 that our schema uses, each as json-schema.org defines it.
//!
//! A keyword that is not known here is an error, so that the schema cannot ask for something that nobody checks. The crate that knows all
//! keywords, and fetches and caches schemas, brings 33 others with it, which every run of the tests would compile. Leaves out everything
//! that is not one document with `$defs` of its own.

use regex_lite::Regex;
use serde_json::{Map, Value};

/// What a schema may say that no value can break.
const ANNOTATIONS: [&str; 5] = ["$schema", "$id", "$defs", "title", "description"];
/// What is looked at for all members of an object, or of a list, at once.
const OF_MEMBERS: [&str; 5] =
    ["properties", "patternProperties", "additionalProperties", "prefixItems", "items"];

/// A schema, read and known to be one.
pub struct Schema(Value);

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// The text is no JSON object.
    pub fn parse(text: &str) -> Result<Self, String> {
        match serde_json::from_str(text) {
            Ok(schema @ Value::Object(_)) => Ok(Self(schema)),
            Ok(other) => Err(format!("no schema: {other}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What is wrong with a value, each with the place (a JSON pointer); nothing where it is valid.
    pub fn errors(&self, value: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        self.check(&self.0, value, "", &mut errors);
        errors
    }

    /// A schema is true, false, or keywords that must all hold.
    fn check(&self, schema: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
        match schema {
            Value::Bool(true) => {}
            Value::Object(all) => {
                self.check_properties(all, value, at, errors);
                self.check_items(all, value, at, errors);
                all.iter().for_each(|(keyword, rule)| self.check_keyword(keyword, rule, value, at, errors));
            }
            _ => errors.push(format!("{at}: nothing may be here")),
        }
    }

    fn check_keyword(&self, keyword: &str, rule: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
        let holds = match keyword {
            "anyOf" => list(rule).iter().any(|schema| self.holds(schema, value, at)),
            "$ref" => {
                let schema = self.find(rule);
                schema.inspect(|schema| self.check(schema, value, at, errors)).is_some()
            }
            _ => simple(keyword, rule, value),
        };
        if !holds {
            errors.push(format!("{at}: {value} breaks {keyword} {rule}"));
        }
    }

    fn holds(&self, schema: &Value, value: &Value, at: &str) -> bool {
        let mut errors = Vec::new();
        self.check(schema, value, at, &mut errors);
        errors.is_empty()
    }

    /// `#/$defs/NAME`.
    fn find(&self, reference: &Value) -> Option<&Value> {
        self.0.pointer(reference.as_str()?.strip_prefix('#')?)
    }

    /// Each member by its name, else by the patterns of its name, else as one of those that are left.
    fn check_properties(&self, all: &Map<String, Value>, value: &Value, at: &str, errors: &mut Vec<String>) {
        for (name, member) in value.as_object().into_iter().flatten() {
            let at = format!("{at}/{name}");
            let named = object(all, "properties").filter(|(known, _)| *known == name);
            let like = object(all, "patternProperties").filter(|(pattern, _)| matches(pattern, name));
            let mut schemas: Vec<&Value> = named.chain(like).map(|(_, schema)| schema).collect();
            if schemas.is_empty() {
                schemas.extend(all.get("additionalProperties"));
            }
            schemas.into_iter().for_each(|schema| self.check(schema, member, &at, errors));
        }
    }

    /// The first ones by `prefixItems`, the others by `items`.
    fn check_items(&self, all: &Map<String, Value>, value: &Value, at: &str, errors: &mut Vec<String>) {
        let first = all.get("prefixItems").map_or(&[][..], list);
        for (number, item) in value.as_array().into_iter().flatten().enumerate() {
            if let Some(schema) = first.get(number).or_else(|| all.get("items")) {
                self.check(schema, item, &format!("{at}/{number}"), errors);
            }
        }
    }
}

/// Whether a keyword holds that looks at one value alone; no, where it is not known.
fn simple(keyword: &str, rule: &Value, value: &Value) -> bool {
    let length = value.as_array().map(Vec::len);
    match keyword {
        _ if ANNOTATIONS.contains(&keyword) || OF_MEMBERS.contains(&keyword) => true,
        "type" if rule.is_array() => list(rule).iter().any(|kind| is_of(kind, value)),
        "type" => is_of(rule, value),
        "const" => rule == value,
        "enum" => list(rule).contains(value),
        "required" => {
            value.as_object().is_none_or(|members| list(rule).iter().all(|name| has(members, name)))
        }
        "pattern" => value.as_str().is_none_or(|text| rule.as_str().is_some_and(|rule| matches(rule, text))),
        "minimum" => value.as_f64().is_none_or(|number| rule.as_f64().is_some_and(|least| number >= least)),
        "minItems" => length.is_none_or(|length| rule.as_u64().is_some_and(|least| length as u64 >= least)),
        "maxItems" => length.is_none_or(|length| rule.as_u64().is_some_and(|most| length as u64 <= most)),
        _ => false,
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        // A number without a fraction, however it is written.
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        _ => false,
    }
}

fn list(rule: &Value) -> &[Value] {
    rule.as_array().map_or(&[], Vec::as_slice)
}

fn object<'a>(all: &'a Map<String, Value>, keyword: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    all.get(keyword).and_then(Value::as_object).into_iter().flatten()
}

fn has(members: &Map<String, Value>, name: &Value) -> bool {
    name.as_str().is_some_and(|name| members.contains_key(name))
}

/// A pattern that is none matches nothing.
fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::Schema;

    /// For each keyword a value that it lets pass and one that it does not.
    #[test]
    fn every_keyword_can_refuse() {
        for (schema, good, bad) in [
            (r#"{"type": "integer"}"#, "3", "3.5"),
            (r#"{"type": ["string", "null"]}"#, "null", "1"),
            (r#"{"const": "a"}"#, r#""a""#, r#""b""#),
            (r#"{"enum": [1, "x"]}"#, r#""x""#, "2"),
            (r#"{"required": ["a"]}"#, r#"{"a": 1}"#, "{}"),
            (r#"{"pattern": "^[a-z]+$"}"#, r#""ab""#, r#""aB""#),
            (r#"{"minimum": 0}"#, "0", "-1"),
            (r#"{"minItems": 1}"#, "[0]", "[]"),
            (r#"{"maxItems": 1}"#, "[0]", "[0, 0]"),
            (r#"{"properties": {"a": {"minimum": 0}}}"#, r#"{"b": -1}"#, r#"{"a": -1}"#),
            (r#"{"additionalProperties": {"minimum": 0}}"#, r#"{"a": 1}"#, r#"{"a": -1}"#),
            (r#"{"properties": {"a": true}, "additionalProperties": false}"#, r#"{"a": 1}"#, r#"{"b": 1}"#),
            (r#"{"patternProperties": {"^x": {"type": "null"}}}"#, r#"{"y": 1}"#, r#"{"x": 1}"#),
            (r#"{"items": {"minimum": 0}}"#, "[1]", "[1, -1]"),
            (r#"{"prefixItems": [true], "items": {"minimum": 0}}"#, "[-1, 1]", "[-1, -1]"),
            (r##"{"$ref": "#/$defs/a", "$defs": {"a": {"minimum": 0}}}"##, "1", "-1"),
            (r#"{"anyOf": [{"type": "null"}, {"minimum": 0}]}"#, "null", "-1"),
        ] {
            let errors =
                |value: &str| Schema::parse(schema).unwrap().errors(&serde_json::from_str(value).unwrap());
            assert_eq!(errors(good), Vec::<String>::new(), "{schema}");
            assert!(!errors(bad).is_empty(), "{schema} lets {bad} pass");
        }
    }

    /// What is not known is refused, and so is a reference to nothing.
    #[test]
    fn unknown_keywords_are_errors() {
        for schema in [r#"{"multipleOf": 2}"#, r##"{"$ref": "#/$defs/none"}"##] {
            let errors = Schema::parse(schema).unwrap().errors(&serde_json::Value::from(4));
            assert_eq!(errors.len(), 1, "{errors:?}");
        }
    }
}
