//! Describes one operation.

use std::collections::BTreeMap;

use domain::http::{
    problem::Code,
    routes::{Endpoint, Route},
};
use http::Method;
use serde_json::{Map, Value, json};

use crate::components::{self, problem_response, reference};

/// A route of the API, with its parameters, bodies and errors.
pub struct Operation {
    route: &'static Route,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: Option<&'static str>,
    security: Vec<&'static str>,
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: Vec<(u16, Value)>,
    codes: Vec<Code>,
    limited: bool,
}

impl Operation {
    /// An operation for everybody. `internal` and `not_ready` are among its errors, and `payload_too_large` if it
    /// changes something.
    pub fn new<E: Endpoint + PartialEq>(endpoint: E, id: &'static str, summary: &'static str) -> Self {
        let position = E::ALL.iter().position(|known| *known == endpoint).unwrap_or_default();
        let route = &E::ROUTES[position];
        let mut codes = vec![Code::NotReady, Code::Internal];
        if !route.method.is_safe() {
            codes.push(Code::PayloadTooLarge);
        }
        Self {
            route,
            id,
            tag: "",
            summary,
            description: None,
            security: vec![],
            parameters: vec![],
            body: None,
            responses: vec![],
            codes,
            limited: false,
        }
    }

    pub fn tag(mut self, tag: &'static str) -> Self {
        self.tag = tag;
        self
    }

    pub fn describe(mut self, description: &'static str) -> Self {
        self.description = Some(description);
        self
    }

    /// Adds a way to authenticate. Requests without it are `unauthenticated`.
    pub fn secured_by(mut self, scheme: &'static str) -> Self {
        self.security.push(scheme);
        self.refuses(&[Code::Unauthenticated])
    }

    /// The response to requests with and without the rate limits' headers.
    pub fn limited(mut self) -> Self {
        self.limited = true;
        self.refuses(&[Code::RateLimited])
    }

    pub fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// A query parameter; it may be empty, which is the same as absent.
    pub fn query(self, name: &str, description: &str, schema: Value) -> Self {
        let parameter = json!({
            "name": name, "in": "query", "description": description, "allowEmptyValue": true, "schema": schema,
        });
        self.parameter(parameter).refuses(&[Code::InvalidRequest])
    }

    /// The parameters of a list.
    pub fn paged(self, maximum: i64, default: i64) -> Self {
        let limit =
            json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": maximum, "default": default });
        let before = json!({ "type": "string" });
        self.query("before", "The `next` of the page before; empty or absent for the first page.", before).query(
            "limit",
            "The most entries of a page.",
            limit,
        )
    }

    /// A JSON body.
    pub fn body(self, required: bool, schema: Value) -> Self {
        self.body_with(required, "application/json", schema)
    }

    /// A body of this media type.
    pub fn body_with(mut self, required: bool, media: &str, schema: Value) -> Self {
        self.body = Some(json!({ "required": required, "content": { media: { "schema": schema } } }));
        self.refuses(&[Code::InvalidRequest])
    }

    /// An example of the body.
    pub fn example(mut self, value: Value) -> Self {
        if let Some(body) = &mut self.body {
            body["content"]["application/json"]["example"] = value;
        }
        self
    }

    /// An example of a successful response.
    pub fn example_of(mut self, status: u16, value: Value) -> Self {
        for (_, response) in self.responses.iter_mut().filter(|(known, _)| *known == status) {
            response["content"]["application/json"]["example"] = value.clone();
        }
        self
    }

    /// A successful response with JSON.
    pub fn returns(self, status: u16, description: &str, schema: Value) -> Self {
        self.returns_with(status, description, &[], Some(("application/json", schema)))
    }

    /// A successful response with headers, beside those that every response has, and a content.
    pub fn returns_with(
        mut self,
        status: u16,
        description: &str,
        headers: &[(&str, &str)],
        content: Option<(&str, Value)>,
    ) -> Self {
        let mut all = components::common_headers();
        if status == 204 {
            all.remove("cache-control");
        }
        if self.limited {
            all.append(&mut components::limit_headers());
        }
        all.extend(headers.iter().map(|(name, component)| ((*name).to_owned(), reference("headers", component))));
        let mut response = json!({ "description": description, "headers": all });
        if let Some((media, schema)) = content {
            response["content"] = json!({ media: { "schema": schema } });
        }
        self.responses.push((status, response));
        self
    }

    /// Another media type of the last response.
    pub fn or_as(mut self, media: &str, schema: Value) -> Self {
        if let Some((_, response)) = self.responses.last_mut() {
            response["content"][media] = json!({ "schema": schema });
        }
        self
    }

    /// A successful response that is a component.
    pub fn returns_component(mut self, status: u16, name: &str) -> Self {
        self.responses.push((status, reference("responses", name)));
        self
    }

    pub fn refuses(mut self, codes: &[Code]) -> Self {
        self.codes.extend(codes);
        self
    }

    /// Removes an error that every other operation has.
    pub fn never(mut self, code: Code) -> Self {
        self.codes.retain(|known| *known != code);
        self
    }

    /// The path with `{name}` for parameters.
    pub fn path(&self) -> String {
        let segment = |text: &'static str| match text.strip_prefix(':') {
            Some(name) => format!("{{{name}}}"),
            None => text.to_owned(),
        };
        self.route.pattern.split('/').map(segment).collect::<Vec<_>>().join("/")
    }

    #[cfg(test)]
    pub fn pattern(&self) -> &'static str {
        self.route.pattern
    }

    pub fn method(&self) -> &Method {
        &self.route.method
    }

    /// The names of the path's parameters.
    pub fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.route.pattern.split('/').filter_map(|segment| segment.strip_prefix(':'))
    }

    /// The errors that no other response shares its status with: these are components.
    pub fn components(&self) -> Vec<Code> {
        self.codes_by_status().into_values().filter_map(|codes| self.component(&codes)).collect()
    }

    fn component(&self, codes: &[Code]) -> Option<Code> {
        match codes {
            [code] if !self.has_limit_headers(*code) || *code == Code::RateLimited => Some(*code),
            _ => None,
        }
    }

    /// The limits are checked after token and body.
    fn has_limit_headers(&self, code: Code) -> bool {
        self.limited && !matches!(code.status(), 400 | 401 | 413 | 500)
    }

    fn codes_by_status(&self) -> BTreeMap<u16, Vec<Code>> {
        let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        for code in Code::ALL.iter().filter(|code| self.codes.contains(code)) {
            by_status.entry(code.status()).or_default().push(*code);
        }
        by_status
    }

    pub fn to_json(&self) -> Value {
        let mut responses: Map<String, Value> =
            self.responses.iter().map(|(status, response)| (status.to_string(), response.clone())).collect();
        for (status, codes) in self.codes_by_status() {
            let response = match self.component(&codes) {
                Some(code) => reference("responses", &format!("{code:?}")),
                None => problem_response(&codes, self.has_limit_headers(codes[0])),
            };
            responses.insert(status.to_string(), response);
        }
        let security: Vec<Value> = self.security.iter().map(|scheme| json!({ *scheme: [] })).collect();
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "security": security,
            "responses": responses,
        });
        if let Some(description) = self.description {
            operation["description"] = description.into();
        }
        if !self.parameters.is_empty() {
            operation["parameters"] = json!(self.parameters);
        }
        if let Some(body) = &self.body {
            operation["requestBody"] = body.clone();
        }
        operation
    }
}
