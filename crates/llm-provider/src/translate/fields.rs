//! Reads JSON field by field, so that an error names the field and nothing unknown goes unnoticed.
//!
//! Values stay as they were written until somebody asks for more: schemas and arguments of tools are
//! never taken apart, and deep nesting costs no stack.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{Deserializer as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// What is wrong with a request, and where: `messages[2].content: expected a string or a list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    path: String,
    reason: Cow<'static, str>,
}

impl Invalid {
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Invalid {
        Invalid {
            path: path.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "the body: {}", self.reason)
        } else {
            write!(f, "{}: {}", self.path, self.reason)
        }
    }
}

impl std::error::Error for Invalid {}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    path: String,
    raw: &'a RawValue,
}

impl<'a> Field<'a> {
    /// A whole text.
    pub(crate) fn whole(text: &'a [u8]) -> Result<Field<'a>, Invalid> {
        let raw = serde_json::from_slice(text)
            .map_err(|error| Invalid::new("", format!("it is no JSON ({error})")))?;
        Ok(Field {
            path: String::new(),
            raw,
        })
    }

    pub(crate) fn raw(&self) -> &'a RawValue {
        self.raw
    }

    pub(crate) fn is_null(&self) -> bool {
        self.raw.get() == "null"
    }

    /// An error about this value.
    pub(crate) fn invalid(&self, reason: impl Into<Cow<'static, str>>) -> Invalid {
        Invalid::new(self.path.clone(), reason)
    }

    fn read<T: Deserialize<'a>>(&self, expected: &'static str) -> Result<T, Invalid> {
        serde_json::from_str(self.raw.get())
            .map_err(|_| self.invalid(format!("expected {expected}")))
    }

    pub(crate) fn is_text(&self) -> bool {
        self.raw.get().starts_with('"')
    }

    pub(crate) fn is_list(&self) -> bool {
        self.raw.get().starts_with('[')
    }

    pub(crate) fn is_object(&self) -> bool {
        self.raw.get().starts_with('{')
    }

    pub(crate) fn text(&self) -> Result<String, Invalid> {
        self.read("a string")
    }

    pub(crate) fn number(&self) -> Result<f64, Invalid> {
        self.read("a number")
    }

    /// A whole number that is not negative.
    pub(crate) fn count(&self) -> Result<u64, Invalid> {
        self.read("a whole number of at least 0")
    }

    pub(crate) fn flag(&self) -> Result<bool, Invalid> {
        self.read("true or false")
    }

    /// The elements of a list.
    pub(crate) fn list(&self) -> Result<Vec<Field<'a>>, Invalid> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element()? {
                    elements.push(element);
                }
                Ok(elements)
            }
        }
        let elements = serde_json::Deserializer::from_str(self.raw.get())
            .deserialize_seq(Elements)
            .map_err(|_| self.invalid("expected a list"))?;
        let at = |(i, raw)| Field {
            path: format!("{}[{i}]", self.path),
            raw,
        };
        Ok(elements.into_iter().enumerate().map(at).collect())
    }

    /// The fields of an object.
    pub(crate) fn object(&self) -> Result<Object<'a>, Invalid> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Self::Value = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        let fields = serde_json::Deserializer::from_str(self.raw.get())
            .deserialize_map(Fields)
            .map_err(|_| self.invalid("expected an object"))?;
        Ok(Object {
            path: self.path.clone(),
            fields,
        })
    }
}

/// The fields of an object that nobody has taken yet.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    path: String,
    fields: Vec<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    fn at(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Takes a field; `None` where it is absent or null. Where it stands twice the last one counts, as
    /// for most servers.
    pub(crate) fn take(&mut self, name: &str) -> Option<Field<'a>> {
        let &(_, raw) = self.fields.iter().rfind(|(known, _)| known == name)?;
        self.fields.retain(|(known, _)| known != name);
        let field = Field {
            path: self.at(name),
            raw,
        };
        (!field.is_null()).then_some(field)
    }

    /// Takes a field that must be there.
    pub(crate) fn need(&mut self, name: &str) -> Result<Field<'a>, Invalid> {
        self.take(name)
            .ok_or_else(|| Invalid::new(self.at(name), "it is missing"))
    }

    /// The names of those that are left and not null: what nobody has asked for.
    pub(crate) fn rest(&self) -> impl Iterator<Item = &str> {
        self.fields
            .iter()
            .filter(|(_, raw)| raw.get() != "null")
            .map(|(name, _)| name.as_str())
    }

    pub(crate) fn invalid(&self, reason: impl Into<Cow<'static, str>>) -> Invalid {
        Invalid::new(self.path.clone(), reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field() {
        let body = br#"{"messages":[{"role":"user"},{"role":7}],"n":null,"x":1,"x":2}"#;
        let mut object = Field::whole(body).unwrap().object().unwrap();
        let messages = object.take("messages").unwrap().list().unwrap();
        let mut second = messages[1].object().unwrap();
        let error = second.take("role").unwrap().text().unwrap_err();
        assert_eq!(error.to_string(), "messages[1].role: expected a string");
        let error = second.need("content").unwrap_err();
        assert_eq!(error.to_string(), "messages[1].content: it is missing");
        assert!(object.take("n").is_none());
        assert_eq!(object.rest().collect::<Vec<_>>(), ["x", "x"]);
        assert_eq!(object.take("x").unwrap().count(), Ok(2));
        let error = Field::whole(b"{").unwrap_err().to_string();
        assert!(error.starts_with("the body: it is no JSON"), "{error}");
        let error = Field::whole(b"[]").unwrap().object().unwrap_err();
        assert_eq!(error.to_string(), "the body: expected an object");
    }

    #[test]
    fn a_million_fields_are_read_in_one_pass() {
        let fields: Vec<String> = (0..1_000_000).map(|i| format!("\"x{i}\":0")).collect();
        let body = format!("{{{},\"n\":1,\"n\":2}}", fields.join(","));
        let mut object = Field::whole(body.as_bytes()).unwrap().object().unwrap();
        assert_eq!(object.take("n").unwrap().count(), Ok(2));
        assert!(object.take("n").is_none());
        assert_eq!(object.rest().count(), 1_000_000);
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(500_000), "]".repeat(500_000));
        let mut object = Field::whole(deep.as_bytes()).unwrap().object().unwrap();
        assert!(object.take("x").unwrap().is_list());
    }
}
